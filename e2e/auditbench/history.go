package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"
)

const (
	blockLength = 54 * time.Hour // Prometheus merges the blocks of a month up to this length
	otherPods   = 2000           // pods without GPUs
	nodeBefore  = 4 * time.Minute
	nodeAfter   = 10 * time.Minute
)

// buckets contains the upper bounds in seconds of vLLM's histogram of queue times.
var buckets = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}

// history is the content of a Prometheus server: the metrics of kube-state-metrics, vLLM and dcgm-exporter that the audit reads.
type history struct {
	begin, end time.Time
	scrape     time.Duration
	workloads  []workload

	loads           []load
	pods            []pod
	samples, series atomic.Int64
}

// newHistory computes the loads and the pods. It writes nothing.
func newHistory(begin, end time.Time, scrape time.Duration, workloads []workload) *history {
	h := &history{begin: begin, end: end, scrape: scrape, workloads: workloads, loads: make([]load, len(workloads))}
	for i := range workloads {
		h.loads[i] = workloads[i].load(begin, end, rand.New(rand.NewPCG(1, uint64(i))))
		h.pods = append(h.pods, workloads[i].pods(&h.loads[i], begin)...)
	}
	return h
}

// write writes the history as blocks of a Prometheus server into a directory. A block that is being written needs gigabytes of memory, so
// the garbage collector runs more often than usual.
func (h *history) write(ctx context.Context, dir string) error {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	length := blockLength.Milliseconds()
	for begin := time.UnixMilli(h.begin.UnixMilli() / length * length).UTC(); begin.Before(h.end); begin = begin.Add(blockLength) {
		all.Go(func() error { return h.writeBlock(ctx, dir, begin) })
	}
	return all.Wait()
}

// writeBlock writes the block of the history that begins at the time begin.
func (h *history) writeBlock(ctx context.Context, dir string, begin time.Time) error {
	// The writer rejects samples that are older than the newest one by more than half of this length.
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, 2*blockLength.Milliseconds())
	if err != nil {
		return err
	}
	defer w.Close()
	b := &block{history: h, writer: w, begin: latest(begin, h.begin), end: earliest(begin.Add(blockLength), h.end)}
	for i := range h.pods {
		if err := b.pod(ctx, &h.pods[i]); err != nil {
			return err
		}
	}
	for i := range h.workloads {
		of := &h.workloads[i]
		err := b.add(ctx, span{b.begin, b.end}, func(at time.Time) float64 {
			return float64(h.loads[i].replicas[h.step(at)])
		}, "kube_deployment_status_replicas_ready", "namespace", of.namespace, "deployment", of.name)
		if err != nil {
			return err
		}
	}
	for i := range otherPods {
		if err := b.otherPod(ctx, i); err != nil {
			return err
		}
	}
	_, err = w.Flush(ctx)
	return err
}

func (h *history) step(at time.Time) int {
	return min(int(at.Sub(h.begin)/fleetStep), len(h.loads[0].rate)-1)
}

// block is a block that is being written.
type block struct {
	*history
	writer     *tsdb.BlockWriter
	begin, end time.Time
}

// span is a time in which a series has samples: begin <= t < end.
type span struct{ begin, end time.Time }

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// add adds the samples of a series that are in the block. value is called for each scrape of the series in the order of time.
func (b *block) add(ctx context.Context, s span, value func(time.Time) float64, name string, pairs ...string) error {
	begin := latest(s.begin, b.begin).Truncate(b.scrape)
	if begin.Before(latest(s.begin, b.begin)) {
		begin = begin.Add(b.scrape)
	}
	end := earliest(s.end, b.end)
	if !begin.Before(end) {
		return nil
	}
	l := labels.FromStrings(append([]string{labels.MetricName, name}, pairs...)...)
	app, ref, n := b.writer.Appender(ctx), storage.SeriesRef(0), int64(0)
	for at := begin; at.Before(end); at = at.Add(b.scrape) {
		var err error
		if ref, err = app.Append(ref, l, at.UnixMilli(), value(at)); err != nil {
			return fmt.Errorf("%s at %s: %w", l, at, err)
		}
		n++
	}
	b.samples.Add(n)
	b.series.Add(1)
	return app.Commit()
}

func one(time.Time) float64 { return 1 }

// unixTime returns a function that returns a time in seconds.
func unixTime(t time.Time) func(time.Time) float64 {
	return func(time.Time) float64 { return float64(t.Unix()) }
}

// pod adds the series of a pod and of its node. Each pod has its own node.
func (b *block) pod(ctx context.Context, p *pod) error {
	node := "gpu-" + p.name
	machine, life := span{p.begin.Add(-nodeBefore), p.end.Add(nodeAfter)}, span{p.begin, p.end}
	at := []string{"namespace", p.of.namespace, "pod", p.name}
	ksm := []string{"instance", "10.0.0.7:8080", "job", "kube-state-metrics"}
	with := func(base []string, more ...string) []string { return append(append([]string(nil), base...), more...) }
	for _, s := range []struct {
		span  span
		value func(time.Time) float64
		name  string
		pairs []string
	}{
		{machine, one, "kube_node_info", with(ksm, "node", node)},
		{machine, unixTime(machine.begin), "kube_node_created", with(ksm, "node", node)},
		{machine, one, "kube_node_labels", with(ksm, "node", node, "label_node_kubernetes_io_instance_type", "g6e.xlarge",
			"label_topology_kubernetes_io_region", "us-east-1", "label_karpenter_sh_capacity_type", "on-demand",
			"label_karpenter_sh_nodepool", "gpu")},
		{span{machine.begin.Add(time.Minute), machine.end}, one, "kube_node_status_allocatable",
			with(ksm, "node", node, "resource", "nvidia_com_gpu")},
		{life, one, "kube_pod_container_resource_requests",
			with(ksm, append(at, "node", node, "container", "vllm", "resource", "nvidia_com_gpu")...)},
		{life, unixTime(p.begin), "kube_pod_start_time", with(ksm, at...)},
	} {
		if err := b.add(ctx, s.span, s.value, s.name, s.pairs...); err != nil {
			return err
		}
	}
	if err := b.phases(ctx, life, with(ksm, at...)); err != nil {
		return err
	}
	return b.requests(ctx, p, with(at, "instance", p.name+":8000", "job", "vllm", "engine", "0", "model_name", "llama"))
}

// phases adds the series of the phases of a running pod.
func (b *block) phases(ctx context.Context, s span, pairs []string) error {
	for _, phase := range []string{"Pending", "Running", "Succeeded", "Failed", "Unknown"} {
		value := func(time.Time) float64 { return 0 }
		if phase == "Running" {
			value = one
		}
		if err := b.add(ctx, s, value, "kube_pod_status_phase", append(append([]string(nil), pairs...), "phase", phase)...); err != nil {
			return err
		}
	}
	return nil
}

// otherPod adds the series of a pod without GPUs.
func (b *block) otherPod(ctx context.Context, i int) error {
	pairs := []string{"namespace", fmt.Sprintf("web-%d", i%40), "pod", fmt.Sprintf("web-%d-6c8f7d9b5-%s", i, suffix(i, 7)),
		"instance", "10.0.0.7:8080", "job", "kube-state-metrics"}
	always := span{b.begin, b.end}
	if err := b.add(ctx, always, unixTime(b.history.begin), "kube_pod_start_time", pairs...); err != nil {
		return err
	}
	for resource, n := range map[string]float64{"cpu": 0.5, "memory": 1 << 29} {
		err := b.add(ctx, always, func(time.Time) float64 { return n }, "kube_pod_container_resource_requests",
			append(append([]string(nil), pairs...), "node", fmt.Sprintf("cpu-%d", i%60), "container", "web", "resource", resource)...)
		if err != nil {
			return err
		}
	}
	return b.phases(ctx, always, pairs)
}

// requests adds the series of the model server and of the GPU of a pod. The counters of a pod begin at 0 when the pod starts, so they are
// computed from its start, also in a later block.
func (b *block) requests(ctx context.Context, p *pod, pairs []string) error {
	ready := span{p.begin.Add(3 * time.Minute), p.end}
	share := func(at time.Time) float64 { // requests per second of this pod
		i := b.step(at)
		return p.load.rate[i] / float64(max(1, p.load.replicas[i]))
	}
	running := func(at time.Time) float64 { return math.Round(min(float64(p.of.slots), share(at)*service)) }
	waiting := func(at time.Time) float64 { return math.Round(max(0, share(at)*service-float64(p.of.slots))) }
	busy := func(at time.Time) float64 { return math.Round(100 * running(at) / float64(p.of.slots)) }
	active := func(at time.Time) float64 { return busy(at) / 100 }
	count := func(le float64, each float64) func(time.Time) float64 {
		sum, last := 0.0, ready.begin
		return func(at time.Time) float64 {
			for ; last.Before(at); last = last.Add(b.scrape) {
				mean := 0.1 + 4*max(0, waiting(last))
				sum += share(last) * b.scrape.Seconds() * (1 - math.Exp(-le/mean)) * each
			}
			return math.Floor(sum)
		}
	}
	type column struct {
		value func(time.Time) float64
		name  string
		more  []string
	}
	all := math.Inf(1)
	columns := []column{
		{running, "vllm:num_requests_running", nil}, {waiting, "vllm:num_requests_waiting", nil},
		{count(all, 1), "vllm:request_queue_time_seconds_count", nil}, {count(all, 0.4), "vllm:request_queue_time_seconds_sum", nil},
		{count(all, 1), "vllm:request_inference_time_seconds_count", nil}, {count(all, service), "vllm:request_inference_time_seconds_sum", nil},
		{busy, "DCGM_FI_DEV_GPU_UTIL", []string{"gpu", "0"}}, {active, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", []string{"gpu", "0"}},
		{count(all, 1), "vllm:request_queue_time_seconds_bucket", []string{"le", "+Inf"}},
	}
	for _, le := range buckets {
		text := strconv.FormatFloat(le, 'f', -1, 64)
		if le == math.Trunc(le) {
			text += ".0"
		}
		columns = append(columns, column{count(le, 1), "vllm:request_queue_time_seconds_bucket", []string{"le", text}})
	}
	for _, c := range columns {
		if err := b.add(ctx, ready, c.value, c.name, append(append([]string(nil), pairs...), c.more...)...); err != nil {
			return err
		}
	}
	return nil
}
