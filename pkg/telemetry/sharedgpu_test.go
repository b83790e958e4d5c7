package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// sharedNodes contains the names of the nodes whose GPUs are time-sliced.
type sharedNodes map[string]bool

func (s sharedNodes) SharesGPUs(node string) bool { return s[node] }

// replicasOf simulates 12 rounds. In each round, the number of ready pods is the target of the previous round (in the first round: the
// parameter start), and the function put stores the samples of these pods. replicasOf returns the last target and the last reading of the
// GPU signal.
func replicasOf(t *testing.T, o Options, start int, put func(server *testPrometheus, at time.Time, pods []engine.Pod),
	extra ...policy.Source) (target int32, r scaling.Reading) {
	t.Helper()
	w := mean(compiled("chat", "llama", append([]policy.Source{{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"}},
		extra...)...))
	p := w.Workload.Policy
	p.MinReplicas, p.MaxReplicas, p.Signals[0].Target, p.Signals[0].Class = 1, 64, 0.7, scaling.Utilization
	if len(extra) > 0 {
		p.Signals[1].Kind, p.Signals[1].Target = scaling.Total, 10
	}
	target = int32(start)
	now := time.Now().Truncate(time.Second)
	state := scaling.Seed(p, target, now)
	for range 12 {
		server := newTestPrometheus(t)
		var pods []engine.Pod
		for i := range target {
			pods = append(pods, engine.Pod{Name: fmt.Sprintf("llama-%d", i), Node: "n", Ready: true, IP: "127.0.0.1"})
		}
		put(server, time.Now().Add(-time.Second).Truncate(time.Second), pods)
		o.Pods, o.Exporters = testPods{w.Workload.Key: pods}, onNodeN
		poller := newPoller(t, o)
		poller.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
		pollOnce(t, poller)
		readings := read(poller, w)
		now = now.Add(15 * time.Second)
		for i := range readings {
			readings[i].At = now
		}
		r = readings[0]
		var d scaling.Decision
		d, state = scaling.Decide(p, scaling.Observation{Replicas: target, Ready: target, Readings: readings, Advice: scaling.NoAdvice,
			Operator: scaling.NoOperator}, state, now)
		target = d.Replicas
	}
	return target, r
}

func gpuSeries(device, pod, more string) string {
	return fmt.Sprintf(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID=%q,gpu="0",namespace="gpu-operator",pod="dcgm-n",exported_namespace="chat",`+
		`exported_pod=%q%s}`, device, pod, more)
}

// All pods share one busy GPU, so each additional pod reports the same high activity. If this activity increased the target, the target
// would increase to the maximum, although no GPU is added.
func TestActivityOfASharedGPUHoldsAndDoesNotRaise(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		put     func(*testPrometheus, time.Time, []engine.Pod)
	}{
		"one UUID in several pods": {put: func(s *testPrometheus, at time.Time, pods []engine.Pod) {
			for _, p := range pods {
				s.put(gpuSeries("GPU-0", p.Name, ""), at, 0.95)
			}
		}},
		"one UUID in pods of two workloads": {put: func(s *testPrometheus, at time.Time, pods []engine.Pod) {
			for i, p := range pods {
				s.put(gpuSeries(fmt.Sprint("GPU-", i), p.Name, ""), at, 0.95)
			}
			s.put(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",gpu="0",namespace="gpu-operator",pod="dcgm-n",exported_namespace="batch",`+
				`exported_pod="job-0"}`, at, 0.95)
		}},
		"the exporter's label of a virtual GPU": {put: func(s *testPrometheus, at time.Time, pods []engine.Pod) {
			for i, p := range pods {
				s.put(gpuSeries(fmt.Sprint("GPU-", i), p.Name, `,vgpu="1"`), at, 0.95)
			}
		}},
		"a node whose GPUs are time-sliced": {options: Options{Nodes: sharedNodes{"n": true}},
			put: func(s *testPrometheus, at time.Time, pods []engine.Pod) {
				for i, p := range pods {
					s.put(gpuSeries(fmt.Sprint("GPU-", i), p.Name, ""), at, 0.95)
				}
			}},
	} {
		if got, r := replicasOf(t, c.options, 4, c.put); got != 4 || !r.Known || !r.Shared || !near(r.Value, 0.95) {
			t.Errorf("%s: from 4 to %d replicas, reading %+v, want 4 and a known shared activity of 95%%", name, got, r)
		}
	}
}

// Each pod has a GPU that another pod held in the previous scrape. Such a GPU is not shared, so its activity increases the target.
func TestGPUHeldByOnePodAfterAnotherIsNotShared(t *testing.T) {
	busy := 6.0 // total work of the pods, as the number of GPUs that it keeps fully busy
	got, r := replicasOf(t, Options{}, 4, func(s *testPrometheus, at time.Time, pods []engine.Pod) {
		for i, p := range pods {
			s.put(gpuSeries(fmt.Sprint("GPU-", i), p.Name, ""), at, min(busy/float64(len(pods)), 1))
			s.put(gpuSeries(fmt.Sprint("GPU-", i), "gone-"+p.Name, ""), at.Add(-15*time.Second), 1)
		}
	})
	if got != 9 || r.Shared {
		t.Errorf("%d replicas, reading %+v, want 9: six GPUs' worth of work at 70%%", got, r)
	}
}

// While the pods share a GPU, another signal must still increase the target. A low activity must still decrease it, because an idle GPU is
// idle for every pod that uses it.
func TestOtherSignalsRaiseBesideASharedGPU(t *testing.T) {
	queue := policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"}
	put := func(activity, waiting float64) func(*testPrometheus, time.Time, []engine.Pod) {
		return func(s *testPrometheus, at time.Time, pods []engine.Pod) {
			for _, p := range pods {
				s.put(gpuSeries("GPU-0", p.Name, ""), at, activity)
				s.put(fmt.Sprintf(`{__name__="vllm:num_requests_waiting",namespace="chat",pod=%q}`, p.Name), at, waiting/float64(len(pods)))
			}
		}
	}
	if got, _ := replicasOf(t, Options{}, 4, put(0.95, 70), queue); got != 7 {
		t.Errorf("70 requests wait: %d replicas, want 7", got)
	}
	if got, _ := replicasOf(t, Options{}, 4, put(0.01, 0), queue); got != 1 {
		t.Errorf("idle: %d replicas, want 1", got)
	}
}

// The exporter is scraped directly. Its page contains one GPU with two pods, so the GPU is shared.
func TestSharedGPUIsFoundOnAnExportersPage(t *testing.T) {
	server := newPodServer(t)
	server.does(text("DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-0\",namespace=\"chat\",pod=\"llama-0\"} 0.9\n" +
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-0\",namespace=\"batch\",pod=\"job-0\"} 0.9\n"))
	w := mean(compiled("chat", "llama", policy.Source{Type: policy.SourceDCGM, DataSource: "pods", Metric: "activity"}))
	source := server.source(policy.SourceDCGM)
	source.PodsIn, source.PodLabels = "gpu-operator", map[string]string{"app": "dcgm"}
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: readyPods("llama-0")}, LoopbackPods: true, Exporters: onNodeN})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(source))
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || !r.Shared {
		t.Errorf("%+v, want a shared GPU", r)
	}
}

// A tenant's pod serves a metric with the UUID of a GPU of another pod. This must not mark the GPU as shared, which would prevent the other
// workload from scaling up.
func TestAnUndeclaredPodCannotMakeAGPUShared(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-time.Second).Truncate(time.Second)
	server.put(gpuSeries("GPU-0", "llama-0", ""), at, 0.9)
	server.put(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",gpu="0",namespace="evil",pod="evil-0"}`, at, 0.9)
	server.put(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-0",gpu="0",vgpu="1",namespace="evil",pod="evil-0",exported_namespace="chat",`+
		`exported_pod="llama-0"}`, at, 0.9)
	w := mean(compiled("chat", "llama", policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"}))
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: readyPods("llama-0")}, Exporters: onNodeN})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Shared {
		t.Errorf("%+v, want a GPU of its own", r)
	}
}
