package telemetry

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// departed remembers what each pod held of a Total. A pod that goes takes its queue along, and its clients ask the others again: until
// those were looked at after that, the sum is too small by requests that nobody has served, and a policy without a window would take
// the next replica away for each one that went.
type departed struct {
	before, totals map[totalKey]*total // of the last poll, and of this one
}

type totalKey struct {
	workload scaling.Key
	metric   string
}

// total is one reading and the pods that made it up.
type total struct {
	at    time.Time // of the poll
	value float64
	pods  []share
	gone  []departure // that are counted still
}

type share struct {
	pod   string
	value float64
}

// departure is a pod that went, and the poll that first missed it.
type departure struct {
	share
	at time.Time
}

// begin starts a poll. What the poll does not come by is forgotten with it.
func (d *departed) begin() {
	d.before, d.totals = d.totals, make(map[totalKey]*total, len(d.totals))
}

// fill adds to the Total that the roster combined last what the pods held that went, as long as a sample of the others is older than
// that. It never makes the Total greater than it was: what has come to the others is in their samples.
func (d *departed) fill(ro *roster, k *work, s *slot, out *scaling.Reading, now time.Time) {
	key := totalKey{k.w.Key, s.source.Metric}
	last := d.before[key]
	if last != nil && now.Sub(last.at) > s.signal.MaxAge {
		last = nil // what was so long ago is nobody's queue any more
	}
	if !out.Known {
		if last != nil {
			d.totals[key] = last
		}
		return
	}
	next := &total{at: now, pods: ro.shares(k)}
	if last != nil {
		for _, p := range last.pods {
			if ro.left(k, p.pod) {
				next.gone = append(next.gone, departure{p, now})
			}
		}
		sum := 0.0
		for _, p := range last.gone {
			if ro.left(k, p.pod) && !out.At.After(p.at) {
				next.gone = append(next.gone, p)
			}
		}
		for _, p := range next.gone {
			sum += p.value
		}
		out.Value = max(out.Value, min(out.Value+sum, last.value))
	}
	next.value = out.Value
	d.totals[key] = next
}

// shares lists what made up the reading that was combined last.
func (r *roster) shares(k *work) []share {
	n := 0
	for i := k.rowsLo; i < k.rowsHi; i++ {
		if r.rows[i].counted {
			n++
		}
	}
	out := make([]share, 0, n)
	for i := k.rowsLo; i < k.rowsHi; i++ {
		if row := &r.rows[i]; row.counted {
			out = append(out, share{pod: row.pod.Name, value: row.value})
		}
	}
	return out
}

// left tells whether a pod is gone or on its way out, and silent. One that is ready and silent is missing in the coverage.
func (r *roster) left(k *work, pod string) bool {
	for i := r.find(exposition.Owner{Namespace: k.w.Key.Namespace, Pod: pod}); i >= 0; i = r.rows[i].next {
		if int(i) >= k.rowsLo && int(i) < k.rowsHi {
			return !r.rows[i].counted && !r.rows[i].pod.Ready
		}
	}
	return true
}
