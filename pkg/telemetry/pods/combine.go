package pods

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// combine returns a workload's reading for one signal from the values of its pods.
//
//	Mean   mean over the ready pods that reported; the idle GPU of a pod that still loads its model does not show low load
//	Total  sum over all pods that reported, because requests may wait in a pod that terminates; see Totals for pods that are gone
//
// A value that is older than the newest one by more than the signal's MaxAge is from a pod whose exporter has stopped. It does not
// count as reported: one stopped exporter lowers the coverage and does not make the whole reading old. At is the time of the oldest
// value that counts.
func (l *List) combine(w *Workload, r *source.Request, value func(row int) exposition.Value) scaling.Reading {
	values, newest := make([]exposition.Value, 0, 16), time.Time{}
	for row := w.first; row < w.end; row++ {
		v := value(row)
		values = append(values, v)
		if v.Quality == exposition.Good && v.At.After(newest) {
			newest = v.At
		}
	}
	out := scaling.Reading{}
	var sum float64
	var n, reported int32
	worst := exposition.Missing
	for i, v := range values {
		row := &l.Rows[w.first+i]
		row.counted = false
		ready := row.Pod.Ready
		if v.Quality != exposition.Good {
			worst = max(worst, v.Quality)
			continue
		}
		if newest.Sub(v.At) > r.Signal.MaxAge || (r.Signal.Kind == scaling.Mean && !ready) {
			continue
		}
		if n == 0 || v.At.Before(out.At) {
			out.At = v.At
		}
		row.value, row.counted = v.Value, true
		sum += v.Value
		n++
		if ready {
			reported++
		}
	}
	out.Reported, out.Measured = reported, w.replicas
	l.recordIdle(w, r, out.At)
	if w.ready > 0 {
		out.Coverage = float64(reported) / float64(w.ready)
	}
	if n == 0 {
		out.Cause = l.cause(w, worst)
		return out
	}
	out.Known, out.Value = true, sum
	if r.Signal.Kind == scaling.Mean {
		out.Value = sum / float64(n)
	}
	return out
}

// recordIdle records the ready pods whose value in the reading that was just combined is exactly 0. A pod in use has no such value.
func (l *List) recordIdle(w *Workload, r *source.Request, at time.Time) {
	if r.Idle == nil {
		return
	}
	var idle []string
	for i := w.first; i < w.end; i++ {
		if row := &l.Rows[i]; row.counted && row.Pod.Ready && row.value == 0 {
			idle = append(idle, row.Pod.Name)
		}
	}
	r.Idle.Record(at, idle)
}

// cause returns why no pod of a workload reported. worst is the worst quality among its values.
func (l *List) cause(w *Workload, worst exposition.Quality) scaling.Cause {
	switch worst {
	case exposition.Blank:
		return scaling.CauseInvalid
	case exposition.Suspected:
		return scaling.CauseSentinel
	case exposition.Untimed:
		return scaling.CauseUntimed
	}
	for i := w.first; i < w.end; i++ {
		if f := l.Rows[i].Fault; f != scaling.CauseNone {
			return f
		}
	}
	return scaling.CauseEmpty
}

// Latency returns a workload's reading for one latency. It merges the histograms of the pods before it computes the quantile, because
// a mean of quantiles is not a quantile. A pod whose latency is not known (see exposition.Observed) does not count as reported.
func (l *List) Latency(w *Workload, r *source.Request, m *exposition.Metric, observed func(row int) exposition.Observed) scaling.Reading {
	out := scaling.Reading{Measured: w.replicas}
	var merged exposition.Histogram
	worst, n := exposition.Missing, 0
	for row := w.first; row < w.end; row++ {
		o := observed(row).WithoutObservations(m)
		if o.Quality == exposition.Good && o.At.IsZero() {
			o.Quality = exposition.Untimed
		}
		if o.Quality != exposition.Good {
			worst = max(worst, o.Quality)
			continue
		}
		if n == 0 || o.At.Before(out.At) {
			out.At = o.At
		}
		merged.Merge(&o.Gain)
		n++
		if l.Rows[row].Pod.Ready {
			out.Reported++
		}
	}
	if w.ready > 0 {
		out.Coverage = float64(out.Reported) / float64(w.ready)
	}
	if n == 0 {
		out.Cause = l.cause(w, worst)
		return out
	}
	v, quality := m.Latency(&merged, r.Source.Quantile)
	if quality != exposition.Good {
		out.Cause = l.cause(w, quality)
		return out
	}
	out.Known, out.Value = true, v
	return out
}
