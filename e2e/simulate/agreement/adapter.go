package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
)

const (
	metricsGroup   = "external.metrics.k8s.io"
	metricsVersion = "v1beta1"
	// settledReads is the number of times that the HPA must read its target before Settled regards the replicas as final.
	settledReads = 4
	// settledAfter is how long Settled waits for these reads. A deleted HPA reads no target, so Settled does not wait longer.
	settledAfter = 12 * time.Second
)

// adapter is a server of the external metrics API that is used instead of gpuscaler. It serves the targets that the steps of a story set.
type adapter struct {
	mu      sync.Mutex
	targets map[string]int // target of each policy; a policy without a target is not in the map
	reads   map[string]int // number of reads of each policy's target
}

// serve registers the adapter with the API server of a stack.
func serve(ctx context.Context, s *stack.Stack) (*adapter, error) {
	a := &adapter{targets: map[string]int{}, reads: map[string]int{}}
	server := httptest.NewTLSServer(a)
	context.AfterFunc(ctx, server.Close)
	port, err := strconv.Atoi(server.URL[strings.LastIndex(server.URL, ":")+1:])
	if err != nil {
		return nil, err
	}
	if err := s.APIService(ctx, stack.AggregatedAPI{Group: metricsGroup, Version: metricsVersion, Namespace: "default", Service: "adapter",
		Port: port}); err != nil {
		return nil, err
	}
	return a, stack.Poll(ctx, time.Minute, func(ctx context.Context) error {
		return s.APIServiceAvailable(ctx, metricsGroup, metricsVersion)
	})
}

// ServeHTTP implements http.Handler.
func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/apis/"+metricsGroup+"/"+metricsVersion)
	if !ok {
		http.NotFound(w, r)
		return
	}
	var answer any
	if rest == "" {
		answer = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: metricsGroup + "/" + metricsVersion, APIResources: []metav1.APIResource{
				{Name: externalmetrics.MetricName, Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}}}}
	} else {
		_, policy, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
		a.mu.Lock()
		a.reads[policy]++
		target, known := a.targets[policy]
		a.mu.Unlock()
		if !known {
			http.Error(w, "no target", http.StatusServiceUnavailable)
			return
		}
		answer = external.ExternalMetricValueList{
			TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: metricsGroup + "/" + metricsVersion},
			Items: []external.ExternalMetricValue{{MetricName: externalmetrics.MetricName, Timestamp: metav1.Now(),
				Value: *resource.NewQuantity(int64(target), resource.DecimalSI)}}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // ignored, because the API server may have disconnected
}

func (a *adapter) read(policy string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads[policy]
}

// realScaled is a Deployment in the real control plane (the field stack). Its HPA reads the target from the adapter.
type realScaled struct {
	ctx     context.Context
	stack   *stack.Stack
	adapter *adapter
	name    string
}

func newRealScaled(ctx context.Context, s *stack.Stack, a *adapter, name string, replicas int32) (*realScaled, error) {
	r := &realScaled{ctx: ctx, stack: s, adapter: a, name: name}
	if err := s.Client.Create(ctx, workload.Deployment(namespace, name, replicas)); err != nil {
		return nil, err
	}
	return r, r.CreateHPA()
}

func (r *realScaled) object() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: r.name}
}

// Target implements the interface scaled.
func (r *realScaled) Target(replicas int) error {
	r.adapter.mu.Lock()
	defer r.adapter.mu.Unlock()
	if r.adapter.targets[r.name] = replicas; replicas == missing {
		delete(r.adapter.targets, r.name)
	}
	return nil
}

// Scale implements the interface scaled.
func (r *realScaled) Scale(replicas int32) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	return r.stack.Client.Patch(r.ctx, &appsv1.Deployment{ObjectMeta: r.object()}, client.RawPatch("application/merge-patch+json", patch))
}

// Replace implements the interface scaled.
func (r *realScaled) Replace(replicas int32) error {
	d := &appsv1.Deployment{ObjectMeta: r.object()}
	if err := r.stack.Client.Delete(r.ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	return r.stack.Client.Create(r.ctx, workload.Deployment(namespace, r.name, replicas))
}

func (r *realScaled) pods() (pods []corev1.Pod, err error) {
	var list corev1.PodList
	err = r.stack.Client.List(r.ctx, &list, client.InNamespace(namespace), client.MatchingLabels{"app": r.name})
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods, err
}

// DeletePod implements the interface scaled.
func (r *realScaled) DeletePod() error {
	pods, err := r.pods()
	if err != nil || len(pods) == 0 {
		return fmt.Errorf("%d pods: %w", len(pods), err)
	}
	return r.stack.Client.Delete(r.ctx, &pods[0])
}

// DeleteHPA implements the interface scaled.
func (r *realScaled) DeleteHPA() error {
	return r.stack.Client.Delete(r.ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: r.object()})
}

// CreateHPA implements the interface scaled. The HPA has the same spec as the HPA of the simulation.
func (r *realScaled) CreateHPA() error {
	api := apiserver.New(time.Now)
	target(r.name).CreateObjects(api)
	h := api.Get(apiserver.KindHPA, namespace+"/"+r.name).(*autoscalingv2.HorizontalPodAutoscaler)
	return r.stack.Client.Create(r.ctx, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: r.object(), Spec: h.Spec})
}

// Settled implements the interface scaled.
func (r *realScaled) Settled() (replicas, pods int32, err error) {
	began, before := time.Now(), r.adapter.read(r.name)
	err = stack.Poll(r.ctx, 2*time.Minute, func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := r.stack.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.name}, &d); err != nil {
			return err
		}
		running, err := r.pods()
		if err != nil {
			return err
		}
		replicas, pods = *d.Spec.Replicas, int32(len(running))
		if pods != replicas {
			return fmt.Errorf("%d pods of %d", pods, replicas)
		}
		if n := r.adapter.read(r.name) - before; n < settledReads && time.Since(began) < settledAfter {
			return fmt.Errorf("the HPA has read the target %d times", n)
		}
		return nil
	})
	return replicas, pods, err
}
