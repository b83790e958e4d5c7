package engine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// lookahead is how long before the start of a schedule its minimum counts as known demand. It is longer than the maximum lead time of one
	// day.
	lookahead = 25 * time.Hour
	// openLookback is how far back refreshAhead searches for the start of an open window. Package capacity does not use earlier starts.
	openLookback = 2 * time.Hour
)

// aheadSpan is a minimum number of replicas that a schedule sets from its start (from) to its end (until). The schedule is open or opens
// soon.
type aheadSpan struct {
	workload    int // index in groupTick.workloads
	from, until time.Time
	replicas    int32
}

// observe sets the inputs of the group's decision: the state of the cluster, and the decisions that this tick made for the group's
// workloads.
func (g *groupTick) observe(nodes Nodes, idle IdlePods, now time.Time) {
	o := &g.observation
	for len(o.Workloads) < len(g.workloads) {
		o.Workloads = append(o.Workloads, capacity.Workload{})
	}
	o.Workloads, o.Lost = o.Workloads[:len(g.workloads)], false
	nodes.Observe(g.group, g.workloads, o)
	for i := range o.Workloads {
		g.fillDecided(i, &o.Workloads[i])
	}
	if idle != nil && g.group.EmptyWholeNodes {
		g.lookForIdle(idle, now)
	}
	g.refreshAhead(now)
	o.Ahead = o.Ahead[:0]
	for i := range g.ahead {
		a := &g.ahead[i]
		w := &o.Workloads[a.workload]
		o.Ahead = append(o.Ahead, capacity.Span{
			From: a.from, Until: a.until, GPUs: int64(a.replicas) * w.GPUs, Workload: w.Key, Replicas: a.replicas,
		})
	}
}

// lookForIdle marks the idle pods of the group. It changes copies, because the slices of the observation are shared.
func (g *groupTick) lookForIdle(idle IdlePods, now time.Time) {
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

// fillDecided sets the fields of the observed workload w that depend on the workload's decision in this tick.
func (g *groupTick) fillDecided(i int, w *capacity.Workload) {
	t, of := &g.evaluations[i], g.workloads[i]
	w.Key = g.keys[i]
	w.Known, w.Paused, w.Extra = t.decided && !t.decision.Degraded, of.Mode != scaling.Auto, 0
	w.Bounded, w.Room, w.ColdStart, w.LeadTime = true, 0, 0, 0
	if m := g.entries[i].state.Learned(); m != nil && of.Policy.Objective != nil {
		w.LeadTime = minutes(m.LeadTime(of.Policy.Objective))
	}
	if !t.decided {
		// Use the demand of the last decision, because this tick made no decision for the workload.
		w.Uncapped = g.entries[i].decision.Uncapped
		return
	}
	w.Paused = w.Paused || t.view.Operator.Paused
	if plan := t.decision.Plan; plan != nil {
		w.ColdStart = minutes(plan.ColdStart)
	}
	w.Uncapped, w.Extra, w.Room = t.decision.Uncapped, t.decision.Extra, t.decision.Room
	if m := g.entries[i].member; m != nil {
		w.Room = min(w.Room, m.room)
	}
}

// minutes rounds a duration up to whole minutes, so that the observation changes at most once a minute.
func minutes(d time.Duration) time.Duration { return (d + time.Minute - 1) / time.Minute * time.Minute }

// refreshAhead finds the schedules that open soon. It runs once a minute, because the evaluation of all cron expressions takes longer than
// all rules of a tick.
func (g *groupTick) refreshAhead(now time.Time) {
	minute := now.Unix() / 60
	if minute == g.refreshed {
		return
	}
	g.refreshed, g.ahead = minute, g.ahead[:0]
	group := g.group.LeadTime
	for i := range g.observation.Workloads {
		if g.group.LeadTime == 0 {
			group = max(group, g.observation.Workloads[i].LeadTime)
		}
	}
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
			// Package capacity subtracts the lead time of the group from this start. If the lead of the schedule is longer, the excess is subtracted
			// here.
			if from = from.Add(-max(s.Lead-group, 0)); ok && from.Sub(now) < lookahead {
				g.ahead = append(g.ahead, aheadSpan{i, from, until, s.Min})
			}
		}
	}
}

// spanNear returns the current span of a window, or the next span if the window is closed. A span that began more than openLookback ago is
// returned with the start now minus openLookback. ok is false if the window never opens again.
func spanNear(w *calendar.Window, now time.Time) (from, until time.Time, ok bool) {
	open, change := w.At(now)
	if !open {
		if change.IsZero() {
			return from, until, false
		}
		_, end := w.At(change)
		return change, endOrYear(end, now), true
	}
	from = now.Add(-openLookback)
	for from.Before(now) {
		was, next := w.At(from)
		if was && (next.IsZero() || next.After(now)) || next.IsZero() {
			break
		}
		from = next
	}
	return from, endOrYear(change, now), true
}

// endOrYear returns end. If end is zero, it returns the time one year after now.
func endOrYear(end, now time.Time) time.Time {
	if end.IsZero() {
		return now.AddDate(1, 0, 0)
	}
	return end
}
