package cache

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// large returns a cache of n workloads with four pods each, in one namespace.
func large(n int) (*Cache, []scaling.Workload) {
	w := New(0)
	workloads := make([]scaling.Workload, n)
	for i := range n {
		name := fmt.Sprintf("w%d", i)
		workloads[i] = *fixture.Workload(name)
		w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment(name, 4, "1"))))
		w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(fixture.HPA(name, name, name))))
	}
	for i := range n {
		for pod := range 4 { // put pods after the targets, because each new target searches all existing pods
			w.PutPod(fixture.Must[*Pod](TrimPod(fixture.Pod(workloads[i].Key.Name, pod, "ready"))))
		}
	}
	return w, workloads
}

func TestViewAllocatesNothing(t *testing.T) {
	w, workloads := large(3)
	if n := testing.AllocsPerRun(100, func() {
		for i := range workloads {
			if _, ok := w.View(&workloads[i]); !ok {
				t.Fatal("no view")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkTenThousandViews reads a view of each of 10,000 workloads, as one tick does.
func BenchmarkTenThousandViews(b *testing.B) {
	w, workloads := large(10_000)
	b.ReportAllocs()
	for b.Loop() {
		for i := range workloads {
			w.View(&workloads[i])
		}
	}
}

// BenchmarkPodEvent changes one pod of one of 10,000 workloads between loading and ready.
func BenchmarkPodEvent(b *testing.B) {
	w, _ := large(10_000)
	ready := fixture.Must[*Pod](TrimPod(fixture.Pod("w77", 1, "ready")))
	loading := fixture.Must[*Pod](TrimPod(fixture.Pod("w77", 1, "loading")))
	b.ReportAllocs()
	for b.Loop() {
		w.PutPod(loading)
		w.PutPod(ready)
	}
}

// BenchmarkPodMemory reports how much memory the cache uses per pod, for pods of a typical size.
func BenchmarkPodMemory(b *testing.B) {
	const pods = 20_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		w := New(0)
		for i := range pods {
			p := fixture.Pod(fmt.Sprintf("w%d", i), 1, "ready")
			p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(string(make([]byte, 4096)))}}
			p.Spec.Containers = []corev1.Container{{Name: "server", Env: make([]corev1.EnvVar, 30)}}
			w.PutPod(fixture.Must[*Pod](TrimPod(p)))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/pods, "B/pod")
		runtime.KeepAlive(w)
	}
}
