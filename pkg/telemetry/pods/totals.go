package pods

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Totals keeps the last total of each workload and the values of its pods, which add up to this total. When a pod terminates, its queue
// disappears, and its clients send their requests again to the other pods. Until the other pods have newer samples, their sum does not
// include these requests, although the requests still wait. Without a correction, a policy without a stabilization window would remove
// one more replica for each pod that terminated. The zero Totals is ready to use, but not safe for concurrent use.
type Totals struct {
	totals     map[totalKey]*total
	terminated map[totalKey][]terminatedPod // terminated pods whose values are still added to the total
}

// TotalsRound updates Totals during one poll.
type TotalsRound struct {
	*Totals
	before Totals // state after the previous poll
	list   *List
	now    time.Time
}

type totalKey struct {
	workload scaling.Key
	metric   string
}

// total is the value of one reading, and the values of the pods that it includes.
type total struct {
	at    int64 // time of the poll in Unix milliseconds
	value float64
	pods  []contribution
}

type contribution struct {
	pod   string
	value float64
}

// terminatedPod is a pod that terminated, with its last value and the time of the first poll that did not list it.
type terminatedPod struct {
	contribution
	at time.Time
}

// Begin starts a poll. After the poll, the totals of workloads that it did not read are deleted, except the totals of namespaces for which
// Keep is called.
func (t *Totals) Begin(now time.Time) *TotalsRound {
	round := &TotalsRound{Totals: t, before: *t, now: now}
	t.totals, t.terminated = make(map[totalKey]*total, len(t.totals)), map[totalKey][]terminatedPod{}
	return round
}

// Len returns the number of totals that are kept.
func (t *Totals) Len() int { return len(t.totals) }

// Keep keeps the totals of workloads in the namespaces that the poll failed to read.
func (t *TotalsRound) Keep(namespaces map[string]scaling.Cause) {
	for key, last := range t.before.totals {
		if _, failed := namespaces[key.workload.Namespace]; failed && t.totals[key] == nil {
			t.totals[key], t.terminated[key] = last, t.before.terminated[key]
		}
	}
}

// fill adds the values of terminated pods to a reading that combine has just computed. A terminated pod is added until every other pod has
// a sample that is newer than the termination. The result is at most the previous total, because the samples of the other pods may already
// include requests of the terminated pod.
func (t *TotalsRound) fill(w *Workload, r *source.Request, out *scaling.Reading) {
	key := totalKey{r.Workload.Key, r.Source.Metric}
	last := t.before.totals[key]
	if last != nil && t.now.UnixMilli()-last.at > r.Signal.MaxAge.Milliseconds() {
		last = nil // the last total is too old, so its requests were served or have timed out
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

// missing returns the sum of the values of the terminated pods that must still be added to the total. It adds a pod that was listed in the
// previous poll and is missing in this poll. It adds the pod again in later polls until every other pod has a sample that is newer than the
// first poll without the terminated pod. The parameter oldest is the time of the oldest sample of the other pods.
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

// contributions returns the names and values of the pods that are included in the reading that combine has just computed.
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

// terminated reports whether a pod is no longer listed, or is not ready and did not report. A ready pod that did not report does not count
// as terminated, but lowers the coverage.
func (l *List) terminated(w *Workload, pod string) bool {
	for row := l.Find(exposition.Owner{Namespace: w.Requests[0].Namespace(), Pod: pod}); row >= 0; row = l.Next(row) {
		if int(row) >= w.first && int(row) < w.end {
			return !l.Rows[row].counted && !l.Rows[row].Pod.Ready
		}
	}
	return true
}
