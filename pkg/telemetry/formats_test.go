package telemetry

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// everySignal is a PlatformConfig and a policy with each type of signal.
const everySignal = `
apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  dataSources:
  - {name: prom, type: prometheus, default: true, address: "http://127.0.0.1:1", matchers: {cluster: prod}}
  - {name: redis-embed, type: redis, address: "127.0.0.1:1", namespaces: [embed]}
  queries:
  - {name: gateway-queue, source: prom, query: "sum by (namespace, inference_pool) (queue_size)", workloadLabel: inference_pool}
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: worker, namespace: embed}
spec:
  scaleTargetRef: {name: worker}
  maxReplicas: 12
  signals:
  - {name: gateway, type: prometheus, queryRef: gateway-queue, target: 10}
  - {name: own, type: prometheus, metric: jobs, matchLabels: {queue: x}, target: 10}
  - {name: rate, type: prometheus, metric: requests_total, rate: 1m, target: 10}
  - {name: ttft, type: vllm, metric: timeToFirstToken, quantile: 0.95, target: 500ms}
  - {name: gpu, type: dcgm, target: 70%}
  - {name: list, type: redis, source: redis-embed, listName: jobs, target: 200}
  - {name: jobs, type: kueue, localQueue: batch, target: 1}
  - {name: any, type: external, metric: backlog, matchLabels: {queue: x}, target: 5}
`

func TestEverySignalTypeOfAPolicyIsPolled(t *testing.T) {
	store := store.New(store.Options{Clock: time.Now})
	report := store.Load(file(t, "all.yaml", everySignal))
	for _, p := range report.Problems {
		if !p.Warning {
			t.Fatal(p.String())
		}
	}
	all := store.Compiled()
	if len(all) != 1 || len(all[0].Sources) != 8 {
		t.Fatalf("%d policies", len(all))
	}
	p := newPoller(t, Options{Pods: testPods{all[0].Workload.Key: readyPods("worker-0")}})
	p.SetPolicies(all, store.Platform())
	for i, r := range read(p, all[0]) {
		if r.Cause != scaling.CauseNever {
			t.Errorf("signal %s is refused: %+v", all[0].Workload.Policy.Signals[i].Name, r)
		}
	}
	pollOnce(t, p)
	for i, r := range read(p, all[0]) {
		want, name := scaling.CauseRefused, all[0].Workload.Policy.Signals[i].Name
		if name == "any" { // no connection to an API server is configured
			want = scaling.CauseUnreachable
		}
		if r.Known || r.Cause != want || r.Failures != 1 {
			t.Errorf("signal %s with nothing there: %+v", name, r)
		}
	}
	if s := statuses(p); len(s) != 8 {
		t.Errorf("%d polls: %+v", len(s), s)
	}
}

func TestUnusableAnswerIsNeverAKnownReading(t *testing.T) {
	server := newFaulty(t)
	w := compiled("chat", "llama", querySource())
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	rapid.Check(t, func(t *rapid.T) {
		answer := `{"status":"success","data":{"resultType":"vector","result":[`
		for i := range rapid.IntRange(0, 4).Draw(t, "series") {
			if i > 0 {
				answer += ","
			}
			value := rapid.OneOf(rapid.Map(rapid.Float64(), func(v float64) string { return fmt.Sprint(v) }),
				rapid.SampledFrom([]string{"NaN", "+Inf", "-Inf", "0", "-0", "1e999", "9223372036854775794"})).Draw(t, "value")
			answer += fmt.Sprintf(`{"metric":{"namespace":"chat","pool":%q,"gpuscaler_part":%q},"value":[%d,%q]}`,
				rapid.SampledFrom([]string{"llama", "other", ""}).Draw(t, "pool"), rapid.SampledFrom([]string{"value", "age0", ""}).Draw(t, "part"),
				rapid.Int64Range(0, 1<<33-1).Draw(t, "time"), value)
		}
		server.does(text(answer + `]}}`))
		for key, g := range p.plan.groups {
			r := newRunner(g, p)
			p.runners[key] = r
			r.poll(t.Context())
		}
		r := read(p, w)[0]
		if r.Known && (math.IsNaN(r.Value) || r.Value < 0 || r.Value > maxCount || r.At.After(time.Now())) {
			t.Fatalf("%+v of %s", r, answer)
		}
	})
}
