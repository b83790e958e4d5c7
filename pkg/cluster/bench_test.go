package cluster

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// large is a cluster of n workloads with four pods each, in one namespace.
func large(n int) (*world, []scaling.Workload) {
	w := newWorld()
	workloads := make([]scaling.Workload, n)
	for i := range n {
		name := fmt.Sprintf("w%d", i)
		workloads[i] = *workload(name)
		w.putTarget(must(trimDeployment(deployment(name, 4, "1"))).(*targetFacts))
		w.putHPA(nil, must(trimHPA(exactHPA(name, name, name))).(*hpaFacts))
	}
	for i := range n {
		for pod := range 4 { // after all targets, as Run does: a target looks through the pods that are there already
			w.putPod(must(trimPod(podOf(workloads[i].Key.Name, pod, "ready"))).(*podFacts))
		}
	}
	return w, workloads
}

func TestAViewAllocatesNothing(t *testing.T) {
	w, workloads := large(3)
	if n := testing.AllocsPerRun(100, func() {
		for i := range workloads {
			if _, ok := w.view(&workloads[i]); !ok {
				t.Fatal("not seen")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// One quiet tick's share: a view of each of 10,000 workloads.
func BenchmarkTenThousandViews(b *testing.B) {
	w, workloads := large(10_000)
	b.ReportAllocs()
	for b.Loop() {
		for i := range workloads {
			w.view(&workloads[i])
		}
	}
}

// One pod of one of 10,000 workloads becomes Ready.
func BenchmarkPodEvent(b *testing.B) {
	w, _ := large(10_000)
	ready, loading := must(trimPod(podOf("w77", 1, "ready"))).(*podFacts), must(trimPod(podOf("w77", 1, "loading"))).(*podFacts)
	b.ReportAllocs()
	for b.Loop() {
		w.putPod(loading)
		w.putPod(ready)
	}
}

// What one pod of a real size (managed fields, environment, volumes left out) keeps in memory.
func BenchmarkPodMemory(b *testing.B) {
	const pods = 20_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		w := newWorld()
		for i := range pods {
			p := podOf(fmt.Sprintf("w%d", i), 1, "ready")
			p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(string(make([]byte, 4096)))}}
			p.Spec.Containers = []corev1.Container{{Name: "server", Env: make([]corev1.EnvVar, 30)}}
			w.putPod(must(trimPod(p)).(*podFacts))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/pods, "B/pod")
		runtime.KeepAlive(w)
	}
}
