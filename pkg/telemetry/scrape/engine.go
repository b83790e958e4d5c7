package scrape

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Engines reads the metrics pages of model servers, and returns readings of gauges and latencies. For latencies over a window it stores
// the histograms of earlier polls. It implements source.Fetcher.
type Engines struct {
	*scraper
	source  *policy.DataSource
	cluster pods.Cluster
	profile *exposition.Profile
	windows map[windowKey]*exposition.Window
	totals  pods.Totals
}

// windowKey identifies one latency of one pod. The start time distinguishes a pod from an earlier pod with the same name.
type windowKey struct {
	pod     exposition.Owner
	started time.Time
	metric  string
}

// NewEngines returns a fetcher for one engine. It reads the pods of the workloads, or the pods that the data source selects by label.
func NewEngines(d *policy.DataSource, t policy.SourceType, c pods.Cluster, g fetch.Guard) (*Engines, error) {
	p, ok := exposition.Engine(string(t))
	if !ok {
		return nil, fmt.Errorf("%w: engine %q", source.ErrInvalid, t)
	}
	// Credentials are not sent to the pods of tenants, because the tenants could read and store them. Pods that the data source selects by
	// label belong to the platform team.
	if fetch.SendsCredentials(d.HTTP) && len(d.PodLabels) == 0 {
		return nil, fmt.Errorf("%w: credentials are not sent to the workloads' own pods", source.ErrDenied)
	}
	s, err := newScraper(d, p.Port, p.Path, g)
	if err != nil {
		return nil, err
	}
	return &Engines{scraper: s, source: d, cluster: c, profile: p, windows: map[windowKey]*exposition.Window{}}, nil
}

// Fetch implements source.Fetcher.
func (e *Engines) Fetch(ctx context.Context, requests []source.Request, out []scaling.Reading) (int64, error) {
	r := e.newRound(pods.New(requests, e.cluster.Pods, true), requests)
	if len(r.pages) == 0 {
		return 0, source.ErrNoPods
	}
	n := e.round(ctx, r.targets(), e.profile.SeriesNames(metricsOf(requests)...))
	r.gauges.Readings(out, e.totals.Begin(now())) // this also sets the readings of latencies, which the next line overwrites
	r.latencies(out)
	return n, nil
}

func metricsOf(requests []source.Request) []string {
	var out []string
	for i := range requests {
		if m := requests[i].Source.Metric; !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// engineRound is one poll of Engines.
type engineRound struct {
	*Engines
	list    *pods.List
	gauges  *pods.Gauges
	metrics []*exposition.Metric // latencies that the requests read
	busy    []*exposition.Metric // gauges in Metric.Busy of the latencies in the field metrics
	pages   []podPage            // the page of each row of the list, in the same order
}

// podPage contains the samples of the pod in one row of the list.
type podPage struct {
	counters []exposition.Counters // one for each of engineRound.metrics, in the same order
	load     []exposition.Cell     // one for each of engineRound.busy, in the same order
}

func (e *Engines) newRound(list *pods.List, requests []source.Request) *engineRound {
	r := &engineRound{Engines: e, list: list, gauges: pods.NewGauges(e.profile, list), pages: make([]podPage, len(list.Rows))}
	seen := map[string]bool{}
	for _, name := range metricsOf(requests) {
		m, ok := e.profile.Lookup(name)
		if !ok || m.Shape == exposition.Gauge {
			continue
		}
		r.metrics = append(r.metrics, m)
		for _, b := range m.Busy {
			if busy, ok := e.profile.Lookup(b); ok && !seen[b] {
				seen[b] = true
				r.busy = append(r.busy, busy)
			}
		}
	}
	for i := range r.pages {
		r.pages[i] = podPage{make([]exposition.Counters, len(r.metrics)), make([]exposition.Cell, len(r.busy))}
	}
	return r
}

// targets returns the pods to read: the pods that the data source selects by label or, if it has no label selector, the workloads' own
// pods. A sample from a selected pod belongs to the workload's pod that the labels of the sample name.
func (r *engineRound) targets() (out []target) {
	if len(r.source.PodLabels) > 0 {
		for _, p := range selectedPods(r.source, r.cluster) {
			out = append(out, target{pod: p, done: func(error) {}, take: func(s *exposition.Sample) {
				if owner, ok := exposition.EngineOwner(s.Labels); ok {
					r.take(r.list.Find(owner), s)
				}
			}})
		}
		return out
	}
	for i := range r.list.Rows {
		first := r.list.Find(r.list.Owner(i))
		if int(first) != i {
			continue // another policy selects the same pod, and each pod is read only once
		}
		out = append(out, target{
			pod:  r.list.Rows[i].Pod,
			take: func(s *exposition.Sample) { r.take(first, s) },
			done: func(err error) {
				for row := first; row >= 0; row = r.list.Next(row) {
					r.list.Rows[row].Fault = source.CauseOf(err)
				}
			},
		})
	}
	return out
}

// take adds a sample to a row of the list, and to all other rows of the same pod. A pod has one row for each policy that selects it.
func (r *engineRound) take(row int32, s *exposition.Sample) {
	for ; row >= 0; row = r.list.Next(row) {
		r.gauges.Add(row, s)
		p := &r.pages[row]
		for i, m := range r.metrics {
			p.counters[i].Add(m, s)
		}
		for i, m := range r.busy {
			p.load[i].Add(r.profile, m, s)
		}
	}
}

// latencies adds this poll to the windows and sets the readings of latencies. It deletes the windows of pods that no longer exist.
func (r *engineRound) latencies(out []scaling.Reading) {
	kept := make(map[windowKey]*exposition.Window, len(r.windows))
	for i := range r.list.Rows {
		for j, m := range r.metrics {
			r.addToWindow(i, j, m, kept)
		}
	}
	r.windows = kept
	for i := range r.list.Workloads {
		w := &r.list.Workloads[i]
		for j := range w.Requests {
			request := &w.Requests[j]
			if m := r.gauges.Metric(w.Offset + j); m.Shape != exposition.Gauge {
				out[w.Offset+j] = r.list.Latency(w, request, m, func(row int) exposition.Observed {
					return r.observed(row, m, request.Source.Window)
				})
			}
		}
	}
}

func (r *engineRound) key(row int, m *exposition.Metric) windowKey {
	return windowKey{r.list.Owner(row), r.list.Rows[row].Pod.Started, m.Name}
}

func (r *engineRound) addToWindow(row, metric int, m *exposition.Metric, kept map[windowKey]*exposition.Window) {
	key := r.key(row, m)
	if kept[key] != nil {
		return // the same pod was already added for another workload
	}
	w := r.windows[key]
	if w == nil {
		w = &exposition.Window{}
	}
	kept[key] = w
	if h, at, ok := r.pages[row].counters[metric].Histogram(); ok && !at.IsZero() {
		w.Observe(h, at)
	}
}

// observed returns the increase of a pod's histogram within the window. If this poll could not read the pod, the quality is Missing.
func (r *engineRound) observed(row int, m *exposition.Metric, window time.Duration) exposition.Observed {
	if r.list.Rows[row].Fault != scaling.CauseNone {
		return exposition.Observed{}
	}
	if _, at, ok := r.pages[row].counters[slices.Index(r.metrics, m)].Histogram(); ok && at.IsZero() {
		return exposition.Observed{Quality: exposition.Untimed}
	}
	gain, at, ok := r.windows[r.key(row, m)].Gain(window)
	if !ok {
		return exposition.Observed{}
	}
	o := exposition.Observed{Gain: gain, At: at, Quality: exposition.Good}
	for i, b := range r.busy {
		if !slices.Contains(m.Busy, b.Name) {
			continue
		}
		if v := r.pages[row].load[i].Value(b); v.Quality == exposition.Good {
			o.Load, o.Reported = o.Load+v.Value, o.Reported+1
		}
	}
	return o
}
