package calendar

import "time"

// StartsAt returns the first instant at which the clock of the zone shows the date and the time of day of the parameter reading. If the
// clock skips this time (a gap), StartsAt returns the first instant after the gap. It ignores the time zone of reading.
func StartsAt(zone *time.Location, reading time.Time) time.Time {
	first, _ := clock{zone}.shows(wallOf(reading))
	return time.Unix(first, 0).In(zone)
}

// EndsAt is like StartsAt, but for the end of a window. If the clock shows this time twice (a fold), EndsAt returns the second of the two
// instants. The window is closed at its end: a window for all of 24 December ends on 25 December at 00:00.
func EndsAt(zone *time.Location, reading time.Time) time.Time {
	_, last := clock{zone}.shows(wallOf(reading))
	return time.Unix(last, 0).In(zone)
}

func wallOf(reading time.Time) wall {
	_, offset := reading.Zone()
	return wall(reading.Unix() + int64(offset))
}

// clock is the wall clock of a zone. If the clock is set forward, usually in spring, it skips a time. This time is a gap. If the clock is
// set back, usually in autumn, it shows a time twice. This time is a fold.
type clock struct{ zone *time.Location }

// reach is how far before and after an instant clock changes are searched, in seconds. The greatest clock change of any zone is one day: a
// zone that moved to the other side of the date line. Two days are sufficient even for two such changes in a row.
const reach = 2 * day

// offset returns the number of seconds by which the clock is ahead of UTC at an instant. It also returns a later instant, until, before
// which this number does not change. Instants are in Unix seconds.
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

// lowestFrom returns the earliest wall-clock time that the clock shows at the instant at or within two days after it. This is the
// wall-clock time at the instant at, unless a fold soon sets the clock back to an earlier time. For example, if the clock is set back from
// 03:00 to 02:00, the result at the first 02:50 is 02:00.
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

// shows returns the first and the last instant at which the clock shows the wall-clock time w. If a gap skips w, both results are the
// instant at which the gap ends. The results differ only if w is in a fold, because the clock then shows w twice.
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
