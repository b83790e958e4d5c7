package policy

import (
	"os"
	"path/filepath"
	"testing"
)

// A counter's growth is told from a state by its query alone, and how many of its units are one a second.
func TestAQueryThatAsksHowFastACounterGrows(t *testing.T) {
	for query, want := range map[string]float64{
		`rate(gateway_requests_total[1m])`:                                             1,
		`sum(rate(gateway_requests_total{namespace="team"}[1m]))`:                      1,
		`sum by (namespace, pool) (irate(gateway_requests_total[1m]))`:                 1,
		`max by (pool) (sum by (pool, pod) (rate(requests_total[5m])))`:                1,
		`sum(increase(gateway_requests_total[1m]))`:                                    60,
		`sum(increase(rate:five[10m:1m]))`:                                             600,
		`sum(increase(gateway_requests_total[5m])) / 300`:                              1,
		`60 * sum(rate(gateway_requests_total[1m]))`:                                   60,
		`(sum(rate(a[1m]))) * (0.5)`:                                                   0.5,
		`label_replace(sum by (a) (rate(x_total[1m])), "b", "$1", "a", "(.*)")`:        1,
		`sum by (ns) (rate(x_total[1m])) or vector(0)`:                                 1,
		`clamp_min(sum(rate(x_total[1m])), 1)`:                                         1,
		`sum(rate(seconds_sum[1m])) / sum(rate(seconds_count[1m]))`:                    0, // a mean wait
		`1 - sum(rate(errors_total[1m]))`:                                              0,
		`count(rate(x_total[1m]))`:                                                     0, // how many series, not how fast
		`topk(1, rate(x_total[1m]))`:                                                   0,
		`histogram_quantile(0.9, sum by (le) (rate(x_bucket[1m])))`:                    0,
		`sum(gateway_queue_size)`:                                                      0,
		`sum(gateway_queue_size) + sum(rate(x_total[1m]))`:                             0,
		`avg_over_time(sum(rate(x_total[1m]))[5m:])`:                                   0,
		`sum(deriv(x[1m]))`:                                                            0,
		`sum(rate(x_total[1m])) or sum(queue)`:                                         0,
		`sum(rate(`:                                                                    0,
		``:                                                                             0,
		`sum(max_over_time(queue[1m])) > 0`:                                            0,
		`0 * sum(rate(x_total[1m]))`:                                                   0,
		`Inf * sum(rate(x_total[1m]))`:                                                 0,
		`NaN * sum(rate(x_total[1m]))`:                                                 0,
		`sum(rate(x_total[1m])) / 0`:                                                   0,
		`sum(rate(x_total[1m] offset 1w))`:                                             1,
		`sum(rate(x_total[1m] @ end()))`:                                               1,
		`sum without (pod) (rate({__name__="gateway:requests_total", pool="a"}[30s]))`: 1,
	} {
		s := Source{Type: SourcePrometheus, Query: query}
		if g, is := s.PerSecond(); g.Units != want || is != (want > 0) {
			t.Errorf("%s: %v, %v; want %v", query, g.Units, is, want)
		}
	}
	other := Source{Type: SourceExternal, Query: "rate(x[1m])"}
	if _, is := other.PerSecond(); is {
		t.Error("a source of another type has no query")
	}
}

// Only a sum is a total: a mean over pods is what one of them has, and so are the most and the least, unless each looks at one series only.
func TestHowMuchOfAGrowthAQueryAnswers(t *testing.T) {
	for query, want := range map[string]Share{
		`rate(x_total[1m])`: Unsaid,
		`label_replace(rate(x_total[1m]), "b", "$1", "a", "(.*)") * 60`: Unsaid,
		`sum(rate(x_total[1m]))`:                                        All,
		`60 * (sum by (ns) (rate(x_total[1m]))) or vector(0)`:           All,
		`sum(avg by (pod) (rate(x_total[1m])))`:                         All,
		`avg(rate(x_total[1m]))`:                                        OfOne,
		`clamp_min(avg by (ns) (increase(x_total[1m])) / 60, 0)`:        OfOne,
		`max(rate(x_total[1m]))`:                                        OfOne,
		`min by (ns) (rate(x_total[1m]))`:                               OfOne,
		`max by (pool) (sum by (pool, pod) (rate(x_total[1m])))`:        OfOne,
		`avg(sum without (le) (rate(x_total[1m])))`:                     OfOne,
		`max(sum(rate(x_total[1m])))`:                                   All, // of one series that is a sum already
		`avg by (ns, pool) ((sum by (ns) (rate(x_total[1m]))))`:         All,
		`sum by (ns) (avg by (ns) (rate(x_total[1m])))`:                 OfOne,
		`label_replace(avg(rate(x_total[1m])), "b", "$1", "a", "(.*)")`: OfOne,
	} {
		s := Source{Type: SourcePrometheus, Query: query}
		if g, is := s.PerSecond(); !is || g.Of != want {
			t.Errorf("%s: %v, %v; want %v", query, g.Of, is, want)
		}
	}
}

// The selector that `rate: 30s` compiles to is one, and so is a query of the platform's; a gauge is none.
func TestWhatPoliciesCompileToIsToldApart(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"platform.yaml": `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: p}
spec:
  cluster: c
  dataSources: [{name: prom, type: prometheus, default: true, address: "http://prom:9090", matchers: {cluster: c}}]
  queries: [{name: asked, source: prom, query: "sum by (namespace, pool) (rate(asked_total[1m]))", workloadLabel: pool}]
`,
		"chat.yaml": `apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: chat, namespace: team}
spec:
  scaleTargetRef: {name: chat}
  minReplicas: 1
  maxReplicas: 4
  signals:
  - {name: rate, type: prometheus, metric: requests_total, rate: 30s, target: 1}
  - {name: asked, type: prometheus, queryRef: asked, target: 1}
  - {name: queue, type: prometheus, metric: waiting, target: 1}
  - {name: each, type: prometheus, metric: requests_total, rate: 1m, metricType: Value, target: 1}
`} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := NewStore(Options{})
	if r := store.Load(folder); Errors(r.Problems) > 0 {
		t.Fatal(Render(r.Problems))
	}
	sources := store.Compiled()[0].Sources
	for i, want := range []Growth{{1, All}, {1, All}, {}, {1, OfOne}} {
		if g, is := sources[i].PerSecond(); g != want || is != (want.Units > 0) {
			t.Errorf("%s: %v, want %v", sources[i].Query, g, want)
		}
	}
}
