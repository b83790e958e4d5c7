package scaling

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

// scheduleCache stores which schedules of a policy are open, until the next of them opens or closes. Without the cache, the evaluation of
// the cron expressions of 10,000 policies in each tick would take longer than all rules together.
type scheduleCache struct {
	from, until int64
	open, ahead uint16 // bit i of open: schedule i is open; bit i of ahead: its minimum already applies because of its lead time
	learned     uint16 // the learned lead time, in seconds, for which the cache was computed
	change      [MaxSchedules]int64
}

// never is the time of an event that will not occur.
const never = math.MaxInt64

// refresh updates the cache. learned is the lead time that the model of the objective has learned. It is used for schedules without Lead.
func (a *scheduleCache) refresh(p *Policy, learned time.Duration, now time.Time) {
	at, lead := history.Stamp(now), uint16(min((learned+time.Second-1)/time.Second, math.MaxUint16))
	if len(p.Schedules) == 0 || a.from <= at && at < a.until && a.learned == lead {
		return
	}
	*a = scheduleCache{from: at, until: never, learned: lead}
	for i := range min(len(p.Schedules), MaxSchedules) {
		s := &p.Schedules[i]
		open, until := s.Window.At(now)
		a.change[i] = never
		if !until.IsZero() {
			a.change[i] = history.Stamp(until)
		}
		next, lead := a.change[i], s.Lead.Milliseconds()
		if lead == 0 && s.Min >= 0 {
			lead = int64(a.learned) * 1000
		}
		switch {
		case open:
			a.open |= 1 << i
		case lead > 0 && next != never && next-lead <= at:
			a.ahead |= 1 << i
		case lead > 0 && next != never:
			next -= lead
		}
		a.until = min(a.until, next)
	}
}

// scheduleFloor raises the target to the greatest minimum of the open schedules, and of the schedules whose lead time has begun. It ignores
// stabilization windows and rates, because the time at which the replicas are needed is known in advance.
func (t *tick) scheduleFloor() {
	a, best := &t.s.schedules, -1
	for i := range min(len(t.p.Schedules), MaxSchedules) {
		min := t.p.Schedules[i].Min
		if (a.open|a.ahead)&(1<<i) == 0 || min < 0 || t.skips(RuleScheduleFloor, int8(i)) {
			continue
		}
		if best < 0 || min > t.p.Schedules[best].Min {
			best = i
		}
	}
	if best < 0 {
		return
	}
	t.floor = clamp(t.p.Schedules[best].Min, 0, maxReplicas)
	when := a.when(best)
	if a.ahead&(1<<best) != 0 {
		when = -when
	}
	t.set(RuleScheduleFloor, int8(best), max(t.n, t.floor), float64(t.floor), when)
}

// scheduleCeiling lowers the target to the smallest maximum of the open schedules. It takes precedence over schedule floors and demand,
// because its purpose is to limit cost. It does not depend on readings and ignores stabilization windows. It removes running replicas only
// at the rates of scaleDown, because a step from 12 to 0 at 23:00 would end every request. If scaleDown is Disabled, it only prevents
// increases.
func (t *tick) scheduleCeiling() {
	a, best := &t.s.schedules, -1
	for i := range min(len(t.p.Schedules), MaxSchedules) {
		max := t.p.Schedules[i].Max
		if a.open&(1<<i) == 0 || max < 0 || t.skips(RuleScheduleCeiling, int8(i)) {
			continue
		}
		if best < 0 || max < t.p.Schedules[best].Max {
			best = i
		}
	}
	if best < 0 {
		return
	}
	ceiling := t.p.Schedules[best].Max
	to := min(t.n, max(ceiling, t.fallLimit().n))
	t.set(RuleScheduleCeiling, int8(best), to, float64(ceiling), a.when(best))
}

// when returns the next time at which schedule i opens or closes. The result is in Unix seconds, as in a Reason, or 0 if the schedule never
// opens or closes again.
func (a *scheduleCache) when(i int) float64 {
	if a.change[i] == never {
		return 0
	}
	return seconds(a.change[i])
}
