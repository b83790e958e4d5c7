package calendar

import "time"

// StartsAt returns the first instant at which the clock of the zone shows the date and the time of day of reading. If the clock skips them
// in a gap, it returns the first instant after the gap. It ignores the zone of reading.
func StartsAt(zone *time.Location, reading time.Time) time.Time {
	first, _ := clock{zone}.shows(wallOf(reading))
	return time.Unix(first, 0).In(zone)
}

// EndsAt is like StartsAt, but for the end of a window. If the clock shows the reading twice, it returns the second of these instants. An
// end is exclusive: a window for all of 24 December ends at 25 December 00:00.
func EndsAt(zone *time.Location, reading time.Time) time.Time {
	_, last := clock{zone}.shows(wallOf(reading))
	return time.Unix(last, 0).In(zone)
}

func wallOf(reading time.Time) wall {
	_, offset := reading.Zone()
	return wall(reading.Unix() + int64(offset))
}

// clock is the wall clock of a zone. It skips a time in a gap, and is set back in a fold.
type clock struct{ zone *time.Location }

// reach is the distance in seconds from an instant within which clock changes are searched. No zone has changed its clock by more than one
// day, at the date line. Two days are therefore sufficient, even if a zone did this twice.
const reach = 2 * day

// offset returns the number of seconds by which the clock is ahead of UTC at an instant, and a later instant until which this number is
// valid.
func (c clock) offset(at int64) (ahead, until int64) {
	t := time.Unix(at, 0).In(c.zone)
	_, seconds := t.Zone()
	_, end := t.ZoneBounds()
	if end.IsZero() {
		return int64(seconds), never
	}
	until = end.Unix()
	if until <= at {
		// For years after the last change in a zone's table, ZoneBounds assumes 365 days a year. On 31 December of a leap year, the end that it
		// returns is therefore in the past. The offset is correct on that day and does not change before the next year.
		until = at - at%day + day
	}
	return int64(seconds), until
}

// lowestFrom returns the lowest reading that the clock shows at the instant or later. This is the reading at the instant itself, except if
// a later fold sets the clock back to a lower reading.
func (c clock) lowestFrom(at int64) wall {
	ahead, until := c.offset(at)
	low := at + ahead
	for limit := at + reach; until < limit; {
		at = until
		ahead, until = c.offset(at)
		low = min(low, at+ahead)
	}
	return wall(low)
}

// shows returns the first and the last instant at which the clock reaches the reading w. If a gap skips w, both are the instant after the
// gap. They differ only if w is in a fold, because the clock then shows w twice.
func (c clock) shows(w wall) (first, last int64) {
	ahead, _ := c.offset(int64(w))
	first, last = never, int64(w)-ahead
	below, limit := false, last+reach
	for at := last - reach; at < limit; {
		ahead, until := c.offset(at)
		reached := at
		if at+ahead < int64(w) {
			below, reached = true, int64(w)-ahead
		}
		if below && reached < until {
			first, last = min(first, reached), reached
			below = false
		}
		at = until
	}
	return min(first, last), last
}
