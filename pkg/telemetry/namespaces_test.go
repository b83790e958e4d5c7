package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// add appends new series with one sample each. Unlike put, it does not search for an existing series, which would be slow for thousands of
// series.
func (p *testPrometheus) add(at time.Time, v float64, all ...labels.Labels) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range all {
		p.series = append(p.series, &testSeries{l, []testSample{{at.UnixMilli(), v}}})
	}
}

// selectorSource returns the source that package policy compiles from a selector in a tenant's policy.
func selectorSource(namespace, metric string, match map[string]string) policy.Source {
	ms := []*labels.Matcher{}
	for name, value := range match {
		ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, name, value))
	}
	text := make([]string, 0, len(ms))
	for _, m := range ms {
		text = append(text, m.String())
	}
	return policy.Source{Type: policy.SourcePrometheus, DataSource: "prom", NamespaceLabel: "namespace",
		Query: fmt.Sprintf(`sum by (namespace) (%s{%s,namespace=%q})`, metric, strings.Join(text, ","), namespace)}
}

// victimAt returns three results: a Prometheus server with samples, a policy of namespace victim whose signals read these samples, and the
// pods of the policy's workload. The policy uses each kind of query that namespaces share.
func victimAt(t *testing.T, at time.Time) (*testPrometheus, *policy.Compiled, testPods) {
	t.Helper()
	server := newTestPrometheus(t)
	server.put(`queue_size{namespace="victim",pool="llama",pod="gateway-0"}`, at, 7)
	server.put(`jobs{namespace="victim",queue="x",kind="a",pod="p0"}`, at, 11)
	server.put(`{__name__="vllm:num_requests_waiting",namespace="victim",pod="llama-0"}`, at, 13)
	server.put(`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1",namespace="gpu-operator",pod="dcgm-n",exported_namespace="victim",`+
		`exported_pod="llama-0"}`, at, 0.5)
	server.put(`kueue_local_queue_pending_workloads{name="batch",exported_namespace="victim",namespace="kueue-system",status="active"}`, at,
		17)
	for i := range 9 {
		then := at.Add(time.Duration(i-8) * 15 * time.Second)
		putLatencies(server, `namespace="victim",pod="llama-0"`, then, 10*i, 0.8)
	}
	w := compiled("victim", "llama", querySource(),
		selectorSource("victim", "jobs", map[string]string{"queue": "x", "kind": "a"}),
		policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"},
		policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"},
		policy.Source{Type: policy.SourceKueue, LocalQueue: "batch"},
		policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "timeToFirstToken", Window: 2 * time.Minute})
	for i := range 8 { // other namespaces that use the shared queries
		calm := fmt.Sprintf("calm-%d", i)
		server.put(fmt.Sprintf(`queue_size{namespace=%q,pool="llama",pod="gateway-0"}`, calm), at, 1)
	}
	w.Workload.Policy.Signals[3].Kind, w.Workload.Policy.Signals[5].Kind = scaling.Mean, scaling.Mean
	return server, w, testPods{w.Workload.Key: readyPods("llama-0")}
}

var victimValues = []float64{7, 11, 13, 0.5, 17, 0.8}

// smallSource returns a data source whose limits are a tenth of the defaults, so that the tests take a tenth of the time.
func smallSource(url string) policy.DataSource {
	d := promSource(url)
	d.MaxSeries, d.MaxBytes, d.Timeout = defaultMaxSeries/10, defaultMaxBytes/10, 30*time.Second
	return d
}

// checkVictim checks that every signal of the victim has the value in victimValues, and that its samples are not older than a minute at the
// time at.
func checkVictim(t *testing.T, p *Poller, w *policy.Compiled, at time.Time, when string) {
	t.Helper()
	for i, r := range read(p, w) {
		d := r.Value - victimValues[i]
		if !r.Known || d > 1e-9 || d < -1e-9 || r.Failures != 0 || r.At.Before(at.Add(-time.Minute)) {
			t.Errorf("%s: signal %d of the victim reads %+v, want %g", when, i, r, victimValues[i])
		}
	}
}

// checkOffender checks that namespace evil, and no other namespace, is reported as exceeding the given limit.
func checkOffender(t *testing.T, p *Poller, limit string) {
	t.Helper()
	var got []string
	for _, o := range p.LimitViolations() {
		got = append(got, o.Namespace+" "+string(o.Limit))
		if o.Namespace != "evil" {
			t.Errorf("%+v is reported, although its namespace is within its limits", o)
		}
	}
	if !strings.Contains(strings.Join(got, ","), "evil "+limit) {
		t.Errorf("reported are %v, want namespace evil for its %s", got, limit)
	}
}

func evilSeries(n int, of func(i int) []string) []labels.Labels {
	out := make([]labels.Labels, 0, n)
	for i := range n {
		out = append(out, labels.FromStrings(of(i)...))
	}
	return out
}

// Namespace evil exports more series of a metric than one response may contain. The test repeats this for each kind of query that
// namespaces share. The signals of namespace victim must keep their values.
func TestNamespaceWithTooManySeriesDoesNotAffectOthers(t *testing.T) {
	for _, c := range []struct {
		name   string
		of     func(i int) []string
		signal policy.Source
	}{
		{"template", func(i int) []string {
			return []string{"__name__", "queue_size", "namespace", "evil", "pool", fmt.Sprint(i)}
		}, querySource()},
		{"selector", func(i int) []string {
			return []string{"__name__", "jobs", "namespace", "evil", "queue", "x", "kind", "a", "pod", fmt.Sprint(i)}
		}, selectorSource("evil", "jobs", map[string]string{"queue": "x", "kind": "a"})},
		{"gauge", func(i int) []string {
			return []string{"__name__", "vllm:num_requests_waiting", "namespace", "evil", "pod", fmt.Sprint(i)}
		}, policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"}},
		{"latency", func(i int) []string {
			return []string{"__name__", "vllm:time_to_first_token_seconds_count", "namespace", "evil", "pod", fmt.Sprint(i)}
		}, policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "timeToFirstToken", Window: 2 * time.Minute}},
		{"dcgm", func(i int) []string {
			return []string{"__name__", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "namespace", "gpu-operator", "pod", "dcgm-n", "exported_namespace",
				"evil", "exported_pod", fmt.Sprint(i), "UUID", fmt.Sprint(i)}
		}, policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"}},
		{"dcgm claimed by other pods", func(i int) []string {
			return []string{"__name__", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "namespace", "evil", "pod", fmt.Sprint(i), "exported_namespace", "victim",
				"exported_pod", "llama-0"}
		}, policy.Source{Type: policy.SourceDCGM, DataSource: "prom", Metric: "activity"}},
		{"gauge with the victim's namespace in another label", func(i int) []string {
			return []string{"__name__", "vllm:num_requests_waiting", "namespace", "evil", "pod", fmt.Sprint(i), "kubernetes_namespace", "victim",
				"exported_namespace", "victim"}
		}, policy.Source{Type: policy.SourceVLLM, DataSource: "prom", Metric: "requestsWaiting"}},
		{"kueue", func(i int) []string {
			return []string{"__name__", "kueue_local_queue_pending_workloads", "namespace", "kueue-system", "exported_namespace", "evil", "name",
				fmt.Sprint(i), "status", "active"}
		}, policy.Source{Type: policy.SourceKueue, LocalQueue: "batch"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
			server, victim, pods := victimAt(t, at)
			evil := compiled("evil", "llama", c.signal)
			pods[evil.Workload.Key] = readyPods("0")
			all := []*policy.Compiled{evil, victim}
			for i := range 8 {
				calm := compiled(fmt.Sprintf("calm-%d", i), "llama", c.signal)
				all = append(all, calm)
			}
			p := newPoller(t, Options{Pods: pods, Exporters: onNodeN})
			p.SetPolicies(all, platformOf(smallSource(server.URL)))
			pollOnce(t, p)
			checkVictim(t, p, victim, at, "before the attack")
			server.add(at, 1, evilSeries(defaultMaxSeries/10+1, c.of)...)
			for round := range 3 {
				before := len(server.asked())
				pollOnce(t, p)
				checkVictim(t, p, victim, at, fmt.Sprintf("round %d of the attack", round))
				if n := len(server.asked()) - before; round > 0 && n > 24 {
					t.Errorf("round %d of the attack took %d queries", round, n)
				}
			}
			if c.name != "selector" { // the query of a selector sums all its series to one series, so no limit is exceeded
				checkOffender(t, p, "series")
				if r := read(p, evil)[0]; r.Known || (r.Cause != scaling.CauseSeries && !strings.HasPrefix(c.name, "gauge with")) {
					t.Errorf("the offender reads %+v", r)
				}
			}
		})
	}
}

// Each of 95 policies of namespace evil selects one queue and one kind. The combined query selects every queue with every kind, and evil
// exports a series for each of these 9,025 combinations, which is more than maxSeries.
func TestNamespaceWithACrossProductOfSelectorsDoesNotAffectOthers(t *testing.T) {
	at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
	server, victim, pods := victimAt(t, at)
	all := []*policy.Compiled{victim}
	for i := range 95 {
		all = append(all, compiled("evil", fmt.Sprintf("w%d", i),
			selectorSource("evil", "jobs", map[string]string{"queue": fmt.Sprintf("q%d", i), "kind": fmt.Sprintf("k%d", i)})))
	}
	server.add(at, 1, evilSeries(95*95, func(i int) []string {
		return []string{"__name__", "jobs", "namespace", "evil", "queue", fmt.Sprintf("q%d", i%95), "kind", fmt.Sprintf("k%d", i/95)}
	})...)
	p := newPoller(t, Options{Pods: pods, Exporters: onNodeN})
	p.SetPolicies(all, platformOf(smallSource(server.URL)))
	for round := range 3 {
		pollOnce(t, p)
		checkVictim(t, p, victim, at, fmt.Sprintf("round %d", round))
	}
	checkOffender(t, p, "series")
}

// Namespace evil has 998 selectors with label values of 8 KB each. Without limits, the combined query would be longer than 10 MB, and
// Prometheus would refuse it.
func TestNamespaceWithLongLabelValuesDoesNotAffectOthers(t *testing.T) {
	at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
	server, victim, pods := victimAt(t, at)
	all := []*policy.Compiled{}
	for i := range 998 {
		all = append(all, compiled("evil", fmt.Sprintf("w%d", i),
			selectorSource("evil", "jobs", map[string]string{"kind": "a", "queue": fmt.Sprintf("%04d", i) + strings.Repeat(`\.`, 4_000)})))
	}
	all = append(all, victim)
	p := newPoller(t, Options{Pods: pods, Exporters: onNodeN})
	p.SetPolicies(all, platformOf(smallSource(server.URL)))
	for round := range 2 {
		pollOnce(t, p)
		checkVictim(t, p, victim, at, fmt.Sprintf("round %d", round))
	}
	checkOffender(t, p, "selector bytes")
	for _, q := range server.asked() {
		if len(q) > 1<<20 {
			t.Errorf("a query of %d bytes", len(q))
		}
	}
	if r := read(p, all[997])[0]; r.Known || r.Cause != scaling.CauseQuota {
		t.Errorf("a signal over the quota reads %+v", r)
	}
}

// Namespace evil has 3,000 selectors of 3,000 different metrics. Without the quota, each poll would send 3,000 queries.
func TestNamespaceWithManySelectorsDoesNotAffectOthers(t *testing.T) {
	at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
	server, victim, pods := victimAt(t, at)
	all := []*policy.Compiled{}
	for i := range 3_000 {
		all = append(all, compiled("evil", fmt.Sprintf("w%d", i), selectorSource("evil", fmt.Sprintf("metric_%d", i),
			map[string]string{"a": "b"})))
	}
	all = append(all, victim)
	p := newPoller(t, Options{Pods: pods, Exporters: onNodeN})
	p.SetPolicies(all, platformOf(smallSource(server.URL)))
	pollOnce(t, p)
	checkVictim(t, p, victim, at, "beside 3,000 selectors")
	checkOffender(t, p, "selectors")
	if n := len(server.asked()); n > DefaultQuota.Selectors+6 {
		t.Errorf("%d queries in a round", n)
	}
}

// The series of namespace evil have duplicates on both sides of a division, so Prometheus rejects the shared query for all namespaces with
// the error "many-to-many matching". The query must be divided so that the victim's signal keeps its value.
func TestNamespaceWithDuplicateSeriesDoesNotAffectOthers(t *testing.T) {
	at := time.Now().Add(-10 * time.Second).Truncate(time.Second)
	server, victim, pods := victimAt(t, at)
	template := querySource()
	template.Query = `sum by (namespace, pool) (queue_size / on (namespace, pool) queue_scale)`
	victim.Sources[0] = template
	server.put(`queue_scale{namespace="victim",pool="llama"}`, at, 1)
	for pod := range 2 {
		server.put(fmt.Sprintf(`queue_size{namespace="evil",pool="llama",pod="%d"}`, pod), at, 1)
		server.put(fmt.Sprintf(`queue_scale{namespace="evil",pool="llama",pod="%d"}`, pod), at, 1)
	}
	p := newPoller(t, Options{Pods: pods, Exporters: onNodeN})
	p.SetPolicies([]*policy.Compiled{compiled("evil", "llama", template), victim}, platformOf(smallSource(server.URL)))
	for round := range 2 {
		pollOnce(t, p)
		checkVictim(t, p, victim, at, fmt.Sprintf("round %d", round))
	}
	checkOffender(t, p, "query refused")
}
