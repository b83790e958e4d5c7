package collect

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// Server queries a Prometheus server. *history.Server implements it.
type Server interface {
	Range(ctx context.Context, expr string, r v1.Range) (model.Matrix, error)
	Instant(ctx context.Context, expr string, at time.Time) (model.Vector, error)
	Values(ctx context.Context, label, match string, from, to time.Time) ([]string, error)
}

// Options configure Read.
type Options struct {
	Cluster  string
	From, To time.Time
	Step     time.Duration
	Matchers map[string]string // matchers that are added to every selector, such as {cluster: prod}
	Wait     time.Duration     // longest wait of a request that meets the SLO
	Nodes    map[string]cost.Offer
	Book     *cost.Book
	Region   string  // region of nodes that have no region label
	Hourly   float64 // price in $ per hour and GPU for nodes without a known price; 0: unknown
	Progress func(what string, done float64)
}

// Read reads the history of the workloads from a Prometheus server. If a metric has no series, or if a response exceeds the limits of the
// server, Read adds an entry to Missing of the snapshot. Any other failed query is an error.
func Read(ctx context.Context, server Server, workloads []audit.Workload, o Options) (*audit.Snapshot, error) {
	s := &audit.Snapshot{
		Schema: audit.SnapshotSchema, Cluster: o.Cluster, From: o.From, Step: o.Step.Seconds(), Steps: int(o.To.Sub(o.From) / o.Step),
		Wait: o.Wait.Seconds(), Workloads: workloads,
	}
	r := &reader{server: server, o: &o, s: s, byKey: map[string]*audit.Workload{}}
	for i := range s.Workloads {
		r.byKey[s.Workloads[i].Key()] = &s.Workloads[i]
	}
	parts := []struct {
		what string
		read func(context.Context) error
	}{
		{"nodes", r.readNodes}, {"GPUs of pods", r.readHeld}, {"replicas", r.readReplicas}, {"requests", r.readRequests},
		{"waits", r.readWaits}, {"GPU activity", r.readActivity},
	}
	for i, p := range parts {
		if o.Progress != nil {
			o.Progress("reading "+p.what, float64(i)/float64(len(parts)))
		}
		r.part = p.what
		if err := p.read(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// reader is the state of one call of Read.
type reader struct {
	server Server
	o      *Options
	s      *audit.Snapshot
	byKey  map[string]*audit.Workload
	part   string // data that is being read, such as "waits", for messages

	scraped audit.Values      // 1 in each step in which kube-state-metrics was scraped, missing in all other steps
	poolOf  map[string]string // name of the pool of each node
}

// byWorkload evaluates an expression whose result has the labels namespace and workloadLabel. It stores each value in a series of the
// workload with these labels. The parameter of returns the series of a workload. byWorkload reports whether any workload had a value.
func (r *reader) byWorkload(ctx context.Context, expr string, of func(*audit.Workload) *audit.Values) (found bool, err error) {
	_, err = r.over(ctx, expr, func(m model.Metric, step int, value float64) {
		if w := r.byKey[string(m["namespace"])+"/"+string(m[workloadLabel])]; w != nil {
			r.set(of(w), step, value)
			found = true
		}
	})
	return found, err
}

// set stores the value of a step in a series. If the series is nil, set first creates it with a missing value for every step.
func (r *reader) set(list *audit.Values, step int, value float64) {
	if *list == nil {
		*list = missing(r.s.Steps)
	}
	(*list)[step] = value
}

func missing(steps int) audit.Values {
	out := make(audit.Values, steps)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

func (r *reader) gap(what, why, next string) {
	r.s.Missing = append(r.s.Missing, audit.Gap{What: what, Why: why, Next: next})
}

// readHeld reads the GPUs that pods hold, by workload and pool. In a step with a scrape of kube-state-metrics, a workload without pods
// holds 0 GPUs. In a step without a scrape, the number is missing.
func (r *reader) readHeld(ctx context.Context) error {
	if _, err := r.over(ctx, "count("+r.metric("kube_node_info")+")", func(_ model.Metric, step int, _ float64) {
		r.set(&r.scraped, step, 1)
	}); err != nil {
		return err
	}
	type part struct {
		of   *audit.Workload // the workload; nil: pods that no autoscaler scales
		pool string
	}
	sums := map[part]audit.Values{}
	found, err := r.over(ctx, r.heldQuery(), func(m model.Metric, step int, value float64) {
		p := part{r.byKey[string(m["namespace"])+"/"+string(m[workloadLabel])], r.pool(string(m["node"]))}
		if sums[p] == nil {
			sums[p] = make(audit.Values, r.s.Steps)
		}
		sums[p][step] += value
		r.set(&r.scraped, step, 1)
	})
	if err != nil {
		return err
	}
	for i := range r.s.Pools {
		if r.known(r.s.Pools[i].GPUs); !found {
			r.s.Pools[i].GPUs = nil // if the GPUs of pods are unknown, the number of free GPUs is unknown, too
		}
	}
	if !found {
		r.gap("costs and GPU time", "no series kube_pod_container_resource_requests{resource=\"nvidia_com_gpu\"} with "+
			"kube_pod_status_phase", "scrape kube-state-metrics")
		return nil
	}
	for p, values := range sums {
		r.known(values)
		h := audit.Held{Pool: p.pool, GPUs: values}
		if p.of == nil {
			r.s.Other = append(r.s.Other, h)
		} else {
			p.of.Held = append(p.of.Held, h)
		}
	}
	for i := range r.s.Workloads {
		w := &r.s.Workloads[i]
		if len(w.Held) == 0 && r.scraped != nil { // the workload had no pod in the whole period
			w.Held = []audit.Held{{GPUs: r.known(make(audit.Values, r.s.Steps))}}
		}
		sortHeld(w.Held)
	}
	sortHeld(r.s.Other)
	return nil
}

// known sets the values of steps without a scrape of kube-state-metrics to missing.
func (r *reader) known(values audit.Values) audit.Values {
	for i := range values {
		if r.scraped == nil || math.IsNaN(r.scraped[i]) {
			values[i] = math.NaN()
		}
	}
	return values
}

// readReplicas reads the number of ready replicas.
func (r *reader) readReplicas(ctx context.Context) error {
	found := false
	for kind, label := range map[string]string{"Deployment": "deployment", "StatefulSet": "statefulset"} {
		expr := fmt.Sprintf("max by (namespace, %s) (%s)", label, r.original(r.metric("kube_"+label+"_status_replicas_ready")))
		if _, err := r.over(ctx, expr, func(m model.Metric, step int, value float64) {
			w := r.byKey[string(m["namespace"])+"/"+string(m[model.LabelName(label)])]
			if w != nil && w.Kind == kind {
				r.set(&w.Ready, step, value)
				found = true
			}
		}); err != nil {
			return err
		}
	}
	if !found && len(r.s.Workloads) > 0 {
		r.gap("the causes of waste", "no series kube_deployment_status_replicas_ready or kube_statefulset_status_replicas_ready of the "+
			"workloads", "scrape kube-state-metrics")
	}
	return nil
}

// readRequests reads the running and waiting requests and the service times. For a workload without --max-num-seqs, it also reads the
// slots: the highest number of requests that a replica served at the same time.
func (r *reader) readRequests(ctx context.Context) error {
	found, err := r.byWorkload(ctx, r.mean("vllm:num_requests_running"), func(w *audit.Workload) *audit.Values { return &w.Running })
	if err != nil {
		return err
	}
	if !found && len(r.s.Workloads) > 0 {
		r.gap("running requests", "no series vllm:num_requests_running with the pods of the workloads",
			"scrape the model servers; without it the GPU activity is used")
		return nil
	}
	waiting := func(w *audit.Workload) *audit.Values { return &w.Waiting }
	if _, err := r.byWorkload(ctx, r.mean("vllm:num_requests_waiting"), waiting); err != nil {
		return err
	}
	if err := r.instant(ctx, r.peakQuery(), func(w *audit.Workload, v float64) {
		if w.Slots == 0 && v >= 1 {
			w.Slots, w.SlotsFrom = v, "highest number of running requests of a replica"
		}
	}); err != nil {
		return err
	}
	return r.instant(ctx, r.serviceQuery(), func(w *audit.Workload, v float64) { w.Service = v })
}

// instant evaluates an expression at the end of the period and calls the function take for each workload with a value. The result of the
// expression has the labels namespace and workloadLabel.
func (r *reader) instant(ctx context.Context, expr string, take func(*audit.Workload, float64)) error {
	v, err := r.server.Instant(ctx, expr, r.o.To)
	if err != nil {
		return err
	}
	for _, s := range v {
		w := r.byKey[string(s.Metric["namespace"])+"/"+string(s.Metric[workloadLabel])]
		if x := float64(s.Value); w != nil && x > 0 && x < 1e5 {
			take(w, x)
		}
	}
	return nil
}

// readWaits reads, for each workload and step, the number of started requests, and how many of them waited at most the wait of the SLO.
func (r *reader) readWaits(ctx context.Context) error {
	const metric = "vllm:request_queue_time_seconds"
	found, err := r.byWorkload(ctx, r.increase(metric+"_count"), func(w *audit.Workload) *audit.Values { return &w.Started })
	if err != nil {
		return err
	}
	limit, text, err := r.bucket(ctx, metric)
	if err != nil {
		return err
	}
	if (!found || text == "") && len(r.s.Workloads) > 0 {
		r.gap("SLOs and the replay", "no series vllm:request_queue_time_seconds with the pods of the workloads", "scrape the model servers")
		return nil
	}
	if limit != r.o.Wait.Seconds() {
		r.s.Notes = append(r.s.Notes, fmt.Sprintf("The histogram of waits has no bucket of %gs: a request counts as on time if it waited at "+
			"most %gs.", r.o.Wait.Seconds(), limit))
	}
	_, err = r.byWorkload(ctx, r.increase(metric+"_bucket", "le", text), func(w *audit.Workload) *audit.Values { return &w.OnTime })
	return err
}

// bucket finds the histogram bucket for the wait of the SLO: the one with the greatest upper bound that does not exceed the wait. It
// returns the upper bound in seconds as a number (limit) and as the value of the label le (text).
func (r *reader) bucket(ctx context.Context, metric string) (limit float64, text string, err error) {
	bounds, err := r.server.Values(ctx, model.BucketLabel, r.metric(metric+"_bucket"), r.o.From, r.o.To)
	if err != nil {
		return 0, "", err
	}
	for _, bound := range bounds {
		le, err := strconv.ParseFloat(bound, 64)
		if err == nil && le <= r.o.Wait.Seconds() && (text == "" || le > limit) {
			limit, text = le, bound
		}
	}
	return limit, text, nil
}

// readActivity reads the GPU activity: the activity of the graphics engine or, if that metric is missing, GPU_UTIL.
func (r *reader) readActivity(ctx context.Context) error {
	for metric, factor := range map[string]string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE": "1", "DCGM_FI_DEV_GPU_UTIL": "0.01"} {
		values := map[*audit.Workload]audit.Values{}
		if _, err := r.over(ctx, factor+" * "+r.mean(metric), func(m model.Metric, step int, value float64) {
			if w := r.byKey[string(m["namespace"])+"/"+string(m[workloadLabel])]; w != nil {
				list := values[w]
				r.set(&list, step, value)
				values[w] = list
			}
		}); err != nil {
			return err
		}
		for w, list := range values {
			if w.Activity == nil || factor == "1" {
				w.Activity = list
			}
		}
	}
	return nil
}
