package telemetry

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestTenThousandPoliciesOverThreeTemplatesCostAtMostTwelveQueriesARound(t *testing.T) {
	server := newFaulty(t)
	queries := 0
	server.does(func(w http.ResponseWriter, _ *http.Request) {
		queries++
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	})
	var all []*policy.Compiled
	pods := testPods{}
	for i := range 10_000 {
		ns, name := fmt.Sprintf("team-%d", i%100), fmt.Sprintf("llama-%d", i)
		template := querySource()
		template.QueryName = fmt.Sprintf("template-%d", i%3)
		template.Query = fmt.Sprintf(`sum by (namespace, pool) (queue_size_%d)`, i%3)
		c := compiled(ns, name, template,
			policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"},
			policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "kvCacheUsage"},
			policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "timeToFirstToken", Quantile: 0.95, Window: 2 * time.Minute},
			policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"},
			policy.Source{Type: policy.SourceKueue, LocalQueue: "batch"})
		pods[c.Workload.Key] = readyPods(name + "-0")
		all = append(all, c)
	}
	p := newPoller(t, Options{Pods: pods})
	p.SetPolicies(all, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if queries < 3 || queries > 12 {
		t.Errorf("%d queries in a round, want at most 12", queries)
	}
	t.Logf("%d queries: 3 templates, gauges, latencies, GPUs and Kueue for 10,000 policies with 6 signals each", queries)
}

func TestSelectorsOfOneShapeAreOneQuery(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
	old := at.Add(-3 * time.Minute)
	type tenant struct{ namespace, queue string }
	tenants := []tenant{{"a", "x"}, {"a", "y.z"}, {"b", "x"}, {"b", `q"u\o+te`}}
	var all []*policy.Compiled
	for i, x := range tenants {
		for pod := range 2 {
			server.put(fmt.Sprintf(`jobs{namespace=%q,queue=%q,pod="p%d",cluster="c"}`, x.namespace, x.queue, pod), at, float64(10*i+pod))
		}
		source := policy.Source{Type: policy.SourcePrometheus, DataSource: "prom", NamespaceLabel: "namespace",
			Query: fmt.Sprintf(`sum by (namespace) (jobs{cluster="c",namespace=%q,queue=%q})`, x.namespace, x.queue)}
		all = append(all, compiled(x.namespace, fmt.Sprintf("w%d", i), source))
	}
	server.put(`jobs{namespace="a",queue="y",pod="p0",cluster="c"}`, old, 1000) // no policy has a selector for queue y
	server.put(`jobs{namespace="b",queue="x",pod="p0",cluster="d"}`, at, 1000)  // no policy selects cluster d
	p := newPoller(t, Options{})
	p.SetPolicies(all, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if q := server.asked(); len(q) != 1 {
		t.Errorf("%d queries for one shape: %v", len(q), q)
	}
	for i, c := range all {
		if r := read(p, c)[0]; !r.Known || r.Value != float64(20*i+1) || !r.At.Equal(at) {
			t.Errorf("%v reads %+v, want %d", tenants[i], r, 20*i+1)
		}
	}
}

func TestValueOfAQueryHasTheTimeOfItsOldestSample(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	young, old := now.Add(-10*time.Second), now.Add(-200*time.Second)
	for _, c := range []struct {
		name, query string
		put         map[string]time.Time
		want        time.Time
	}{
		{"one of two pods is old", poolQuery,
			map[string]time.Time{`queue_size{namespace="chat",pool="llama",pod="a"}`: young,
				`queue_size{namespace="chat",pool="llama",pod="b"}`: old}, old},
		{"another workload's is old", poolQuery,
			map[string]time.Time{`queue_size{namespace="chat",pool="llama"}`: young, `queue_size{namespace="chat",pool="other"}`: old}, young},
		{"the divisor is old", `sum by (namespace, pool) (a) / sum by (namespace, pool) (b)`,
			map[string]time.Time{`a{namespace="chat",pool="llama"}`: young, `b{namespace="chat",pool="llama"}`: old}, old},
		{"a rate", `sum by (namespace, pool) (rate(a[5m]))`,
			map[string]time.Time{`a{namespace="chat",pool="llama"}`: young}, young},
		{"renamed labels: the oldest of the namespace", `label_replace(sum by (namespace, p) (a), "pool", "$1", "p", "(.*)")`,
			map[string]time.Time{`a{namespace="chat",p="llama"}`: young, `a{namespace="chat",p="other"}`: old,
				`a{namespace="far",p="llama"}`: old.Add(-time.Minute)}, old},
		{"what is compared with the past may be old", `sum by (namespace, pool) (a) - sum by (namespace, pool) (a offset 30s)`,
			map[string]time.Time{`a{namespace="chat",pool="llama"}`: young}, young},
		{"several names", `sum by (namespace, pool) ({__name__=~"a|b"})`,
			map[string]time.Time{`a{namespace="chat",pool="llama"}`: young, `b{namespace="chat",pool="llama"}`: old}, old},
		{"names by a pattern cannot be asked for their age", `sum by (namespace, pool) ({__name__=~"a|b.*"})`,
			map[string]time.Time{`a{namespace="chat",pool="llama"}`: young, `b{namespace="chat",pool="llama"}`: old}, now},
	} {
		server := newTestPrometheus(t)
		server.now = func() time.Time { return now }
		for series, at := range c.put {
			server.put(series, at.Add(-time.Minute), 1)
			server.put(series, at, 2)
		}
		source := querySource()
		source.Query = c.query
		w := compiled("chat", "llama", source)
		p := newPoller(t, Options{})
		p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
		pollOnce(t, p)
		if r := read(p, w)[0]; !r.Known || !r.At.Equal(c.want) {
			t.Errorf("%s: %+v, want the age of %v", c.name, r, c.want)
		}
	}
}

// putLatencies stores vLLM's histogram of the time to first token, as the samples of one scrape. The histogram contains a number of
// requests (the parameter count), each of which took the same number of seconds (the parameter took).
func putLatencies(p *testPrometheus, pod string, at time.Time, count int, took float64) {
	const name = "vllm:time_to_first_token_seconds"
	for _, le := range []string{"0.1", "0.5", "1", "+Inf"} {
		n := 0
		if upper := map[string]float64{"0.1": 0.1, "0.5": 0.5, "1": 1, "+Inf": math.Inf(1)}[le]; took <= upper {
			n = count
		}
		p.put(fmt.Sprintf(`%s_bucket{%s,le=%q}`, name, pod, le), at, float64(n))
	}
	p.put(name+"_count{"+pod+"}", at, float64(count))
	p.put(name+"_sum{"+pod+"}", at, float64(count)*took)
}

func TestLatencyByPrometheusIsThatOfAllPodsTogether(t *testing.T) {
	server := newTestPrometheus(t)
	now := time.Now().Truncate(time.Second)
	for i := range 9 { // a scrape every 15 s, over two minutes
		at := now.Add(time.Duration(i-8) * 15 * time.Second)
		// In each interval of 15 s, llama-0 serves 90 fast requests and llama-1 serves 10 slow ones. llama-2 serves no request, and no request
		// waits in llama-2.
		putLatencies(server, `namespace="chat",pod="llama-0"`, at, 90*i, 0.05)
		putLatencies(server, `namespace="chat",pod="llama-1"`, at, 10*i, 0.8)
		putLatencies(server, `namespace="chat",pod="llama-2"`, at, 7, 0.8)
		server.put(`{__name__="vllm:num_requests_waiting",namespace="chat",pod="llama-2"}`, at, 0)
		// stuck-0 has 12 waiting requests, and its histogram does not change: none of them receives its first token.
		putLatencies(server, `namespace="chat",pod="stuck-0"`, at, 7, 0.8)
		server.put(`{__name__="vllm:num_requests_waiting",namespace="chat",pod="stuck-0"}`, at, 12)
	}
	ttft := policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "timeToFirstToken", Window: 2 * time.Minute}
	p95 := ttft
	p95.Quantile = 0.95
	w := mean(compiled("chat", "llama", ttft, p95))
	// The histograms of blind-0 and blind-1 do not change either. Whether requests wait in these pods is not known: blind-0 has no gauge of
	// waiting requests, and the gauge of blind-1 is NaN.
	for i := range 9 {
		at := now.Add(time.Duration(i-8) * 15 * time.Second)
		putLatencies(server, `namespace="chat",pod="blind-0"`, at, 7, 0.8)
		putLatencies(server, `namespace="chat",pod="blind-1"`, at, 7, 0.8)
		server.put(`{__name__="vllm:num_requests_waiting",namespace="chat",pod="blind-1"}`, at, math.NaN())
	}
	blind := mean(compiled("chat", "blind", p95))
	stuck := mean(compiled("chat", "stuck", p95))
	idle := mean(compiled("chat", "idle", p95))
	p := newPoller(t, Options{Pods: testPods{
		w.Workload.Key:     readyPods("llama-0", "llama-1", "llama-2"),
		stuck.Workload.Key: readyPods("stuck-0"),
		idle.Workload.Key:  readyPods("llama-2"),
		blind.Workload.Key: readyPods("blind-0", "blind-1"),
	}})
	p.SetPolicies([]*policy.Compiled{w, stuck, idle, blind}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if q := server.asked(); len(q) != 1 {
		t.Errorf("%d queries for one latency", len(q))
	}
	r := read(p, w)
	if want := 0.9*0.05 + 0.1*0.8; !r[0].Known || math.Abs(r[0].Value-want) > 1e-9 || r[0].Coverage != 1 || !r[0].At.Equal(now) {
		t.Errorf("mean reads %+v, want %g over all requests", r[0], want)
	}
	if want := 0.5 + 0.5*0.5; !r[1].Known || math.Abs(r[1].Value-want) > 1e-9 {
		t.Errorf("p95 reads %+v, want %g: the slow tenth lies in (0.5, 1]", r[1], want)
	}
	if r := read(p, stuck)[0]; r.Known || r.Cause != scaling.CauseSentinel {
		t.Errorf("the stuck server reads %+v, want unknown: twelve requests wait, so that the latency is not 0", r)
	}
	if r := read(p, blind)[0]; r.Known {
		t.Errorf("servers without observations and without a gauge of waiting requests read %+v, want unknown", r)
	}
	if r := read(p, idle)[0]; !r.Known || r.Value != 0 {
		t.Errorf("the idle server reads %+v, want a known 0: no request waited", r)
	}
}

func TestKueueCountsActiveWorkloadsOnly(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-5 * time.Second).Truncate(time.Second)
	for series, v := range map[string]float64{
		`kueue_pending_workloads{namespace="kueue-system",cluster_queue="gpu",status="active",replica_role="leader"}`:            7,
		`kueue_pending_workloads{namespace="kueue-system",cluster_queue="gpu",status="active",replica_role="follower"}`:          6,
		`kueue_pending_workloads{namespace="kueue-system",cluster_queue="gpu",status="inadmissible"}`:                            100,
		`kueue_local_queue_pending_workloads{name="batch",exported_namespace="train",namespace="kueue-system",status="active"}`:  3,
		`kueue_local_queue_pending_workloads{name="batch",exported_namespace="others",namespace="kueue-system",status="active"}`: 50,
	} {
		server.put(series, at, v)
	}
	w := compiled("train", "worker", policy.Source{Type: policy.SourceKueue, ClusterQueue: "gpu"},
		policy.Source{Type: policy.SourceKueue, LocalQueue: "batch"}, policy.Source{Type: policy.SourceKueue, LocalQueue: "none"})
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	r := read(p, w)
	if !r[0].Known || r[0].Value != 7 || !r[0].At.Equal(at) {
		t.Errorf("ClusterQueue reads %+v, want 7", r[0])
	}
	if !r[1].Known || r[1].Value != 3 {
		t.Errorf("LocalQueue reads %+v, want 3", r[1])
	}
	if r[2].Known || r[2].Cause != scaling.CauseEmpty {
		t.Errorf("a queue that does not exist reads %+v", r[2])
	}
}

func TestReplicaOfSeveralPodsIsReadFromItsLeader(t *testing.T) {
	server := newTestPrometheus(t)
	at := time.Now().Add(-time.Second)
	server.put(`{__name__="vllm:num_requests_waiting",namespace="chat",pod="group-0"}`, at, 4)
	w := compiled("chat", "group", policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"})
	pods := []engine.Pod{{Name: "group-0", Ready: true, Leader: true}, {Name: "group-0-1", Ready: true}, {Name: "group-0-2", Ready: true}}
	p := newPoller(t, Options{Pods: testPods{w.Workload.Key: pods}})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	if r := read(p, w)[0]; !r.Known || r.Value != 4 || r.Coverage != 1 {
		t.Errorf("%+v, want the leader's 4 at full coverage", r)
	}
}
