package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
)

// promql.PerSecond must recognize the query of a signal with `rate: 30s`, and a query of the PlatformConfig with rate(). It must not
// recognize a query of a gauge.
func TestQueriesOfPoliciesAreRecognizedAsRates(t *testing.T) {
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
	policies := New(Options{})
	if r := policies.Load(folder); policy.Errors(r.Problems) > 0 {
		t.Fatal(policy.Render(r.Problems))
	}
	sources := policies.Compiled()[0].Sources
	for i, want := range []promql.CounterRate{{PerSecond: 1, Aggregation: promql.Total, Window: 30 * time.Second},
		{PerSecond: 1, Aggregation: promql.Total, Window: time.Minute}, {}, {PerSecond: 1, Aggregation: promql.PerSeries, Window: time.Minute}} {
		if g, is := promql.PerSecond(sources[i].Query); g != want || is != (want.PerSecond > 0) {
			t.Errorf("%s: %v, want %v", sources[i].Query, g, want)
		}
	}
}
