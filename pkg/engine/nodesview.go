package engine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// aheadWithin is how far ahead a schedule's floor is known demand; a lead time is a day at most.
	aheadWithin = 25 * time.Hour
	// openedWithin is how far back the start of an open window is looked for: after it nothing is held for it any more.
	openedWithin = 2 * time.Hour
)

// aheadSpan is a floor that opens soon or is open.
type aheadSpan struct {
	workload    int // index in groupTick.workloads
	from, until time.Time
	replicas    int32
}

// observe fills the group's observation: what the cluster shows, and what was decided this tick.
func (g *groupTick) observe(nodes Nodes, idle Idlers, now time.Time) {
	o := &g.observation
	for len(o.Workloads) < len(g.workloads) {
		o.Workloads = append(o.Workloads, capacity.Workload{})
	}
	o.Workloads, o.Lost = o.Workloads[:len(g.workloads)], false
	nodes.Observe(g.group, g.workloads, o)
	for i := range o.Workloads {
		g.told(i, &o.Workloads[i])
	}
	if idle != nil && g.group.EmptyWholeNodes {
		g.lookForIdle(idle, now)
	}
	g.refreshAhead(now)
	o.Ahead = o.Ahead[:0]
	for i := range g.ahead {
		a := &g.ahead[i]
		w := &o.Workloads[a.workload]
		o.Ahead = append(o.Ahead, capacity.Span{From: a.from, Until: a.until, GPUs: int64(a.replicas) * w.GPUs, Workload: w.Key, Replicas: a.replicas})
	}
}

// lookForIdle marks the pods that do nothing, on a copy: what is observed is shared.
func (g *groupTick) lookForIdle(idle Idlers, now time.Time) {
	for len(g.pods) < len(g.workloads) {
		g.pods = append(g.pods, nil)
	}
	for i, w := range g.workloads {
		g.pods[i] = append(g.pods[i][:0], g.observation.Workloads[i].Pods...)
		for j := range g.pods[i] {
			p := &g.pods[i][j]
			p.Idle = p.Ready && idle.Idle(w, p.Name, now)
		}
		g.observation.Workloads[i].Pods = g.pods[i]
	}
}

// told fills in what was decided for a workload.
func (g *groupTick) told(i int, w *capacity.Workload) {
	t, of := &g.thoughts[i], g.workloads[i]
	w.Key = g.keys[i]
	w.Known, w.Paused, w.Extra = t.made && !t.decision.Degraded, of.Mode != scaling.Auto, 0
	if !t.made {
		// Not seen in this tick: at least what was asked for last.
		w.Uncapped = g.slots[i].decision.Uncapped
		return
	}
	w.Paused = w.Paused || t.view.Operator.Paused
	w.Uncapped, w.Extra = t.decision.Uncapped, t.decision.Extra
}

// refreshAhead looks once a minute which floors open soon: cron arithmetic in each tick would cost more than all rules together.
func (g *groupTick) refreshAhead(now time.Time) {
	minute := now.Unix() / 60
	if minute == g.looked {
		return
	}
	g.looked, g.ahead = minute, g.ahead[:0]
	for i, w := range g.workloads {
		if w.Mode != scaling.Auto {
			continue
		}
		for j := range w.Policy.Schedules {
			s := &w.Policy.Schedules[j]
			if s.Min <= 0 {
				continue
			}
			from, until, ok := spanNear(&s.Window, now)
			// Package capacity adds the group's own lead time.
			if from = from.Add(-max(s.Lead-g.group.LeadTime, 0)); ok && from.Sub(now) < aheadWithin {
				g.ahead = append(g.ahead, aheadSpan{i, from, until, s.Min})
			}
		}
	}
}

// spanNear is the span of a window that is open, or the next one. An open one that began long ago begins openedWithin ago.
func spanNear(w *calendar.Window, now time.Time) (from, until time.Time, ok bool) {
	open, change := w.At(now)
	if !open {
		if change.IsZero() {
			return from, until, false
		}
		_, end := w.At(change)
		return change, forever(end, now), true
	}
	from = now.Add(-openedWithin)
	for from.Before(now) {
		was, next := w.At(from)
		if was && (next.IsZero() || next.After(now)) || next.IsZero() {
			break
		}
		from = next
	}
	return from, forever(change, now), true
}

// forever stands for an end that never comes.
func forever(end, now time.Time) time.Time {
	if end.IsZero() {
		return now.AddDate(1, 0, 0)
	}
	return end
}
