package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

var midnight = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// series contains the metrics of one hour with two nodes. On n1, a pod runs and serves four requests at the same time. On n2, a pod has
// finished. Two instances of kube-state-metrics report the running pod.
const series = `
kube_node_info{node="n1"} 1x65
kube_node_status_allocatable{node="n1",resource="nvidia_com_gpu"} 1x65
kube_node_status_allocatable{node="n2",resource="nvidia_com_gpu"} 1x65
kube_node_labels{node="n1",label_node_kubernetes_io_instance_type="g",label_topology_kubernetes_io_region="r"} 1x65
kube_node_labels{node="n2",label_node_kubernetes_io_instance_type="g",label_topology_kubernetes_io_region="r"} 1x65
kube_pod_container_resource_requests{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg",node="n1",resource="nvidia_com_gpu",instance="a"} 1x65
kube_pod_container_resource_requests{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg",node="n1",resource="nvidia_com_gpu",instance="b"} 1x65
kube_pod_status_phase{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg",phase="Running"} 1x65
kube_pod_container_resource_requests{namespace="team",pod="my-chat-7d9f8b6c5-ghjkl",node="n2",resource="nvidia_com_gpu"} 1x65
kube_pod_status_phase{namespace="team",pod="my-chat-7d9f8b6c5-ghjkl",phase="Succeeded"} 1x65
kube_deployment_status_replicas_ready{namespace="team",deployment="my-chat"} 1x65
vllm:num_requests_running{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg"} 4x65
vllm:num_requests_waiting{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg"} 0x65
vllm:request_queue_time_seconds_count{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg"} 0+60x65
vllm:request_queue_time_seconds_bucket{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg",le="5.0"} 0+30x65
vllm:request_queue_time_seconds_bucket{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg",le="10.0"} 0+54x65
vllm:request_queue_time_seconds_bucket{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg",le="+Inf"} 0+60x65
vllm:request_inference_time_seconds_sum{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg"} 0+480x65
vllm:request_inference_time_seconds_count{namespace="team",pod="my-chat-7d9f8b6c5-bcdfg"} 0+60x65
DCGM_FI_DEV_GPU_UTIL{namespace="gpu-operator",pod="dcgm-bcdfg",exported_namespace="team",exported_pod="my-chat-7d9f8b6c5-bcdfg"} 70x65
`

func chat() []audit.Workload {
	return []audit.Workload{{Namespace: "team", Name: "my-chat", Kind: "Deployment", GPUs: 1, Slots: 8, SlotsFrom: "--max-num-seqs",
		Autoscaler: audit.Autoscaler{Kind: "HorizontalPodAutoscaler", Name: "my-chat", Min: 1, Max: 4, Cooldown: 300}}}
}

func read(t *testing.T, text string, workloads []audit.Workload, commitments ...cost.Commitment) *audit.Snapshot {
	t.Helper()
	web := promtest.Serve(t, midnight, text)
	server, err := history.Open(web.URL, config.DefaultHTTPClientConfig, history.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(context.Background(), server, workloads, Options{
		From: midnight, To: midnight.Add(time.Hour), Step: 5 * time.Minute, Wait: 10 * time.Second,
		Book: cost.NewBook([]cost.Type{{Name: "g", Region: "r", GPUs: 1, Hourly: map[string]float64{cost.OnDemand: 2}, From: "list"}}, nil,
			commitments),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func report(t *testing.T, s *audit.Snapshot) *audit.Report {
	t.Helper()
	r, err := audit.Run(context.Background(), s, audit.Options{SLO: evaluate.SLO{Share: 0.99, Wait: 10 * time.Second}, Replay: -1})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(a *float64, b float64) bool { return a != nil && math.Abs(*a-b) <= 0.01*b }

func TestHistoryIsReadFromPrometheus(t *testing.T) {
	s := read(t, series, chat())
	if len(s.Missing) != 0 {
		t.Errorf("missing: %+v", s.Missing)
	}
	w := &s.Workloads[0]
	if math.Abs(w.Service-8) > 0.1 || len(w.Held) != 1 || math.Abs(w.Activity[3]-0.7) > 0.01 {
		t.Errorf("service time %v, held %+v, activity %v", w.Service, w.Held, w.Activity)
	}
	r := report(t, s)
	l := &r.Workloads[0]
	if !near(r.Total.Cost, 2*2*730) || !near(l.Cost, 2*730) || !near(l.Served, 0.5) || !near(l.OnTime, 0.9) || *l.MeetsSLO {
		t.Errorf("total cost %v, workload %+v", *r.Total.Cost, l.Figures)
	}
	if top := r.Waste[0]; top.Cause != audit.StuckNode || top.Of != "nodes g on-demand" || !near(top.Cost, 2*730) {
		t.Errorf("the largest waste is %+v, want the node of the finished pod", top)
	}
}

// In a step without a scrape of kube-state-metrics, the number of GPUs is missing. In a step with a scrape, a workload without pods holds 0
// GPUs.
func TestMissingScrapeIsNotZeroGPUs(t *testing.T) {
	s := read(t, strings.NewReplacer(" 1x65", " 1x20 _x25 1x20").Replace(series), chat())
	held := s.Workloads[0].Held[0].GPUs
	if held[1] != 1 || !math.IsNaN(held[7]) || held[11] != 1 || !math.IsNaN(s.Pools[0].GPUs[7]) {
		t.Errorf("held %v, nodes %v", held, s.Pools[0].GPUs)
	}
	if r := report(t, s); !near(r.Workloads[0].Cost, 2*730) {
		t.Errorf("the cost per month is %v with a gap, want the cost of the measured time", *r.Workloads[0].Cost)
	}
	idle := read(t, series, append(chat(), audit.Workload{Namespace: "team", Name: "night", Kind: "Deployment", GPUs: 1,
		Autoscaler: audit.Autoscaler{Kind: "ScaledObject", Name: "night", Max: 4}}))
	if night := idle.Workloads[1]; len(night.Held) != 1 || night.Held[0].GPUs[5] != 0 {
		t.Errorf("a workload at zero replicas: %+v", night.Held)
	}
}

func TestEachMissingSeriesIsReported(t *testing.T) {
	s := read(t, "up 1x65", chat())
	r := report(t, s)
	if l := r.Workloads[0]; l.Cost != nil || l.Served != nil || l.OnTime != nil || r.Total.Cost != nil {
		t.Errorf("without history the audit returns %+v", l.Figures)
	}
	var all strings.Builder
	for _, g := range r.Missing {
		all.WriteString(g.What + ": " + g.Why + "\n")
	}
	for _, metric := range []string{"kube_pod_container_resource_requests", "kube_node_status_allocatable", "status_replicas_ready",
		"vllm:num_requests_running", "vllm:request_queue_time_seconds"} {
		if !strings.Contains(all.String(), metric) {
			t.Errorf("the report does not name %s:\n%s", metric, all.String())
		}
	}
	var lines []string
	for line := range strings.SplitSeq(series, "\n") {
		if !strings.Contains(line, "kube_pod_container") {
			lines = append(lines, line)
		}
	}
	// If the GPUs that pods hold are unknown, the report contains no free nodes.
	if r := report(t, read(t, strings.Join(lines, "\n"), chat())); len(r.Waste) != 0 || r.Total.Cost != nil {
		t.Errorf("without the GPUs of pods: %+v", r.Waste)
	}
}

// The audit does not count commitments. It must say so, because a price book with commitments would otherwise have no effect.
func TestCommitmentsAreReportedAsNotCounted(t *testing.T) {
	s := read(t, series, chat(), cost.Commitment{InstanceType: "g", Count: 1, Hourly: 1})
	if len(s.Missing) != 1 || !strings.Contains(s.Missing[0].What, "commitments") || !strings.Contains(s.Missing[0].Next, "gpuscaler report") {
		t.Errorf("missing: %+v, want the commitments and the command that counts them", s.Missing)
	}
}

// together is a server that answers range queries only when the given number of queries are waiting, so that the test sees queries at the
// same time.
type together struct {
	number  int
	mu      sync.Mutex
	waiting int
	release chan struct{}
	queries map[string]int // number of range queries by expression
}

func (s *together) Instant(context.Context, string, time.Time) (model.Vector, error) { return nil, nil }

func (s *together) Values(context.Context, string, string, time.Time, time.Time) ([]string, error) {
	return nil, nil
}

func (s *together) Range(ctx context.Context, expr string, _ v1.Range) (model.Matrix, error) {
	s.mu.Lock()
	s.queries[expr]++
	release := s.release
	if s.waiting++; s.waiting == s.number {
		s.waiting, s.release = 0, make(chan struct{})
		close(release)
	}
	s.mu.Unlock()
	select {
	case <-release:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A query covers at most a day, so a period of eight days needs several queries. They must run four at a time.
func TestQueriesOfALongPeriodRunAtTheSameTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := &together{number: parallelQueries, release: make(chan struct{}), queries: map[string]int{}}
	_, err := Read(ctx, server, chat(), Options{From: midnight, To: midnight.Add(8 * 24 * time.Hour), Step: 5 * time.Minute,
		Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for expr, n := range server.queries {
		if n != 8 {
			t.Errorf("%d queries for eight days: %s", n, expr)
		}
	}
	if len(server.queries) < 5 {
		t.Errorf("only %d expressions were evaluated", len(server.queries))
	}
}

// tooLarge is a server whose responses exceed their limit.
type tooLarge struct{ *together }

func (tooLarge) Range(_ context.Context, expr string, _ v1.Range) (model.Matrix, error) {
	return nil, fmt.Errorf("%w: more than 20 series\nthe query was: %s of http://user:hunter2@prom", history.ErrTooLarge, expr)
}

// If the response for a part of the data is too large, the report says so, without the query and without the address of the server.
func TestTooLargeResponsesAreReportedWithoutTheQuery(t *testing.T) {
	s, err := Read(t.Context(), tooLarge{}, chat(), Options{From: midnight, To: midnight.Add(time.Hour), Step: 5 * time.Minute,
		Wait: 10 * time.Second, Matchers: map[string]string{"cluster": "hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(text), `"a part of the nodes","why":"a response of the Prometheus server is too large"`) ||
		strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "over_time") {
		t.Errorf("%v %s", err, text)
	}
}
