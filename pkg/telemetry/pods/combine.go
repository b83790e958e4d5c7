package pods

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// combine computes a workload's reading for one signal from the values of its pods. The kind of the signal determines which pods are
// included:
//
//	Mean   the mean over the ready pods; a pod that still loads its model has an idle GPU, which would lower the mean
//	Total  the sum over all pods, because requests may still wait in a pod that terminates; Totals adds pods that no longer exist
//
// If the value of a pod is older than the newest value of the workload by more than the signal's MaxAge, the exporter of that pod has
// stopped. combine then ignores the value of this pod and lowers the coverage, so that one stopped exporter does not make the whole reading
// old. At is the time of the oldest value that is included.
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

// recordIdle records in r.Idle which ready pods are idle. A pod is idle if its value is exactly 0 in the reading that combine has just
// computed. A pod that serves requests has a value above 0.
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

// cause returns why no pod of a workload has a usable value. worst is the most severe quality of the values of its pods.
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

// Latency returns a workload's reading for one latency. It merges the histograms of the pods before it computes the quantile, because the
// mean of the pods' quantiles would not be a quantile. A pod whose latency is not known (see exposition.Observed) counts as a pod that did
// not report.
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
