package telemetry

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// A query over a range, such as rate(x[15m]), still has a value up to 15 minutes after the last sample. In this time the rate decreases,
// although nothing was measured. The time of the reading must be the time of the newest sample, even if an instant query would not return
// a sample of that age.
func TestValueOfARangeHasTheAgeOfItsSamples(t *testing.T) {
	const alive, dead, renamed = 10 * time.Second, 8 * time.Minute, 8 * time.Minute
	for _, c := range []struct {
		name, query string
		ages        map[string]time.Duration // age of the newest sample of each metric, for the workload llama
		fresh       bool
	}{
		{"a rate that lives", `sum by (namespace, pool) (rate(requests_total[15m]))`, map[string]time.Duration{"requests_total": alive}, true},
		{"a rate whose exporter died", `sum by (namespace, pool) (rate(requests_total[15m]))`,
			map[string]time.Duration{"requests_total": dead}, false},
		{"a mean over time whose exporter died", `sum by (namespace, pool) (avg_over_time(queue[15m]))`,
			map[string]time.Duration{"queue": dead}, false},
		{"one side of a quotient died", `sum by (namespace, pool) (rate(busy_total[15m])) / sum by (namespace, pool) (rate(requests_total[15m]))`,
			map[string]time.Duration{"busy_total": dead, "requests_total": alive}, false},
		{"the old name is served no more", `sum by (namespace, pool) (rate(new_total[15m])) or sum by (namespace, pool) (rate(old_total[15m]))`,
			map[string]time.Duration{"new_total": alive}, true},
		{"the new name is not served yet", `sum by (namespace, pool) (new_queue) or sum by (namespace, pool) (old_queue)`,
			map[string]time.Duration{"old_queue": alive}, true},
		{"either name, and the exporter died",
			`sum by (namespace, pool) (rate(new_total[15m])) or sum by (namespace, pool) (rate(old_total[15m]))`,
			map[string]time.Duration{"new_total": dead}, false},
		{"a label that the samples do not carry",
			`sum by (namespace, pool) (label_replace(rate(unnamed_total[15m]), "pool", "$1", "deployment", "(.*)"))`,
			map[string]time.Duration{"unnamed_total": alive}, true},
		{"the same, and all are dead", `sum by (namespace, pool) (label_replace(rate(unnamed_total[15m]), "pool", "$1", "deployment", "(.*)"))`,
			map[string]time.Duration{"unnamed_total": renamed}, false},
		{"a label that the samples carry with another value",
			`sum by (namespace, pool) (label_replace(rate(misnamed_total[15m]), "pool", "$1", "deployment", "(.*)"))`,
			map[string]time.Duration{"misnamed_total": alive}, true},
		{"two names in one selector", `sum by (namespace, pool) ({__name__=~"queue|backlog"})`, map[string]time.Duration{"queue": alive}, true},
		{"two names in one selector, and the exporter died", `sum by (namespace, pool) ({__name__=~"queue|backlog"})`,
			map[string]time.Duration{"queue": 4 * time.Minute}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newTestPrometheus(t)
			labels := map[string]string{"unnamed_total": `namespace="chat",deployment=%q`,
				"misnamed_total": `namespace="chat",pool="p",deployment=%q`}
			for metric, age := range c.ages {
				format := labels[metric]
				if format == "" {
					format = `namespace="chat",pool=%q`
				}
				for pool, last := range map[string]time.Duration{"llama": age, "other": alive} {
					if age == renamed && format == labels["unnamed_total"] {
						last = age
					}
					for i := range 40 {
						at := time.Now().Add(-last - time.Duration(39-i)*15*time.Second)
						server.put(metric+"{"+fmt.Sprintf(format, pool)+"}", at, float64(i))
					}
				}
			}
			source := querySource()
			source.Query = c.query
			llama, other := compiled("chat", "llama", source), compiled("chat", "other", source)
			p := newPoller(t, Options{})
			p.SetPolicies([]*policy.Compiled{llama, other}, platformOf(promSource(server.URL)))
			pollOnce(t, p)
			r := read(p, llama)[0]
			maxAge := llama.Workload.Policy.Signals[0].MaxAge
			if fresh := r.Known && time.Since(r.At) <= maxAge; fresh != c.fresh {
				t.Errorf("fresh %t: taken %v ago, known %t, %g", fresh, time.Since(r.At).Round(time.Second), r.Known, r.Value)
			}
			// If labels distinguish the samples of two workloads, old samples of one workload must not make the reading of the other workload old.
			if r := read(p, other)[0]; len(c.ages) == 1 && labels[only(c.ages)] == "" && (!r.Known || time.Since(r.At) > maxAge) {
				t.Errorf("the other workload reads %+v", r)
			}
		})
	}
}

func only(m map[string]time.Duration) string {
	for name := range m {
		return name
	}
	return ""
}

func TestRateOfAStoppedExporterLowersNoTarget(t *testing.T) {
	server := newTestPrometheus(t)
	for i := range 40 {
		server.put(`requests_total{namespace="chat",pool="llama"}`, time.Now().Add(-8*time.Minute-time.Duration(39-i)*15*time.Second),
			float64(600*i))
	}
	source := querySource()
	source.Query = `sum by (namespace, pool) (rate(requests_total[15m]))`
	w := compiled("chat", "llama", source)
	w.Workload.Policy.MaxReplicas = 100
	p := newPoller(t, Options{})
	p.SetPolicies([]*policy.Compiled{w}, platformOf(promSource(server.URL)))
	pollOnce(t, p)
	o := scaling.Observation{Replicas: 40, Ready: 40, Readings: read(p, w), Advice: scaling.NoAdvice, Operator: scaling.NoOperator}
	if d, _ := scaling.Decide(w.Workload.Policy, o, scaling.Seed(w.Workload.Policy, 40, time.Now().Add(-time.Hour)),
		time.Now()); d.Replicas < 40 {
		t.Errorf("40 requests a second were served until 8 minutes ago; the target is %d", d.Replicas)
	}
}
