package audit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/audit/collect"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

// The audit reads the history of simulated workloads with its Prometheus queries. Cost, SLO and waste must agree with the values that the
// simulator recorded, for several seeds and numbers of slots.
func TestAuditByPrometheusAgreesWithTheSimulator(t *testing.T) {
	const length = 8 * time.Hour
	all := audit.Stories(t)
	for cause, story := range all {
		for i, slots := range []int{4, 16} {
			t.Run(fmt.Sprintf("%s, %d slots", cause, slots), func(t *testing.T) {
				agrees(t, audit.Seeded(story, uint64(10+i), slots), length)
			})
		}
	}
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("from zero, seed %d", seed), func(t *testing.T) { agrees(t, audit.Seeded(audit.FromZero(t), 20+seed, 8), length) })
	}
}

// agrees simulates a workload and compares the audit with the simulator's totals.
func agrees(t *testing.T, a audit.Autoscaled, length time.Duration) {
	t.Helper()
	_, truth := audit.Simulated(t, length, time.Minute, nil, a)
	r := audited(t, truth, &a, length)
	paid, idle := truth.Paid.Hours(), truth.Ledger.Idle().Hours()
	perMonth := truth.Cost / length.Hours() * 730
	audit.CloseTo(t, "cost", *r.Total.Cost, perMonth, perMonth)
	audit.CloseTo(t, "served share", *r.Total.Served, truth.Ledger[ledger.Serving].Hours()/paid, 1)
	audit.CloseTo(t, "SLO", *r.Workloads[0].OnTime, truth.Loads[0].OnTime, 1)
	audit.CloseTo(t, "waste", r.Total.Ledger.Waste(), idle, idle)
}

// audited reads the history of one simulated workload from a Prometheus server and audits it without a replay.
func audited(t *testing.T, truth *simulator.Result, a *audit.Autoscaled, length time.Duration) *audit.Report {
	t.Helper()
	web := promtest.ServeSeries(t, audit.Midnight.Add(audit.Scraped), audit.Scraped, scrapes(truth, a))
	server, err := history.Open(web.URL, config.DefaultHTTPClientConfig, history.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := collect.Read(context.Background(), server, []audit.Workload{audit.Manifest(a)}, collect.Options{
		From: audit.Midnight, To: audit.Midnight.Add(length), Step: time.Minute, Wait: audit.Objective.Wait,
		Book: cost.NewBook([]cost.Type{{Name: "g", Region: "r", GPUs: 1, Hourly: map[string]float64{cost.OnDemand: audit.Hourly}, From: "list"}},
			nil, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Missing) != 0 {
		t.Errorf("missing: %+v", s.Missing)
	}
	r, err := audit.Run(context.Background(), s, audit.Options{SLO: audit.Objective, Replay: -1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// life is the time in which a node or replica with a number exists, as indexes of scrapes: from <= i < to.
type life struct{ number, from, to int }

// lives returns the life of each node or replica. The parameter exist contains the number of existing nodes or replicas in each scrape.
// The nodes or replicas with the lowest numbers are the existing ones.
func lives(exist []int32) (out []life) {
	var open []life
	for i, n := range append(slices.Clone(exist), 0) {
		for len(open) > int(n) {
			last := open[len(open)-1]
			last.to, open = i, open[:len(open)-1]
			out = append(out, last)
		}
		for len(open) < int(n) {
			open = append(open, life{number: len(open), from: i})
		}
	}
	return out
}

// recording collects the series that a simulated Prometheus server has stored.
type recording struct {
	scrapes int
	series  []promtest.Series
}

// add adds a series that has values only in the scrapes of the life l.
func (r *recording) add(l life, value func(i int) float64, name string, pairs ...string) {
	values := slices.Repeat([]parser.SequenceValue{{Omitted: true}}, l.from)
	for i := l.from; i < l.to; i++ {
		values = append(values, parser.SequenceValue{Value: value(i)})
	}
	values = append(values, parser.SequenceValue{Value: promtest.Absent})
	r.series = append(r.series, promtest.Series{Labels: labels.FromStrings(append(slices.Clone(pairs), "__name__", name)...), Values: values})
}

func one(int) float64 { return 1 }

// unixTime returns a function whose result is the Unix time of a scrape.
func unixTime(scrape int) func(int) float64 {
	return func(int) float64 { return float64(audit.Midnight.Add(time.Duration(scrape+1) * audit.Scraped).Unix()) }
}

// scrapes returns the series that kube-state-metrics and vLLM export for the replicas of a simulated workload. Each replica has its own
// node, which registers when it is launched, because the simulator does not record the time between launch and registration.
func scrapes(truth *simulator.Result, a *audit.Autoscaled) []promtest.Series {
	l, pool := &truth.Series.Loads[0], &truth.Series.Pools[0]
	r := &recording{scrapes: len(l.Ready)}
	always := life{to: r.scrapes}
	r.add(always, one, "kube_node_info", "node", "control-plane")
	r.add(always, func(i int) float64 { return float64(l.Ready[i]) }, "kube_deployment_status_replicas_ready", "namespace", "team",
		"deployment", audit.NameOf(a))
	nodes := lives(pool.Nodes)
	name := func(n life) string { return fmt.Sprintf("gpu-%d-%d", n.number, n.from) }
	for _, n := range nodes {
		r.add(n, one, "kube_node_labels", "node", name(n), "label_node_kubernetes_io_instance_type", "g",
			"label_topology_kubernetes_io_region", "r")
		r.add(n, unixTime(n.from), "kube_node_created", "node", name(n))
		usable := n
		for usable.from < n.to && pool.Usable[usable.from] <= int32(n.number) {
			usable.from++
		}
		r.add(usable, one, "kube_node_status_allocatable", "node", name(n), "resource", "nvidia_com_gpu")
	}
	held := make([]int32, r.scrapes)
	for i := range held {
		held[i] = l.Ready[i] + l.Loading[i] + l.Draining[i]
	}
	for _, p := range lives(held) {
		on := slices.IndexFunc(nodes, func(n life) bool { return n.number == p.number && n.from <= p.from && p.from < n.to })
		r.pod(p, name(nodes[on]), l, fmt.Sprintf("%s-7d9f8b6c5-%s", audit.NameOf(a), suffix(p)))
	}
	return r.series
}

// pod adds the series of a replica. Each ready replica serves an equal part of the requests.
func (r *recording) pod(p life, node string, l *simulator.LoadSeries, name string) {
	pod := []string{"namespace", "team", "pod", name}
	r.add(p, unixTime(p.from), "kube_pod_start_time", pod...)
	r.add(p, one, "kube_pod_container_resource_requests", append(pod, "node", node, "resource", "nvidia_com_gpu")...)
	r.add(p, one, "kube_pod_status_phase", append(pod, "phase", "Running")...)
	ready := p
	for ready.from < p.to && l.Ready[ready.from] <= int32(p.number) {
		ready.from++
	}
	share := func(of []int32) func(i int) float64 {
		return func(i int) float64 { return float64(of[i]) / float64(max(1, l.Ready[i])) }
	}
	count := func(by func(i int) float64) func(i int) float64 {
		sum := 0.0
		return func(i int) float64 { sum += by(i); return sum }
	}
	started, late := share(l.Started), share(l.Late)
	onTime := func(i int) float64 { return started(i) - late(i) }
	served := func(i int) float64 { return started(i) * audit.ServiceTime.Seconds() }
	r.add(ready, share(l.Running), "vllm:num_requests_running", pod...)
	r.add(ready, share(l.Queue), "vllm:num_requests_waiting", pod...)
	r.add(ready, count(started), "vllm:request_queue_time_seconds_count", pod...)
	r.add(ready, count(onTime), "vllm:request_queue_time_seconds_bucket", append(pod, "le", "10.0")...)
	r.add(ready, count(started), "vllm:request_inference_time_seconds_count", pod...)
	r.add(ready, count(served), "vllm:request_inference_time_seconds_sum", pod...)
}

// suffix returns the generated part of the name of a pod, with the characters that Kubernetes uses.
func suffix(p life) string {
	const letters = "bcdfghjklm"
	out := []byte{letters[p.number%10]}
	for at := p.from; len(out) < 5; at /= 10 {
		out = append(out, letters[at%10])
	}
	return string(out)
}
