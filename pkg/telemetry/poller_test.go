package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// testPods lists pods by workload.
type testPods map[scaling.Key][]engine.Pod

func (p testPods) Pods(w *scaling.Workload) []engine.Pod { return p[w.Key] }

func readyPods(names ...string) []engine.Pod {
	var out []engine.Pod
	for _, n := range names {
		out = append(out, engine.Pod{Name: n, Ready: true, IP: "127.0.0.1", Node: "n"})
	}
	return out
}

// compiled returns a policy with one signal for each of the given sources. The value of each signal is a total over the workload, not a
// mean.
func compiled(namespace, name string, sources ...policy.Source) *policy.Compiled {
	p := &scaling.Policy{}
	for i, s := range sources {
		p.Signals = append(p.Signals, scaling.Signal{
			Name: fmt.Sprintf("s%d", i), Type: string(s.Type), Target: 1, MaxAge: 2 * time.Minute, MinCoverage: 0.8,
		})
	}
	return &policy.Compiled{
		Workload: scaling.Workload{Key: scaling.Key{Namespace: namespace, Name: name}, Target: scaling.Target{Name: name}, Policy: p},
		Sources:  sources,
	}
}

func mean(c *policy.Compiled) *policy.Compiled {
	for i := range c.Workload.Policy.Signals {
		c.Workload.Policy.Signals[i].Kind = scaling.Mean
	}
	return c
}

func promSource(url string) policy.DataSource {
	return policy.DataSource{Name: "prom", Type: policy.DataPrometheus, Default: true, Address: url, Interval: time.Minute,
		Timeout: time.Minute, Exporters: policy.DefaultExporters()}
}

func platformOf(sources ...policy.DataSource) *policy.Platform {
	return &policy.Platform{DataSources: sources}
}

const poolQuery = `sum by (namespace, pool) (queue_size)`

func querySource() policy.Source {
	return policy.Source{Type: policy.SourcePrometheus, DataSource: "prom", QueryName: "q", Query: poolQuery, WorkloadLabel: "pool",
		NamespaceLabel: "namespace"}
}

// pollOnce polls every group once, in the caller's goroutine.
func pollOnce(t testing.TB, p *Poller) {
	t.Helper()
	p.mu.Lock()
	groups, platform := p.plan.groups, p.plan.platform
	p.mu.Unlock()
	p.sources.update(platform)
	for key, g := range groups {
		r, ok := p.runners[key]
		if !ok {
			r = newRunner(g, p)
			p.runners[key] = r
		}
		r.group.Store(g)
		r.poll(context.Background())
	}
}

func newPoller(t testing.TB, o Options) *Poller {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.sources.close)
	return p
}

func read(p *Poller, c *policy.Compiled) []scaling.Reading {
	out := make([]scaling.Reading, len(c.Sources))
	p.Read(&c.Workload, out)
	return out
}

func TestOneQueryServesEveryWorkloadThatSharesItsTemplate(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
	var all []*policy.Compiled
	for i := range 300 {
		ns, name := fmt.Sprintf("team-%d", i%7), fmt.Sprintf("llama-%d", i)
		server.put(fmt.Sprintf(`queue_size{namespace=%q,pool=%q,pod="gateway-0"}`, ns, name), at, float64(i))
		all = append(all, compiled(ns, name, querySource()))
	}
	p := newPoller(t, Options{})
	p.SetPolicies(all, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if n := len(server.asked()); n != 1 {
		t.Errorf("%d queries for one template, want 1", n)
	}
	for i, c := range all {
		r := read(p, c)[0]
		if !r.Known || r.Value != float64(i) || !r.At.Equal(at) || r.Coverage != 1 || r.Reported != -1 {
			t.Fatalf("%s reads %+v, want %d taken at %v", c.Workload.Key, r, i, at)
		}
	}
}

func TestSampleOfAnExporterThatStoppedHasItsOwnAge(t *testing.T) {
	server := newTestPrometheus(t)
	died := time.Now().Add(-4 * time.Minute).Truncate(time.Second)
	server.put(`queue_size{namespace="chat",pool="llama"}`, died, 3)
	c := compiled("chat", "llama", querySource())
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{c}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if r := read(p, c)[0]; !r.Known || r.Value != 3 || !r.At.Equal(died) {
		t.Errorf("reads %+v, want 3 taken at %v: Prometheus still responds, but the sample is old", r, died)
	}
}

func TestGaugesOfPodsAreCombinedWithTheirCoverage(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-5 * time.Second).Truncate(time.Second)
	for i, name := range []string{"vllm:num_requests_waiting", "vllm_num_requests_waiting"} {
		server.put(fmt.Sprintf(`{__name__=%q,namespace="chat",pod="llama-%d",model_name="a"}`, name, i), at, 5)
		server.put(fmt.Sprintf(`{__name__=%q,namespace="chat",pod="llama-%d",model_name="b"}`, name, i), at, 2)
		server.put(fmt.Sprintf(`{__name__="vllm:kv_cache_usage_perc",namespace="chat",pod="llama-%d"}`, i), at, 0.4+0.2*float64(i))
	}
	c := compiled("chat", "llama",
		policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"},
		policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "kvCacheUsage"})
	c.Workload.Policy.Signals[1].Kind = scaling.Mean
	p := newPoller(t, Options{Pods: testPods{c.Workload.Key: readyPods("llama-0", "llama-1", "llama-2")}})
	p.SetPolicies([]*policy.Compiled{c}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if n := len(server.asked()); n != 1 {
		t.Errorf("%d queries, want one for both gauges", n)
	}
	r := read(p, c)
	if !r[0].Known || r[0].Value != 14 || r[0].Reported != 2 || r[0].Coverage != 2.0/3 || !r[0].At.Equal(at) {
		t.Errorf("queue reads %+v, want 14 from 2 of 3 pods", r[0])
	}
	if !r[1].Known || !(r[1].Value >= 0.499 && r[1].Value <= 0.501) {
		t.Errorf("cache reads %+v, want the mean 0.5", r[1])
	}
}

func TestGPUsAreAttributedByTheLabelsOfTheExporter(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-5 * time.Second).Truncate(time.Second)
	for i, v := range []float64{0.9, 0.5, 0.1} {
		server.put(fmt.Sprintf(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-%d",gpu="%d",namespace="gpu-operator",pod="dcgm-n",`+
			`exported_namespace="chat",exported_pod="llama-%d"}`, i, i, i/2), at, v)
		server.put(fmt.Sprintf(`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-%d",gpu="%d",namespace="gpu-operator",pod="dcgm-n",exported_namespace="chat",`+
			`exported_pod="llama-%d"}`, i, i, i/2), at, 100)
	}
	server.put(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-9",gpu="9",namespace="gpu-operator",pod="dcgm-n"}`, at, 1)
	c := mean(compiled("chat", "llama", policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"}))
	p := newPoller(t, Options{Pods: testPods{c.Workload.Key: readyPods("llama-0", "llama-1")}, Exporters: onNodeN})
	p.SetPolicies([]*policy.Compiled{c}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	r := read(p, c)[0]
	if want := (0.7 + 0.1) / 2; !r.Known || !(r.Value >= want-1e-9 && r.Value <= want+1e-9) || r.Reported != 2 || r.Coverage != 1 {
		t.Errorf("reads %+v, want %g: the mean over pods of the mean over their GPUs", r, want)
	}
}

// statuses returns the status of every group that was polled at least once, in a fixed order.
func statuses(p *Poller) []pollStatus {
	p.mu.Lock()
	var out []pollStatus
	for _, r := range p.runners {
		r.mu.Lock()
		if !r.status.At.IsZero() {
			out = append(out, r.status)
		}
		r.mu.Unlock()
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b pollStatus) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Poll, b.Poll), cmp.Compare(a.Name, b.Name))
	})
	return out
}
