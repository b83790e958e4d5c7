// Package calendar answers one question: is this window in time open, and when does that change?
// Replica floors and ceilings and NodePool schedules share it, so that pods and nodes move together.
//
// It is a pure function of a Window and an instant: no clock, no I/O, no cron parser, nothing of ours.
//
// # The law
//
// A window is a set of spans on the wall clock of its zone. Each span runs from a start to the next end after it, and
// lasts from the first instant at which the clock has come to the start until the last instant at which it comes to
// the end. Spans that touch or overlap are one. Everything about daylight saving follows:
//
//	                          start 02:30                          end 02:30
//	ordinary day              at 02:30                             at 02:30
//	gap, 02:00 -> 03:00       at 03:00, the first instant after    at 03:00
//	fold, 03:00 -> 02:00      at the first 02:30                   at the second 02:30
//
// So a change of the clock never makes a window open later or close earlier than written, and never loses one: where
// 02:50 starts a window that ends at 02:10 on the next day, a rule "the latest of all starts and ends wins" would
// close it for 24 hours at the second 02:10. Windows that recur within the repeated hour (start "*/10", end "5/10") merge
// into one that is open for the whole of it. A window that lies entirely in a gap does not happen.
//
// A span is closed by the first end after its start, also when that end lies days ahead. Where a start and an end
// fall on the same minute of the wall clock the end wins and nothing opens.
//
// # Bounds
//
// Searches go by month through bit sets, and look 41 years ahead and back: the longest that the Gregorian calendar
// makes anybody wait is 40 years, for a 29 February on a given weekday across a century that is no leap year. The
// zone's clock changes are looked up only within two days of an event.
package calendar

import (
	"math"
	"time"
)

// Window is a named stretch of time that recurs, happens once, or recurs within a season.
//
//   - Recurring: Start and End. Across midnight and across days needs nothing special: Friday 20:00 to Monday 08:00 is
//     a Start that matches on Fridays and an End that matches on Mondays.
//   - Once: From and To, with Start and End left zero. StartsAt and EndsAt make them from a date in the zone.
//   - Season: all of them. The recurring window counts only within [From, To), and is cut at both.
//
// A zero From is "since ever", a zero To "for ever". A Window with neither crons nor dates never opens.
// A Window is read-only after it was built; all methods are safe for concurrent use.
type Window struct {
	Name     string
	Location *time.Location // the zone whose wall clock Start and End are read on; nil is UTC
	Start    Cron
	End      Cron
	From, To time.Time
}

// At tells whether the window is open at now, and the next instant at which that answer changes; the zero time is
// "never". Half-open: at the start instant it is open, at the end instant it is not. The answer holds for every
// instant in [now, until), so callers may keep it until then. until is in the window's zone. At does not allocate.
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

// NextStart returns the first instant strictly after now at which the window opens, and false where it never opens
// again. Within a window it is the start of the next one, so a lead time t asks NextStart(now) - t <= now.
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

// NeverFires tells that there is no instant at all, past or future, at which the window is open: a Start on
// 30 February, an End that falls on every Start, dates in the wrong order, a season that meets none of its days.
// A window that is merely over says so by At: not active, until never.
func (w *Window) NeverFires() bool {
	if !w.recurs() || !w.From.IsZero() {
		_, ok := w.spanAfter(w.From)
		return !ok
	}
	opens := w.opens()
	_, ok := opens.after(0)
	return !ok
}

// NeverEnds tells that the window, once open, stays open for good: an End on 30 February and no To.
func (w *Window) NeverEnds() bool {
	if !w.To.IsZero() || w.NeverFires() {
		return false
	}
	ends := moments{on: w.End}
	_, ok := ends.after(0)
	return !ok
}

func (w *Window) recurs() bool { return w.Start != Cron{} || w.End != Cron{} }

// opens are the minutes at which a span starts. A start that is an end as well is none: "0 8 * * *" to "0 8 * * 1-5"
// opens at weekends only.
func (w *Window) opens() moments { return moments{on: w.Start, unless: w.End} }

func (w *Window) clock() clock {
	if w.Location == nil {
		return clock{time.UTC}
	}
	return clock{w.Location}
}

// span is [from, to); a zero from is "since ever", a zero to is "for ever".
type span struct{ from, to time.Time }

// spanAfter returns the first span of the window that ends after at, cut to the window's dates.
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

// never is later than every instant, in seconds since 1970.
const never = math.MaxInt64

// recurrenceAfter returns the first span [from, to) of the crons that ends after the instant at, merged with those
// that touch it. All are seconds since 1970.
//
// Every wall-clock end up to the lowest reading that is still to come is over; the next start after the latest of
// them begins the first span that is not. Spans touch only inside one gap or fold, so the loop is bounded by the
// minutes in it (a day, at the date line).
func (w *Window) recurrenceAfter(at int64) (from, to int64, ok bool) {
	clock, opens, ends := w.clock(), w.opens(), moments{on: w.End}
	low := clock.lowestFrom(at)
	over, ok := ends.atOrBefore(low)
	if !ok {
		over = low - searchMonths*31*day // the end never fires: any start that ever was, holds
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
		if from == to { // the first span, or the one before lay in a gap and lasted no time
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
