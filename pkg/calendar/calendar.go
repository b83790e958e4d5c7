// Package calendar computes whether a time window is open at an instant, and when that changes. Replica floors, replica ceilings and
// NodePool schedules use it, so that pods and nodes follow the same schedule.
//
// Every function depends only on a Window and an instant. The package reads no clock, does no I/O and parses no cron expressions.
//
// # Definition
//
// A window is a set of spans on the wall clock of its zone. Each span extends from a start to the next end after it. The span begins at the
// first instant at which the clock has reached the start, and ends at the last instant at which the clock reaches the end. Spans that touch
// or overlap are merged. This definition determines what happens when daylight saving time begins or ends:
//
//	                          start 02:30                          end 02:30
//	ordinary day              at 02:30                             at 02:30
//	gap, 02:00 -> 03:00       at 03:00, the first instant after    at 03:00
//	fold, 03:00 -> 02:00      at the first 02:30                   at the second 02:30
//
// In the table, a gap is a time that the clock skips, and a fold is a time that the clock shows twice. In a gap, a window opens at the
// first instant at which the clock is at or after the start. In a fold, a window opens as early and closes as late as its start and end
// permit. For example, a window from 02:50 to 02:10 of the next day does not close on the day of the fold: the span of the previous day
// ends at the second 02:10, and the next span has already begun at the first 02:50. Windows that recur within the repeated hour (start
// "*/10", end "5/10") merge into one window that is open for the whole hour. A window that lies entirely in a gap does not open.
//
// The first end after a start closes the span, even if that end is days later. If a start and an end are at the same minute of the wall
// clock, the end takes precedence and the window does not open.
//
// # Bounds
//
// Searches proceed month by month through bit sets, up to 41 years ahead and back. This is sufficient, because the longest time between two
// matches of a cron expression is 40 years: a 29 February on a given weekday, if a century year between the two is not a leap year. Clock
// changes of the zone are looked up only within two days of an event.
package calendar

import (
	"math"
	"time"
)

// Window is a named time window. There are three kinds:
//
//   - Recurring: Start and End are set. Windows can span midnight and several days: for Friday 20:00 to Monday 08:00, Start
//     matches on Fridays and End matches on Mondays.
//   - Once: From and To are set, Start and End are zero. StartsAt and EndsAt compute From and To from a date in the time zone.
//   - Season: all four are set. The recurring window is open only within [From, To). An occurrence that begins before From or
//     ends after To is shortened.
//
// If From is zero, the window has no beginning. If To is zero, it has no end. A Window in which neither cron expressions nor dates are set
// never opens. A Window must not be changed after it is built. All methods are safe for concurrent use.
type Window struct {
	Name     string
	Location *time.Location // time zone of Start and End; nil is UTC
	Start    Cron
	End      Cron
	From, To time.Time
}

// At returns whether the window is open at the instant now. The result until is the next instant at which the window opens or closes, in
// the time zone of the window, or the zero time if this never happens. A window is open at its start instant and closed at its end instant.
// open is valid for every instant in [now, until), so callers may cache it until then. At does not allocate memory.
func (w *Window) At(now time.Time) (open bool, until time.Time) {
	s, ok := w.spanAfter(now)
	if !ok {
		return false, time.Time{}
	}
	if now.Before(s.from) {
		return false, s.from
	}
	return true, s.to
}

// NextStart returns the first instant after the parameter now at which the window opens. It returns false if the window never opens again.
// While the window is open, NextStart returns the next opening after the window has closed. A caller with a lead time t acts as soon as
// NextStart(now) - t <= now.
func (w *Window) NextStart(now time.Time) (time.Time, bool) {
	s, ok := w.spanAfter(now)
	if ok && !s.from.After(now) {
		if s.to.IsZero() {
			return time.Time{}, false
		}
		s, ok = w.spanAfter(s.to)
	}
	return s.from, ok
}

// NeverFires returns whether the window is never open, neither in the past nor in the future. Examples are a Start on 30 February, an End
// that coincides with every Start, a From that is later than To, and a season in which no day matches. NeverFires is false for a window
// that was open in the past and never opens again. For such a window, At returns false and the zero time.
func (w *Window) NeverFires() bool {
	if !w.recurs() || !w.From.IsZero() {
		_, ok := w.spanAfter(w.From)
		return !ok
	}
	opens := w.opens()
	_, ok := opens.after(0)
	return !ok
}

// NeverEnds returns whether the window never closes after it has opened. An example is a window with an End on 30 February and no To.
func (w *Window) NeverEnds() bool {
	if !w.To.IsZero() || w.NeverFires() {
		return false
	}
	ends := moments{on: w.End}
	_, ok := ends.after(0)
	return !ok
}

func (w *Window) recurs() bool { return w.Start != Cron{} || w.End != Cron{} }

// opens returns the minutes at which a span starts. It leaves out a start that is also an end. For example, a window with Start "0 8 * * *"
// and End "0 8 * * 1-5" opens only on weekends.
func (w *Window) opens() moments { return moments{on: w.Start, unless: w.End} }

func (w *Window) clock() clock {
	if w.Location == nil {
		return clock{time.UTC}
	}
	return clock{w.Location}
}

// span is the time [from, to). If from is zero, the span has no beginning. If to is zero, it has no end.
type span struct{ from, to time.Time }

// spanAfter returns the first span of the window that ends after the instant at. A span that begins before From or ends after To of the
// window is shortened. spanAfter returns false if there is no such span.
func (w *Window) spanAfter(at time.Time) (span, bool) {
	if at.Before(w.From) {
		at = w.From
	}
	if !w.To.IsZero() && !at.Before(w.To) {
		return span{}, false
	}
	if !w.recurs() {
		return span{w.From, w.To}, !w.From.IsZero() || !w.To.IsZero()
	}
	from, to, ok := w.recurrenceAfter(at.Unix())
	if !ok {
		return span{}, false
	}
	zone := w.clock().zone
	s := span{from: time.Unix(from, 0).In(zone)}
	if to != never {
		s.to = time.Unix(to, 0).In(zone)
	}
	if s.from.Before(w.From) {
		s.from = w.From
	}
	if !w.To.IsZero() && !s.from.Before(w.To) {
		return span{}, false
	}
	if !w.To.IsZero() && (to == never || s.to.After(w.To)) {
		s.to = w.To
	}
	return s, true
}

// never is a time in seconds since 1970 that is later than every instant. As the end of a span, it means that the span does not end.
const never = math.MaxInt64

// recurrenceAfter returns the first span [from, to) of the cron expressions that ends after the instant at. The result includes the spans
// that touch or overlap this span. All times are in seconds since 1970.
//
// The search begins with the earliest wall-clock time that the clock shows at or after the instant at. Every end up to this wall-clock time
// is in the past. The first span that is not over therefore begins with the first start after the latest of these ends. Two spans touch or
// overlap only if they are in the same gap or fold. The number of iterations is therefore at most the number of minutes in the longest gap
// or fold, which is one day (a zone that moved to the other side of the date line).
func (w *Window) recurrenceAfter(at int64) (from, to int64, ok bool) {
	clock, opens, ends := w.clock(), w.opens(), moments{on: w.End}
	low := clock.lowestFrom(at)
	over, ok := ends.atOrBefore(low)
	if !ok {
		over = low - searchMonths*31*day // End never matches, so a span that began at any past time is open
	}
	for {
		start, ok := opens.after(over)
		if !ok {
			return from, to, from < to
		}
		first, _ := clock.shows(start)
		if from < to && first > to {
			return from, to, true
		}
		if from == to { // begin a new span: there is no previous span, or it is empty because it is in a gap
			from = first
		}
		end, ok := ends.after(start)
		if !ok {
			return from, never, true
		}
		_, to = clock.shows(end)
		over = end
	}
}
