// Package hpacheck compares the replay's simulation of the HPA with the code of Kubernetes. It compares single computations with the
// ReplicaCalculator, and sequences of replicas with the HorizontalController on a simulated clock.
package hpacheck

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
)

const samples = 10_000

// said is a fake metrics client of the HPA controller. It returns the values that a test sets.
type said struct {
	external []int64
	pods     metrics.PodMetricsInfo
}

func (s *said) GetResourceMetric(context.Context, v1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time,
	error) {
	panic("resource metrics are not used")
}

// GetRawMetric returns a copy, because the calculator deletes the pods that it ignores.
func (s *said) GetRawMetric(string, string, labels.Selector, labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	out := metrics.PodMetricsInfo{}
	for name, metric := range s.pods {
		out[name] = metric
	}
	return out, time.Time{}, nil
}

func (s *said) GetObjectMetric(string, string, *autoscalingv2.CrossVersionObjectReference, labels.Selector) (int64, time.Time, error) {
	panic("object metrics are not used")
}

func (s *said) GetExternalMetric(string, string, labels.Selector) ([]int64, time.Time, error) {
	return s.external, time.Time{}, nil
}

// tolerances converts tolerances for increases and decreases to the Kubernetes type. The conversion is unsafe, because the fields of this
// type are not exported.
func tolerances(t hpa.Tolerances) podautoscaler.Tolerances {
	return *(*podautoscaler.Tolerances)(unsafe.Pointer(&t))
}

// cluster contains the pods that the ReplicaCalculator reads, and the metric values of some of these pods.
type cluster struct {
	indexer cache.Indexer
	client  *said
	pods    int
	sum     int64
}

func newCluster() *cluster {
	return &cluster{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		client: &said{pods: metrics.PodMetricsInfo{}}}
}

// add adds n pods. The function value returns the metric of one pod. If value is nil, the pods have no metric.
func (c *cluster) add(t *testing.T, n int, phase v1.PodPhase, ready bool, value func() int64) {
	status := v1.ConditionFalse
	if ready {
		status = v1.ConditionTrue
	}
	for range n {
		name := fmt.Sprint("pod-", c.pods)
		c.pods++
		if err := c.indexer.Add(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Labels: map[string]string{"app": "chat"}},
			Status: v1.PodStatus{Phase: phase, StartTime: &metav1.Time{},
				Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: status}}}}); err != nil {
			t.Fatal(err)
		}
		if value != nil {
			v := value()
			c.sum += v
			c.client.pods[name] = metrics.PodMetric{Value: v}
		}
	}
}

func (c *cluster) calculator() *podautoscaler.ReplicaCalculator {
	return podautoscaler.NewReplicaCalculator(c.client, corelisters.NewPodLister(c.indexer), 5*time.Minute, 30*time.Second)
}

func drawTolerances(r *rand.Rand) hpa.Tolerances {
	switch r.IntN(3) {
	case 0:
		return hpa.Tolerances{}
	case 1:
		return hpa.Tolerances{Down: float64(r.IntN(300)) / 1000, Up: float64(r.IntN(300)) / 1000}
	}
	return hpa.DefaultTolerances
}

func TestAverageValueIsKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := newCluster()
	calculator := c.calculator()
	for n := range samples {
		tol, current, target := drawTolerances(r), int32(r.IntN(120)), int64(1+r.IntN(3000))
		// The usage is close to the target, so that the tolerance determines whether the replicas change.
		usage := int64(float64(target) * float64(current) * (0.8 + 0.4*r.Float64()))
		if r.IntN(2) == 0 {
			usage = int64(r.IntN(400_000))
		}
		if r.IntN(2) == 0 {
			target, usage = 1000, usage/1000*1000 // in thousandths: an integer with a target of 1, as in gpuscaler's metric
		}
		c.client.external = []int64{usage}
		want, _, _, err := calculator.GetExternalPerPodMetricReplicas(current, target, "m", tolerances(tol), "team", &metav1.LabelSelector{})
		if err != nil {
			t.Fatal(err)
		}
		if got := hpa.AverageValue(usage, target, current, tol); got != want {
			t.Fatalf("sample %d: AverageValue(%d, %d, %d, %v) = %d, Kubernetes returns %d", n, usage, target, current, tol, got, want)
		}
	}
}

func TestPodsAndValueAreKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	selector := labels.SelectorFromSet(labels.Set{"app": "chat"})
	for n := range samples {
		tol, target := drawTolerances(r), int64(1+r.IntN(3000))
		c := newCluster()
		ready, unready, missing, loading := r.IntN(12), r.IntN(4), r.IntN(4), r.IntN(3)
		c.add(t, ready, v1.PodRunning, true, func() int64 { return int64(r.IntN(int(2 * target))) })
		c.add(t, loading, v1.PodRunning, false, func() int64 { return 0 })
		c.add(t, missing, v1.PodRunning, true, nil)
		c.add(t, unready, v1.PodPending, false, nil)
		all, calculator := int32(c.pods), c.calculator()

		want, _, _, err := calculator.GetMetricReplicas(all, target, "m", tolerances(tol), "team", selector, nil)
		got, ok := hpa.Pods{Sum: c.sum, Counted: int32(ready + loading), Unready: int32(unready), Missing: int32(missing),
			Current: all}.Average(target, tol)
		if (err == nil) != ok || ok && got != want {
			t.Fatalf("sample %d: %d ready, %d loading, %d missing, %d unready, sum %d, target %d: %d %v, Kubernetes returns %d %v",
				n, ready, loading, missing, unready, c.sum, target, got, ok, want, err)
		}

		if all == 0 {
			continue // not compared: without ready pods, Kubernetes returns an error, and the replay's HPA computes nothing
		}
		usage := int64(float64(target) * (0.7 + 0.6*r.Float64()))
		if r.IntN(3) == 0 {
			usage = int64(r.IntN(10_000))
		}
		c.client.external = []int64{usage}
		current := all
		if r.IntN(5) == 0 {
			current = 0
		}
		want, _, _, err = calculator.GetExternalMetricReplicas(current, target, "m", tolerances(tol), "team", &metav1.LabelSelector{}, selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := hpa.Value(usage, target, current, int32(ready+missing), tol); got != want {
			t.Fatalf("sample %d: Value(%d, %d, %d, %d, %v) = %d, Kubernetes returns %d", n, usage, target, current, ready+missing, tol, got, want)
		}
	}
}
