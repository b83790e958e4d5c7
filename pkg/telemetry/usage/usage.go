// Package usage reads from a Prometheus server what GPUs did over days, and who held them, into a ledger of package cost.
//
// It asks for means over a step, so that a step shows what happened within it and not only at its end. What the exporter could not
// know makes such a mean absurd (DCGM's blank values start at 2^47) and is unknown, not 0.
package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// Server answers questions about the past; *history.Server is one.
type Server interface {
	Range(ctx context.Context, expr string, r v1.Range) (model.Matrix, error)
	Instant(ctx context.Context, expr string, at time.Time) (model.Vector, error)
	Names(ctx context.Context, match string, from, to time.Time) ([]string, error)
}

// Options say what to read.
type Options struct {
	From, To time.Time
	Step     time.Duration
	Matchers map[string]string // put into every question: {cluster: prod}
	Region   string            // of nodes that do not say theirs
	// Scrape are the labels in which this server stores the scraped pod, and Exporter returns whether a pod is a declared DCGM exporter.
	// Only its labels may name other pods as the holders of GPUs, and only pods on its own node. nil: no pod is.
	Scrape   exposition.ScrapeLabels
	Exporter func(namespace, pod string) bool
	// Karpenter and StateMetrics are the namespaces of Karpenter and kube-state-metrics. What nodes are and cost counts from there, and from
	// scrapes that store no namespace.
	Karpenter, StateMetrics []string
	Nodes                   map[string]cost.Offer // what the API server says of nodes, by name; it wins over Prometheus
	NoPrices                bool                  // do not read Karpenter's prices
	// Priced is told what Karpenter's offers cost, as far as they were asked for; nil: nobody wants to know.
	Priced   func(map[cost.Offer]float64)
	Progress func(done float64) // nil: nobody looks
}

// chunkSteps is how many steps one question is for. A day at five minutes of 1,000 GPUs is about 10 MB a metric.
const chunkSteps = 288

// ErrNoGPUs says that no GPU reported.
var ErrNoGPUs = errors.New("no DCGM metric in this time: is the DCGM exporter scraped by this server? `gpuscaler lint --prometheus URL` looks closer")

// Read reads everything into the ledger, day by day, and returns what the reader of a report must know of how it was measured.
func Read(ctx context.Context, s Server, o Options, ledger *cost.Ledger) (notes []string, err error) {
	if !o.To.After(o.From) || o.Step <= 0 {
		return nil, fmt.Errorf("nothing to read from %s to %s in steps of %s", o.From.Format(time.RFC3339), o.To.Format(time.RFC3339), o.Step)
	}
	names, err := s.Names(ctx, o.selector(labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(dcgmNames, "|"))), o.From, o.To)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, ErrNoGPUs
	}
	slices.Sort(names)
	r := &reader{server: s, options: o, names: names, ledger: ledger, undeclared: map[podName]bool{}}
	whole := o.To.Sub(o.From)
	for from := o.From; from.Before(o.To); from = from.Add(chunkSteps * o.Step) {
		if err := r.chunk(ctx, from); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(min(1, float64(from.Add(chunkSteps*o.Step).Sub(o.From))/float64(whole)))
		}
	}
	if text := r.undeclaredText(); r.gpus == 0 && text != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoGPUs, text)
	} else if r.gpus == 0 {
		return nil, ErrNoGPUs
	}
	return r.notes(), nil
}

var dcgmNames = exposition.DCGMNames(exposition.Activity, exposition.Memory)

type reader struct {
	server  Server
	options Options
	names   []string
	ledger  *cost.Ledger

	gpus               int              // GPU-steps
	unknown, suspected int              // of these: no activity; contradicted by the hardware
	undeclared         map[podName]bool // pods that named others and are no declared exporters
	unplaced           int              // on no machine that anybody described
	karpenter, pods    bool             // what the server knows
}

// selector renders a matcher, with the ones that belong into every question.
func (o *Options) selector(matchers ...*labels.Matcher) string {
	for _, name := range sortedKeys(o.Matchers) {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, name, o.Matchers[name]))
	}
	return (&parser.VectorSelector{LabelMatchers: matchers}).String()
}

// metric is the selector of one metric.
func (o *Options) metric(name string, matchers ...*labels.Matcher) string {
	return o.selector(append([]*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)}, matchers...)...)
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// chunk reads the steps that end after from.
func (r *reader) chunk(ctx context.Context, from time.Time) error {
	o := &r.options
	steps := int(min(chunkSteps, o.To.Sub(from)/o.Step))
	if steps == 0 {
		return nil // less than a step is left
	}
	c := &chunk{reader: r, steps: steps, begin: from, end: from.Add(time.Duration(steps) * o.Step), series: map[seriesKey]*series{},
		nodes: map[string]*node{}, pods: map[podName]podFacts{}}
	for _, name := range r.names {
		m, err := r.over(ctx, c, fmt.Sprintf("avg_over_time(%s[%s])", o.metric(name), model.Duration(o.Step)))
		if err != nil {
			return err
		}
		for _, s := range m {
			c.take(name, s)
		}
	}
	for _, ask := range []func(context.Context) error{c.readNodes, c.readPods, c.readPrices} {
		if err := ask(ctx); err != nil {
			return err
		}
	}
	c.settle()
	return nil
}

func (r *reader) over(ctx context.Context, c *chunk, expr string) (model.Matrix, error) {
	return r.server.Range(ctx, expr, v1.Range{Start: c.begin.Add(r.options.Step), End: c.end, Step: r.options.Step})
}

// notes say how it was measured.
func (r *reader) notes() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("Means over steps of %s: a pod or node that lived for a part of a step is charged for all of it.", model.Duration(r.options.Step))
	share := func(n int) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(r.gpus)) }
	if r.unknown > 0 {
		add("%s of the GPU time has no usable activity; it is judged by memory, or unmeasured.", share(r.unknown))
	}
	if r.suspected > 0 {
		add("%s of the GPU time shows activity 0 while GPU_UTIL or the power contradict it (NVIDIA/dcgm-exporter#662): unmeasured.", share(r.suspected))
	}
	if text := r.undeclaredText(); text != "" {
		add("%s.", text)
	}
	if r.unplaced > 0 {
		add("%s of the GPU time is on nodes whose instance type nobody told: scrape Karpenter or kube-state-metrics' kube_node_labels, or give --kubeconfig.", share(r.unplaced))
	}
	if !r.karpenter {
		add("Karpenter's node metrics are not there: nodes whose exporter is silent, as while they boot, may be missing.")
	}
	if !r.pods {
		add("kube_pod_info is not there: workloads are guessed from pods' names.")
	}
	return out
}

// first returns the first label of the names that is not empty.
func first(m model.Metric, names ...model.LabelName) string {
	for _, n := range names {
		if v := m[n]; v != "" {
			return string(v)
		}
	}
	return ""
}

func labelsOf(m model.Metric) exposition.Labels {
	out := make(exposition.Labels, 0, len(m))
	for name, value := range m {
		out = append(out, exposition.Label{Name: string(name), Value: string(value)})
	}
	return out
}

// RegionOf is the region of a zone: us-east-1a is in us-east-1, us-central1-a in us-central1.
func RegionOf(zone, otherwise string) string {
	trimmed := strings.TrimRight(zone, "abcdefghijklmnopqrstuvwxyz")
	if len(zone)-len(trimmed) != 1 {
		return otherwise // "westeurope-1", a local zone, or none
	}
	return cmp.Or(strings.TrimSuffix(trimmed, "-"), otherwise)
}
