package telemetry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

// engineScraper reads the pages of model servers: gauges as they stand, latencies over a window that is kept here.
type engineScraper struct {
	*scraper
	profile  *exposition.Profile
	pods     engine.Pods
	others   func() []engine.Pod // set where the metrics are served by pods that are not the workload's own
	windows  map[windowKey]*exposition.Window
	departed departed
}

// windowKey names one latency of one pod. A pod that was replaced under its name started anew.
type windowKey struct {
	pod     exposition.Owner
	started time.Time
	metric  string
}

func newEngineScraper(g *group, o *Options) (*engineScraper, error) {
	p, ok := exposition.Engine(string(g.key.profile))
	if !ok {
		return nil, fmt.Errorf("%w: engine %q", errInvalid, g.key.profile)
	}
	// A tenant's pod would keep what it is sent; pods that the platform selects by label are its own.
	if carriesSecrets(g.source.HTTP) && len(g.source.PodLabels) == 0 {
		return nil, fmt.Errorf("%w: credentials are not sent to the workloads' own pods", errForbidden)
	}
	s, err := newScraper(&g.source, p.Port, p.Path, fetch.Guard{Loopback: o.LoopbackPods})
	if err != nil {
		return nil, err
	}
	e := &engineScraper{scraper: s, profile: p, pods: o.Pods, windows: map[windowKey]*exposition.Window{}}
	if len(g.source.PodLabels) > 0 {
		e.others = exporterPods(&g.source, o)
	}
	return e, nil
}

// said is what one row's pod said in this round.
type said struct {
	counters []exposition.Counters // parallel to engineRound.latencies
	load     []exposition.Cell     // parallel to engineRound.busy
}

// engineRound is one round of an engineScraper.
type engineRound struct {
	*engineScraper
	gauges    *gaugeBatch
	latencies []*exposition.Metric
	busy      []*exposition.Metric
	pages     []said // row by row
}

func (e *engineScraper) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	r := e.newRound(newRoster(slots, e.pods, true), slots)
	if len(r.pages) == 0 {
		return 0, errNoPods
	}
	n := e.round(ctx, r.targets(), e.profile.SeriesNames(metricsOf(slots)...))
	r.gauges.readings(out, e.departed.begin(now())) // of latencies too: they are written over below
	r.latencyReadings(slots, out)
	return n, nil
}

func metricsOf(slots []slot) []string {
	var out []string
	seen := map[string]bool{}
	for i := range slots {
		if m := slots[i].source.Metric; !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	return out
}

func (e *engineScraper) newRound(ro *roster, slots []slot) *engineRound {
	r := &engineRound{engineScraper: e, gauges: newGaugeBatch(e.profile, ro), pages: make([]said, len(ro.rows))}
	seen := map[string]bool{}
	for _, name := range metricsOf(slots) {
		m, ok := e.profile.Lookup(name)
		if !ok || m.Shape == exposition.Gauge {
			continue
		}
		r.latencies = append(r.latencies, m)
		for _, b := range m.Busy {
			if busy, ok := e.profile.Lookup(b); ok && !seen[b] {
				seen[b] = true
				r.busy = append(r.busy, busy)
			}
		}
	}
	for i := range r.pages {
		r.pages[i] = said{make([]exposition.Counters, len(r.latencies)), make([]exposition.Cell, len(r.busy))}
	}
	return r
}

func (r *engineRound) targets() []target {
	ro := r.gauges.roster
	if r.others != nil {
		var out []target
		for _, p := range r.others() {
			out = append(out, target{pod: p, done: func(time.Time, error) {}, take: func(s *exposition.Sample) {
				if owner, ok := exposition.EngineOwner(s.Labels); ok {
					r.take(ro.find(owner), s)
				}
			}})
		}
		return out
	}
	var out []target
	for i := range ro.rows {
		first := ro.find(exposition.Owner{Namespace: ro.works[ro.rows[i].work].w.Key.Namespace, Pod: ro.rows[i].pod.Name})
		if int(first) != i {
			continue // a pod that another policy lists too: it is read once
		}
		out = append(out, target{
			pod:  ro.rows[i].pod,
			take: func(s *exposition.Sample) { r.take(first, s) },
			done: func(_ time.Time, err error) {
				for at := first; at >= 0; at = ro.rows[at].next {
					ro.rows[at].fault = causeOf(err)
				}
			},
		})
	}
	return out
}

func (r *engineRound) take(at int32, s *exposition.Sample) {
	for ; at >= 0; at = r.gauges.roster.rows[at].next {
		r.gauges.add(at, s)
		p := &r.pages[at]
		for i, m := range r.latencies {
			p.counters[i].Add(m, s)
		}
		for i, m := range r.busy {
			p.load[i].Add(r.profile, m, s)
		}
	}
}

// latencyReadings moves the windows on and reads them.
func (r *engineRound) latencyReadings(slots []slot, out []scaling.Reading) {
	ro := r.gauges.roster
	kept := make(map[windowKey]*exposition.Window, len(r.windows))
	for i := range ro.rows {
		for j, m := range r.latencies {
			r.observe(i, j, m, kept)
		}
	}
	r.windows = kept // pods that are gone are forgotten
	for i := range ro.works {
		k := &ro.works[i]
		for j := range k.slots {
			s := &k.slots[j]
			if m := r.gauges.metrics[k.offset+j]; m.Shape != exposition.Gauge {
				out[k.offset+j] = ro.latency(k, s, m, func(row int) exposition.Observed { return r.observed(row, m, s.source.Window) })
			}
		}
	}
}

func (r *engineRound) key(row int, m *exposition.Metric) windowKey {
	ro := r.gauges.roster
	p := &ro.rows[row]
	return windowKey{exposition.Owner{Namespace: ro.works[p.work].w.Key.Namespace, Pod: p.pod.Name}, p.pod.Started, m.Name}
}

func (r *engineRound) observe(row, metric int, m *exposition.Metric, kept map[windowKey]*exposition.Window) {
	key := r.key(row, m)
	if kept[key] != nil {
		return // the same pod under another policy
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

// observed returns what a pod gained in the window; nothing where this round did not reach it.
func (r *engineRound) observed(row int, m *exposition.Metric, window time.Duration) exposition.Observed {
	if r.gauges.roster.rows[row].fault != scaling.CauseNone {
		return exposition.Observed{}
	}
	if _, at, ok := r.pages[row].counters[slices.Index(r.latencies, m)].Histogram(); ok && at.IsZero() {
		return exposition.Observed{Quality: exposition.Untimed}
	}
	gain, at, ok := r.windows[r.key(row, m)].Gain(window)
	if !ok {
		return exposition.Observed{}
	}
	o := exposition.Observed{Gain: gain, At: at, Quality: exposition.Good}
	for i, b := range r.busy {
		for _, name := range m.Busy {
			if b.Name == name {
				if v := r.pages[row].load[i].Value(b); v.Quality == exposition.Good {
					o.Load, o.Told = o.Load+v.Value, o.Told+1
				}
			}
		}
	}
	return o
}
