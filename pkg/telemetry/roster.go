package telemetry

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// roster lists the pods of a group's workloads for one poll, and finds them by name.
type roster struct {
	works []work
	rows  []row
	index map[exposition.Owner]int32 // first row of a pod; rows of a pod that several policies share chain by next
}

// work is one workload of the group: its slots and its pods.
type work struct {
	w              *scaling.Workload
	slots          []slot
	offset         int // of slots[0] in the group
	rowsLo, rowsHi int
	ready          int32 // pods
	replicas       int32 // ready; a group of pods is one
}

type row struct {
	pod   engine.Pod
	work  int32
	next  int32
	fault scaling.Cause // why the pod's own /metrics could not be read

	// Of the reading that was combined last.
	value   float64
	counted bool
}

// newRoster asks for the pods of every workload. With leaders, only the pod of a group that serves metrics is listed where the
// replica is several pods; GPUs are on all of them.
func newRoster(slots []slot, pods engine.Pods, leaders bool) *roster {
	r := &roster{index: map[exposition.Owner]int32{}}
	for lo := 0; lo < len(slots); {
		hi := lo + 1
		for hi < len(slots) && slots[hi].entry == slots[lo].entry {
			hi++
		}
		r.add(work{w: slots[lo].w, slots: slots[lo:hi], offset: lo}, pods, leaders)
		lo = hi
	}
	return r
}

func (r *roster) add(k work, pods engine.Pods, leaders bool) {
	k.rowsLo = len(r.rows)
	var list []engine.Pod
	if pods != nil {
		list = pods.Pods(k.w)
	}
	groups := hasLeader(list)
	leaders = leaders && groups
	for _, p := range list {
		if p.Ready && (p.Leader || !groups) {
			k.replicas++
		}
		if leaders && !p.Leader {
			continue
		}
		if p.Ready {
			k.ready++
		}
		owner := exposition.Owner{Namespace: k.w.Key.Namespace, Pod: p.Name}
		next := int32(-1)
		if first, ok := r.index[owner]; ok {
			next = first
		}
		r.index[owner] = int32(len(r.rows))
		r.rows = append(r.rows, row{pod: p, work: int32(len(r.works)), next: next})
	}
	k.rowsHi = len(r.rows)
	r.works = append(r.works, k)
}

func hasLeader(pods []engine.Pod) bool {
	for i := range pods {
		if pods[i].Leader {
			return true
		}
	}
	return false
}

// find returns the first row of a pod, -1 if it is no workload's.
func (r *roster) find(o exposition.Owner) int32 {
	if i, ok := r.index[o]; ok {
		return i
	}
	return -1
}

// width is the greatest number of slots of one workload.
func (r *roster) width() int {
	n := 0
	for i := range r.works {
		n = max(n, len(r.works[i].slots))
	}
	return n
}

// combine makes a workload's reading for one signal of its pods' values.
//
//	Mean   mean over the ready pods that reported: a loading pod's idle GPU says nothing about load
//	Total  sum over all pods that reported: requests may still wait in a pod that drains; see departed for those of a pod that went
//
// Values much older than the newest (by more than maxAge) are of pods whose exporter died; they do not count as reported, so that
// one dead exporter shows as coverage and does not make the whole workload's reading old. At is the oldest that counted.
func (r *roster) combine(k *work, s *slot, value func(row int) exposition.Value) scaling.Reading {
	values, newest := make([]exposition.Value, 0, 16), time.Time{}
	for i := k.rowsLo; i < k.rowsHi; i++ {
		v := value(i)
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
		row := &r.rows[k.rowsLo+i]
		row.counted = false
		ready := row.pod.Ready
		if v.Quality != exposition.Good {
			worst = max(worst, v.Quality)
			continue
		}
		if newest.Sub(v.At) > s.signal.MaxAge || (s.signal.Kind == scaling.Mean && !ready) {
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
	out.Reported, out.Measured = reported, k.replicas
	r.atRest(k, s, out.At)
	if k.ready > 0 {
		out.Coverage = float64(reported) / float64(k.ready)
	}
	if n == 0 {
		out.Cause = r.why(k, worst)
		return out
	}
	out.Known, out.Value = true, sum
	if s.signal.Kind == scaling.Mean {
		out.Value = sum / float64(n)
	}
	return out
}

// why says why no pod of a workload reported.
func (r *roster) why(k *work, worst exposition.Quality) scaling.Cause {
	switch worst {
	case exposition.Blank:
		return scaling.CauseInvalid
	case exposition.Suspected:
		return scaling.CauseSentinel
	case exposition.Untimed:
		return scaling.CauseUntimed
	}
	for i := k.rowsLo; i < k.rowsHi; i++ {
		if f := r.rows[i].fault; f != scaling.CauseNone {
			return f
		}
	}
	return scaling.CauseEmpty
}

// latency makes a workload's reading of what its pods observed: their histograms are put together first, because a mean of quantiles
// is no quantile. A pod that is blind (see exposition.Observed) does not count as reported.
func (r *roster) latency(k *work, s *slot, m *exposition.Metric, observed func(row int) exposition.Observed) scaling.Reading {
	out := scaling.Reading{Measured: k.replicas}
	var gain exposition.Histogram
	worst, n := exposition.Missing, 0
	for i := k.rowsLo; i < k.rowsHi; i++ {
		o := observed(i).Settle(m)
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
		gain.Merge(&o.Gain)
		n++
		if r.rows[i].pod.Ready {
			out.Reported++
		}
	}
	if k.ready > 0 {
		out.Coverage = float64(out.Reported) / float64(k.ready)
	}
	if n == 0 {
		out.Cause = r.why(k, worst)
		return out
	}
	v, quality := m.Latency(&gain, s.source.Quantile)
	if quality != exposition.Good {
		out.Cause = r.why(k, quality)
		return out
	}
	out.Known, out.Value = true, v
	return out
}
