package evaluate

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// Admission states whether a policy that scales to zero can meet the SLO on this traffic. A wake is the first request after an idle period
// that is longer than the cooldown. There are no replicas at that time, and the first replica is ready after a cold start (D). Requests
// that arrive less than D - W after the wake wait longer than W, the wait that the SLO allows, with any policy:
//
//	late = sum over wakes of (requests within D - W of the wake) / requests       (the ski-rental problem with a dead time)
//
// For k warm replicas, a fluid queue of k servers serves the requests during the cold start after each wake, and the share of late requests
// is computed from the waits in this queue. A policy with an objective is not checked, because gpuscaler then keeps the last replica while
// another request is likely.
type Admission struct {
	Applies   bool    `json:"scalesToZero"`      // the policy may scale to zero
	Wakes     int     `json:"wakes"`             // idle periods longer than the cooldown
	LateShare float64 `json:"lateShare"`         // lowest possible share of late requests when scaling to zero
	CanMeet   bool    `json:"canMeetSLO"`        // scaling to zero can meet the SLO
	LeastWarm int32   `json:"leastWarmReplicas"` // warm replicas that would meet the SLO; -1: even the policy's maximum is not enough
}

// admission computes the Admission of a policy: whether the policy can meet the SLO although its minReplicas is 0. It also returns warnings
// about the policy. With another minReplicas or with an objective, it returns only the warnings about schedules.
func (c *Case) admission() (Admission, []string) {
	p := c.limits()
	out := Admission{Applies: p.MinReplicas == 0, CanMeet: true}
	warnings := c.closedBySchedule()
	if !out.Applies || p.Objective != nil {
		return out, warnings
	}
	cold := c.typicalColdStart()
	wakes, requests := c.wakes(p.CooldownPeriod, cold)
	out.Wakes = len(wakes)
	if requests == 0 {
		return out, warnings
	}
	allowed := 1 - c.SLO.Share
	for warm := int32(0); ; warm++ {
		late := 0
		for _, w := range wakes {
			late += c.lateIn(w, warm, cold)
		}
		share := float64(late) / float64(requests)
		if warm == 0 {
			out.LateShare, out.CanMeet = share, share <= allowed
		}
		if share <= allowed {
			out.LeastWarm = warm
			break
		}
		if warm == p.MaxReplicas {
			out.LeastWarm = -1
			break
		}
	}
	if !out.CanMeet {
		what := fmt.Sprintf("the lowest number of warm replicas that meets the SLO is %d (minReplicas, or the minimum of a schedule)",
			out.LeastWarm)
		if out.LeastWarm < 0 {
			what = fmt.Sprintf("even maxReplicas (%d) warm replicas are not enough", p.MaxReplicas)
		}
		warnings = append(warnings, fmt.Sprintf("scale-to-zero cannot meet this SLO: %d wakes with a cold start of %s make at least %.2f%% "+
			"of the requests wait longer than %s, and only %.2f%% may; %s", out.Wakes, cold, 100*out.LateShare, c.SLO.Wait, 100*allowed, what))
	}
	return out, warnings
}

// arrival is a request during the cold start after a wake: its time since the wake, and the replica time that it needs.
type arrival struct{ after, work time.Duration }

// wakes returns one list for each idle period longer than the cooldown: the first request after the idle period, and the requests that
// arrive within a cold start after that request. It also returns the number of all requests. Both results cover only the report part.
func (c *Case) wakes(cooldown, cold time.Duration) (wakes [][]arrival, requests int) {
	last, began := time.Duration(0), time.Duration(-1)
	if c.initial() == 0 {
		last = -cooldown - 1 // the start of the traffic counts as a wake
	}
	slots := time.Duration(max(1, c.Service.Slots))
	for r := range c.Traffic.All() {
		if r.At < c.reportFrom() {
			last = r.At
			continue
		}
		requests++
		if r.At-last > cooldown {
			began = r.At
			wakes = append(wakes, nil)
		}
		last = r.At
		if began >= 0 && r.At-began <= cold {
			n := len(wakes) - 1
			wakes[n] = append(wakes[n], arrival{after: r.At - began, work: c.Service.Takes(r) / slots})
		}
	}
	return wakes, requests
}

// lateIn returns how many of the requests after one idle period (one wake) wait longer than the SLO allows. Until the cold start is over,
// only the given number of warm replicas serves requests.
func (c *Case) lateIn(wake []arrival, warm int32, cold time.Duration) (late int) {
	free := time.Duration(0) // the time at which all previous requests are served
	for _, a := range wake {
		start := cold
		if warm > 0 {
			start = min(max(free, a.after), max(cold, a.after))
			free = max(free, a.after) + a.work/time.Duration(warm)
		}
		if start-a.after > c.SLO.Wait {
			late++
		}
	}
	return late
}

// closedBySchedule returns a warning for each schedule of the policy that permits no replicas while requests arrive.
func (c *Case) closedBySchedule() (warnings []string) {
	p := c.limits()
	for i := range p.Schedules {
		s := &p.Schedules[i]
		if s.Max != 0 {
			continue
		}
		closed, all := 0, 0
		for r := range c.reported() {
			all++
			if open, _ := s.Window.At(c.start().Add(r.At)); open {
				closed++
			}
		}
		if closed > 0 {
			name := cmp.Or(s.Window.Name, strconv.Itoa(i+1))
			warnings = append(warnings, fmt.Sprintf(
				"schedule %s keeps zero replicas while %d requests arrive (%.2f%% of all): they wait until the schedule ends",
				name, closed, 100*float64(closed)/float64(all)))
		}
	}
	return warnings
}
