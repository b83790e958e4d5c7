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
	totals map[totalKey]*total
	gone   map[totalKey][]departure // that are counted still
}

// leaving is one poll's look at who went.
type leaving struct {
	*departed
	before departed // as of the poll before
	roster *roster
	now    time.Time
}

type totalKey struct {
	workload scaling.Key
	metric   string
}

// total is one reading and the pods that made it up.
type total struct {
	at    int64 // of the poll, Unix milliseconds
	value float64
	pods  []share
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

// begin starts a poll. The totals that the poll does not read are forgotten with it, except for those that keep keeps.
func (d *departed) begin(now time.Time) *leaving {
	l := &leaving{departed: d, before: *d, now: now}
	d.totals, d.gone = make(map[totalKey]*total, len(d.totals)), map[totalKey][]departure{}
	return l
}

// keep keeps the totals of namespaces that the poll could not read.
func (l *leaving) keep(namespaces map[string]scaling.Cause) {
	for key, last := range l.before.totals {
		if _, failed := namespaces[key.workload.Namespace]; failed && l.totals[key] == nil {
			l.totals[key], l.gone[key] = last, l.before.gone[key]
		}
	}
}

// fill adds to the Total that the roster combined last what the pods held that went, as long as a sample of the others is older than
// that. It never makes the Total greater than it was: what has come to the others is in their samples.
func (l *leaving) fill(k *work, s *slot, out *scaling.Reading) {
	key := totalKey{k.w.Key, s.source.Metric}
	last := l.before.totals[key]
	if last != nil && l.now.UnixMilli()-last.at > s.signal.MaxAge.Milliseconds() {
		last = nil // what was so long ago is nobody's queue any more
	}
	if !out.Known {
		if last != nil {
			l.totals[key], l.gone[key] = last, l.before.gone[key]
		}
		return
	}
	next := &total{at: l.now.UnixMilli(), pods: l.roster.shares(k)}
	if last != nil {
		out.Value = max(out.Value, min(out.Value+l.missed(k, key, out.At), last.value))
	}
	next.value = out.Value
	l.totals[key] = next
}

// missed sums up what is counted of pods that went: those that this poll misses first, and those before them as long as a sample of
// the others is older than that.
func (l *leaving) missed(k *work, key totalKey, oldest time.Time) (sum float64) {
	var gone []departure
	for _, p := range l.before.totals[key].pods {
		if l.roster.left(k, p.pod) {
			gone = append(gone, departure{p, l.now})
		}
	}
	for _, p := range l.before.gone[key] {
		if l.roster.left(k, p.pod) && !oldest.After(p.at) {
			gone = append(gone, p)
		}
	}
	if len(gone) > 0 {
		l.gone[key] = gone
	}
	for _, p := range gone {
		sum += p.value
	}
	return sum
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
