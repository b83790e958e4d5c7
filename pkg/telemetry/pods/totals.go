package pods

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Totals keeps the last total of each workload and what each pod contributed to it. The queue of a pod that terminates vanishes with
// the pod, and its clients send their requests again to the other pods. Until the other pods were sampled after that, the sum is too
// small by requests that were not served, and a policy without a stabilization window would remove one more replica for each pod that
// terminated. The zero Totals is ready to use, by one goroutine.
type Totals struct {
	totals     map[totalKey]*total
	terminated map[totalKey][]terminatedPod // that are still counted
}

// TotalsRound is one poll's update of Totals.
type TotalsRound struct {
	*Totals
	before Totals // as the poll before left it
	list   *List
	now    time.Time
}

type totalKey struct {
	workload scaling.Key
	metric   string
}

// total is one reading and the pods that it consists of.
type total struct {
	at    int64 // of the poll, in Unix milliseconds
	value float64
	pods  []contribution
}

type contribution struct {
	pod   string
	value float64
}

// terminatedPod is a pod that is gone, with the time of the first poll without it.
type terminatedPod struct {
	contribution
	at time.Time
}

// Begin starts a poll. Totals that the poll does not read are deleted, except for those that Keep keeps.
func (t *Totals) Begin(now time.Time) *TotalsRound {
	round := &TotalsRound{Totals: t, before: *t, now: now}
	t.totals, t.terminated = make(map[totalKey]*total, len(t.totals)), map[totalKey][]terminatedPod{}
	return round
}

// Len returns the number of totals that are kept.
func (t *Totals) Len() int { return len(t.totals) }

// Keep keeps the totals of namespaces that the poll could not read.
func (t *TotalsRound) Keep(namespaces map[string]scaling.Cause) {
	for key, last := range t.before.totals {
		if _, failed := namespaces[key.workload.Namespace]; failed && t.totals[key] == nil {
			t.totals[key], t.terminated[key] = last, t.before.terminated[key]
		}
	}
}

// fill adds the contributions of terminated pods to a reading that the list combined last, while a sample of the other pods is older
// than the termination. The result is never greater than the total before: requests that other pods took over are in their samples.
func (t *TotalsRound) fill(w *Workload, r *source.Request, out *scaling.Reading) {
	key := totalKey{r.Workload.Key, r.Source.Metric}
	last := t.before.totals[key]
	if last != nil && t.now.UnixMilli()-last.at > r.Signal.MaxAge.Milliseconds() {
		last = nil // too old: those requests were served or have timed out
	}
	if !out.Known {
		if last != nil {
			t.totals[key], t.terminated[key] = last, t.before.terminated[key]
		}
		return
	}
	next := &total{at: t.now.UnixMilli(), pods: t.list.contributions(w)}
	if last != nil {
		out.Value = max(out.Value, min(out.Value+t.missing(w, key, out.At), last.value))
	}
	next.value = out.Value
	t.totals[key] = next
}

// missing returns the sum of the contributions of terminated pods that are still counted. A pod that this poll misses first is counted. A
// pod that an earlier poll missed first is counted until oldest, the oldest sample of the other pods, is after that poll.
func (t *TotalsRound) missing(w *Workload, key totalKey, oldest time.Time) (sum float64) {
	var terminated []terminatedPod
	for _, p := range t.before.totals[key].pods {
		if t.list.terminated(w, p.pod) {
			terminated = append(terminated, terminatedPod{p, t.now})
		}
	}
	for _, p := range t.before.terminated[key] {
		if t.list.terminated(w, p.pod) && !oldest.After(p.at) {
			terminated = append(terminated, p)
		}
	}
	if len(terminated) > 0 {
		t.terminated[key] = terminated
	}
	for _, p := range terminated {
		sum += p.value
	}
	return sum
}

// contributions returns the values of the reading that was combined last.
func (l *List) contributions(w *Workload) []contribution {
	n := 0
	for i := w.first; i < w.end; i++ {
		if l.Rows[i].counted {
			n++
		}
	}
	out := make([]contribution, 0, n)
	for i := w.first; i < w.end; i++ {
		if row := &l.Rows[i]; row.counted {
			out = append(out, contribution{pod: row.Pod.Name, value: row.value})
		}
	}
	return out
}

// terminated reports whether a pod is not listed, or is not ready and did not report. A ready pod that did not report lowers the
// coverage instead.
func (l *List) terminated(w *Workload, pod string) bool {
	for row := l.Find(exposition.Owner{Namespace: w.Requests[0].Namespace(), Pod: pod}); row >= 0; row = l.Next(row) {
		if int(row) >= w.first && int(row) < w.end {
			return !l.Rows[row].counted && !l.Rows[row].Pod.Ready
		}
	}
	return true
}
