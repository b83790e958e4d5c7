package exporter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Workload is a set of pods whose metrics an Exporter serves.
type Workload struct {
	Namespace, Name string            // Name is also the value of the label inference_pool in the gateway's metrics
	Selector        map[string]string // selector of its pods
	Container       string
	Model           string // vLLM's model_name
	GPUs            int    // GPUs of each pod
	MetricsPort     int    // port of /metrics on each ready pod's address; 0: none
	Load            Load

	mu   sync.Mutex
	pods map[string]Pod
	came int // number of pods that the exporter has found since its start, including deleted pods
}

// Pod is a scheduled pod of a workload.
type Pod struct {
	Name, Node, IP string
	Image          string // image of its first container
	Ready          bool

	odd bool // true for every second pod; the fault HalfPods hides these pods
}

// Pods returns the scheduled pods, by name.
func (w *Workload) Pods() []Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := make([]Pod, 0, len(w.pods))
	for _, p := range w.pods {
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods
}

func (w *Workload) valuesAt(now time.Time) Values {
	ready := 0
	for _, p := range w.Pods() {
		if p.Ready {
			ready++
		}
	}
	return w.Load.At(now, ready)
}

// refresh reads which pods are scheduled and which pods are ready. It returns true if there is a change.
func (w *Workload) refresh(ctx context.Context, c client.Reader) (bool, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(w.Namespace), client.MatchingLabels(w.Selector)); err != nil {
		return false, fmt.Errorf("the pods of %s/%s: %w", w.Namespace, w.Name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := map[string]Pod{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		known, old := w.pods[pod.Name]
		if !old {
			w.came++
			known.odd = w.came%2 == 1
		}
		pods[pod.Name] = Pod{Name: pod.Name, Node: pod.Spec.NodeName, IP: pod.Status.PodIP, Image: pod.Spec.Containers[0].Image,
			Ready: isReady(pod), odd: known.odd}
	}
	if maps.Equal(w.pods, pods) {
		return false, nil
	}
	w.pods = pods
	return true, nil
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
