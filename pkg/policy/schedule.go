package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a controller's image has no zone files, and a laptop's may be years old

	"github.com/robfig/cron/v3"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// cronParser is KEDA's: five fields and nothing else. @daily and the like are left out, because a window needs an end to match.
var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

const cronAllowed = `five cron fields: minute, hour, day of month, month, day of week, such as "0 8 * * 1-5"`

func parseCron(text string) (calendar.Cron, error) {
	if len(text) > 200 || strings.Contains(text, "TZ=") {
		return calendar.Cron{}, errors.New("the zone is written as timezone")
	}
	parsed, err := cronParser.Parse(text)
	if err != nil {
		return calendar.Cron{}, err
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return calendar.Cron{}, errors.New("it does not name times of day")
	}
	return calendar.Cron{Minute: s.Minute, Hour: s.Hour, DayOfMonth: s.Dom, Month: s.Month, DayOfWeek: s.Dow}, nil
}

// parseZone reads an IANA zone. "Local" is refused: it would mean the controller's node.
func parseZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, errors.New("is not a zone")
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	kept, _ := zones.LoadOrStore(name, zone)
	return kept.(*time.Location), nil
}

// zones keeps each zone once: a zone weighs some kilobytes and is read from a file. There are about 600 names that load.
var zones sync.Map

// scheduleName bounds the names of schedules, which stand in reasons, log lines and Events.
var scheduleName = regexp.MustCompile(`^[\p{L}\p{N}]([-_. \p{L}\p{M}\p{N}]{0,61}[\p{L}\p{M}\p{N}])?$`)

const scheduleNameAllowed = "at most 63 letters, digits, spaces, '-', '_' and '.', a letter or digit first and last"

// windowText is what a window is made of; policies and capacity groups share it.
type windowText struct{ name, zone, start, end, from, until string }

// window compiles a window in time; ok is false where it was refused.
func (f *findings) window(w windowText, p *yamlPath) (out calendar.Window, ok bool) {
	before := len(f.problems)
	if w.name != "" && !scheduleName.MatchString(w.name) {
		f.bad(p.key("name"), "is not a name for a schedule", scheduleNameAllowed)
	}
	zone, err := parseZone(w.zone)
	if err != nil {
		if w.zone != "" {
			f.bad(p.key("timezone"), "is not a zone", "an IANA zone such as Europe/Berlin or Etc/UTC")
		}
		zone = time.UTC
	}
	out = calendar.Window{Name: w.name, Location: zone}
	out.Start = f.cron(w.start, p.key("start"))
	out.End = f.cron(w.end, p.key("end"))
	out.From = f.moment(w.from, p.key("from"), zone, false)
	out.To = f.moment(w.until, p.key("until"), zone, true)
	switch {
	case (w.start == "") != (w.end == ""):
		missing := "end"
		if w.start == "" {
			missing = "start"
		}
		f.bad(p.key(missing), "is missing", "start and end belong together")
	case w.start == "" && w.from == "" && w.until == "":
		f.bad(p.key("start"), "is missing", "start and end, from and until, or all four")
	case w.start == "" && (w.from == "" || w.until == ""):
		f.bad(p.key("until"), "a window that happens once has two sides", "from and until")
	}
	if len(f.problems) > before {
		return out, false
	}
	f.checkWindow(w, &out, p)
	return out, len(f.problems) == before
}

func (f *findings) checkWindow(w windowText, out *calendar.Window, p *yamlPath) {
	switch {
	case w.start != "" && out.Start == out.End:
		f.bad(p.key("end"), "start and end are the same: the window never opens", "an end that differs from the start")
	case !out.From.IsZero() && !out.To.IsZero() && !out.From.Before(out.To):
		f.bad(p.key("until"), "is not after from", "a later day or moment")
	case out.NeverFires():
		f.bad(p.key("start"), "the window never opens", "days that exist, within from and until")
	case out.NeverEnds():
		f.bad(p.key("end"), "the window never closes", "days that exist, or an until")
	}
}

func (f *findings) cron(text string, p *yamlPath) calendar.Cron {
	if text == "" {
		return calendar.Cron{}
	}
	c, err := parseCron(text)
	if err != nil {
		f.bad(p, "is not a cron expression: "+err.Error(), cronAllowed)
	}
	return c
}

// momentLayouts are the ways to write a moment on the zone's clock; a bare day comes first.
var momentLayouts = []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05"}

// moment reads a day or a moment on the zone's clock. An until that is a bare day includes that day.
func (f *findings) moment(text string, p *yamlPath, zone *time.Location, end bool) time.Time {
	if text == "" {
		return time.Time{}
	}
	for i, layout := range momentLayouts {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if end && i == 0 {
			t = t.AddDate(0, 0, 1)
		}
		if end {
			return calendar.EndsAt(zone, t)
		}
		return calendar.StartsAt(zone, t)
	}
	f.bad(p, "is not a day or a moment", "2026-11-27, or 2026-11-27T18:00 on the clock of timezone")
	return time.Time{}
}

func (c *compiler) schedules() {
	p := specPath.key("schedules")
	if len(c.spec.Schedules) > scaling.MaxSchedules {
		c.bad(p, fmt.Sprintf("has %d entries", len(c.spec.Schedules)), fmt.Sprintf("at most %d", scaling.MaxSchedules))
		return
	}
	names := map[string]bool{}
	c.policy.Schedules = make([]scaling.Schedule, 0, len(c.spec.Schedules))
	for i := range c.spec.Schedules {
		s := &c.spec.Schedules[i]
		at := p.at(i)
		if names[s.Name] {
			c.bad(at.key("name"), "another schedule has this name", "a name of its own")
		}
		names[s.Name] = true
		window, ok := c.window(windowText{s.Name, s.Timezone, s.Start, s.End, s.From, s.Until}, at)
		out := scaling.Schedule{Window: window, Min: -1, Max: -1, Lead: time.Duration(s.LeadTime)}
		c.floorAndCeiling(s, at, &out)
		if out.Lead == 0 && out.Min >= 0 {
			out.Lead = c.groupLead()
		}
		if ok {
			c.policy.Schedules = append(c.policy.Schedules, out)
			c.scheduleAt = append(c.scheduleAt, i)
		}
	}
}

// maxLead is the longest that a floor is raised early.
const maxLead = 24 * time.Hour

// groupLead is the time that the capacity group's nodes take from nothing to a ready replica.
func (c *compiler) groupLead() time.Duration {
	g := c.platform.Group(c.spec.CapacityGroup)
	if g == nil {
		return 0
	}
	return min(time.Duration(g.LeadTime), maxLead)
}

// floorAndCeiling checks a schedule's own numbers against each other and against the policy's.
func (c *compiler) floorAndCeiling(s *ScheduleSpec, p *yamlPath, out *scaling.Schedule) {
	if s.MinReplicas == nil && s.MaxReplicas == nil {
		c.bad(p, "neither minReplicas nor maxReplicas: the window does nothing", "a floor, a ceiling or both")
	}
	if s.MinReplicas != nil {
		out.Min = *s.MinReplicas
		if out.Min > c.high {
			c.bad(p.key("minReplicas"), fmt.Sprintf("the floor is above the policy's maxReplicas of %d", c.high), "at most maxReplicas")
		}
	}
	if s.MaxReplicas != nil {
		out.Max = *s.MaxReplicas
		if out.Max < c.low {
			c.bad(p.key("maxReplicas"), fmt.Sprintf("the ceiling is under the policy's minReplicas of %d, which always counts", c.low), "at least minReplicas")
		}
	}
	if out.Min >= 0 && out.Max >= 0 && out.Min > out.Max {
		c.bad(p.key("maxReplicas"), "the ceiling is under the floor of the same schedule", "at least its minReplicas")
	}
	if s.LeadTime > 0 && s.MinReplicas == nil {
		c.bad(p.key("leadTime"), "there is no floor to raise early", "leadTime beside minReplicas")
	}
	if s.LeadTime > Duration(maxLead) {
		c.bad(p.key("leadTime"), "is too long", "at most 24h")
	}
}

// overlaps refuses a ceiling under another schedule's floor where both windows are open at once: one of the two would be broken
// each time, and nobody could say which was meant.
func (c *compiler) overlaps() {
	type pair struct{ floor, ceiling int }
	var pairs []pair
	for i, a := range c.policy.Schedules {
		for j, b := range c.policy.Schedules {
			if i != j && a.Min >= 0 && b.Max >= 0 && a.Min > b.Max {
				pairs = append(pairs, pair{i, j})
			}
		}
	}
	for _, pair := range pairs {
		a, b := &c.policy.Schedules[pair.floor], &c.policy.Schedules[pair.ceiling]
		at, ok := c.seen.overlap(&a.Window, &b.Window, mostSteps/len(pairs))
		if !ok {
			continue
		}
		p := specPath.key("schedules").at(c.scheduleAt[pair.ceiling]).key("maxReplicas")
		c.bad(p, fmt.Sprintf("the ceiling is under the floor of %d of schedule %s, and both are open at %s", a.Min, a.Window.Name, at.Format("Mon 2006-01-02 15:04 MST")),
			fmt.Sprintf("at least %d, or windows that do not overlap", a.Min))
	}
}

// The years that overlaps are looked for in. They are fixed, and not counted from today: a policy that was accepted yesterday must
// not be refused after a restart. Four years hold every weekday of every date but a few, a leap day and eight clock changes.
var (
	overlapFrom = time.Date(2027, 12, 30, 0, 0, 0, 0, time.UTC)
	overlapTo   = time.Date(2032, 1, 3, 0, 0, 0, 0, time.UTC)
)

// mostSteps bounds the search of one policy, so that nobody's calendar can stall the others. Two windows of every day take 6,000
// steps through the four years; a pair that opens and closes every other minute is followed for weeks, and its weeks are alike.
const mostSteps = 40_000

// firstOverlap returns the first instant at which both windows are open. Two windows overlap where one opens while the other is
// open, so only the instants at which one of them changes are looked at, most of them at most.
func firstOverlap(a, b *calendar.Window, most int) (time.Time, bool) {
	from, to := overlapFrom, overlapTo
	for _, w := range []*calendar.Window{a, b} {
		// A window that happens once, or in a season, sets the time to look at.
		if !w.From.IsZero() && (w.From.After(from) || from.Equal(overlapFrom)) {
			from = w.From
			to = from.AddDate(4, 0, 0)
		}
	}
	for _, w := range []*calendar.Window{a, b} {
		if !w.To.IsZero() && w.To.Before(to) {
			to = w.To
			if w.From.IsZero() && !from.Before(to) {
				from = to.AddDate(-1, 0, 0)
			}
		}
	}
	for steps := 0; from.Before(to) && steps < most; steps++ {
		openA, untilA := a.At(from)
		openB, untilB := b.At(from)
		if openA && openB {
			return from, true
		}
		// Neither answer changes before the earlier of the two.
		next := earlier(untilA, untilB)
		if next.IsZero() {
			return time.Time{}, false
		}
		from = next
	}
	return time.Time{}, false
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
