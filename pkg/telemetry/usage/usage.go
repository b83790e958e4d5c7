// Package usage reads GPU usage from a Prometheus server into a ledger of package cost: the activity and memory of each GPU, the pods that
// held it, and the instance type and price of its node.
//
// The queries return means over each step, so that a value describes the whole step and not just its end. The exporter marks a missing
// value with a very large number (DCGM's blank values start at 2^47). A mean that includes such a number is not plausible. It is treated as
// unknown, and not as 0.
package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// Server queries a Prometheus server over time ranges. *history.Server implements it.
type Server interface {
	Range(ctx context.Context, expr string, r v1.Range) (model.Matrix, error)
	Instant(ctx context.Context, expr string, at time.Time) (model.Vector, error)
	Names(ctx context.Context, match string, from, to time.Time) ([]string, error)
}

// Options contains the time range, the labels and the other settings of Read.
type Options struct {
	From, To time.Time
	Step     time.Duration
	Matchers map[string]string // added to every selector, for example {cluster: prod}
	Region   string            // region of nodes that have no region label
	// Scrape contains the labels in which this server stores the namespace and name of the scraped pod. Exporter reports whether a pod is a
	// declared DCGM exporter. Only the series of declared exporters may name another pod as the holder of a GPU, and this pod must run on
	// the exporter's node. If Exporter is nil, no pod is a declared exporter.
	Scrape   exposition.ScrapeLabels
	Exporter func(namespace, pod string) bool
	// Karpenter and StateMetrics contain the namespaces of Karpenter and kube-state-metrics. Metrics about nodes and prices are used only if
	// they were scraped in these namespaces, or if the scrape stores no namespace.
	Karpenter, StateMetrics []string
	Nodes                   map[string]cost.Offer // nodes from the API server by name; they take precedence over nodes from Prometheus
	NoPrices                bool                  // if true, Karpenter's prices are not read
	// Priced is called with Karpenter's prices after Read has read them. It may be nil.
	Priced   func(map[cost.Offer]float64)
	Progress func(done float64) // called with the fraction of the work that is done; nil: not called
}

// chunkSteps is the greatest number of steps of one query: one day in steps of five minutes. For 1,000 GPUs the response is about 10 MB for
// each metric.
const chunkSteps = 288

// ErrNoGPUs is returned if no GPU has samples in the time range.
var ErrNoGPUs = errors.New("no DCGM metric in this time range: check that this server scrapes the DCGM exporter; " +
	"`gpuscaler lint --prometheus URL` shows why")

// Read reads the usage in the time range of o into the ledger. It returns notes for the reader of a report: how the usage was measured, and
// what is missing in the data.
func Read(ctx context.Context, s Server, o Options, ledger *cost.Ledger) (notes []string, err error) {
	if !o.To.After(o.From) || o.Step <= 0 {
		return nil, fmt.Errorf("nothing to read from %s to %s in steps of %s", o.From.Format(time.RFC3339), o.To.Format(time.RFC3339), o.Step)
	}
	dcgm := labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(dcgmNames, "|"))
	names, err := s.Names(ctx, o.selector(dcgm), o.From, o.To)
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

// reader contains the state of one call of Read.
type reader struct {
	server  Server
	options Options
	names   []string
	ledger  *cost.Ledger

	gpus               int              // number of GPUs, summed over all steps
	unknown, suspected int              // number of these GPUs whose activity is not known, or is contradicted by other counters
	undeclared         map[podName]bool // pods that name other pods but are not declared exporters
	unplaced           int              // number of these GPUs on nodes without an instance type
	karpenter, pods    bool             // the server has Karpenter's node metrics (karpenter), or kube_pod_info (pods)
}

// selector returns a selector with the given matchers and o.Matchers.
func (o *Options) selector(matchers ...*labels.Matcher) string {
	for _, name := range slices.Sorted(maps.Keys(o.Matchers)) {
		matchers = append(matchers, labels.MustNewMatcher(labels.MatchEqual, name, o.Matchers[name]))
	}
	return (&parser.VectorSelector{LabelMatchers: matchers}).String()
}

// metric returns a selector of one metric with the given matchers and o.Matchers.
func (o *Options) metric(name string, matchers ...*labels.Matcher) string {
	return o.selector(append([]*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)}, matchers...)...)
}

// chunk reads the usage of up to chunkSteps steps, and adds it to the ledger. The first step begins at the time in the parameter from.
func (r *reader) chunk(ctx context.Context, from time.Time) error {
	o := &r.options
	steps := int(min(chunkSteps, o.To.Sub(from)/o.Step))
	if steps == 0 {
		return nil // the remaining time is shorter than one step
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
	for _, read := range []func(context.Context) error{c.readNodes, c.readPods, c.readPrices} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	c.addToLedger()
	return nil
}

// over evaluates an expression for each step of a chunk.
func (r *reader) over(ctx context.Context, c *chunk, expr string) (model.Matrix, error) {
	return r.server.Range(ctx, expr, v1.Range{Start: c.begin.Add(r.options.Step), End: c.end, Step: r.options.Step})
}

// notes returns notes for the reader of a report: the length of a step, and which parts of the usage are unknown and why.
func (r *reader) notes() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	add("Means over steps of %s: a pod or node that existed for a part of a step is charged for all of it.", model.Duration(r.options.Step))
	share := func(n int) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(r.gpus)) }
	if r.unknown > 0 {
		add("%s of the GPU time has no usable activity; it is idle by its memory use, or unmeasured.", share(r.unknown))
	}
	if r.suspected > 0 {
		add("%s of the GPU time has activity 0, which GPU_UTIL or the power contradicts (NVIDIA/dcgm-exporter#662): unmeasured.",
			share(r.suspected))
	}
	if text := r.undeclaredText(); text != "" {
		add("%s.", text)
	}
	if r.unplaced > 0 {
		add("%s of the GPU time is on nodes whose instance type is not known: scrape Karpenter or kube-state-metrics' kube_node_labels, "+
			"or set --kubeconfig.", share(r.unplaced))
	}
	if !r.karpenter {
		add("Karpenter's node metrics are missing: nodes without samples of the exporter, for example while they boot, are not counted.")
	}
	if !r.pods {
		add("kube_pod_info is missing: workloads are derived from the names of pods.")
	}
	return out
}

// first returns the first value of the labels that is not empty.
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

// RegionOf returns the region of a zone, such as us-east-1 for us-east-1a and us-central1 for us-central1-a. If the zone has another form,
// it returns the parameter otherwise.
func RegionOf(zone, otherwise string) string {
	trimmed := strings.TrimRight(zone, "abcdefghijklmnopqrstuvwxyz")
	if len(zone)-len(trimmed) != 1 {
		return otherwise // a zone such as "westeurope-1", a local zone, or an invalid zone
	}
	return cmp.Or(strings.TrimSuffix(trimmed, "-"), otherwise)
}
