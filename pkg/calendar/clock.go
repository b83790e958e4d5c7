package calendar

import "time"

// StartsAt returns the first instant at which the zone's clock shows the date and the time of day of reading. If the clock skips them in a
// gap, it returns the first instant after the gap. The zone of reading is ignored.
func StartsAt(zone *time.Location, reading time.Time) time.Time {
	first, _ := clock{zone}.shows(wallOf(reading))
	return time.Unix(first, 0).In(zone)
}

// EndsAt returns the same as StartsAt, for the end of a window. If the clock shows the reading twice, it returns the last such instant. An
// end is exclusive, so a window for all of 24 December ends at 25 December 00:00.
func EndsAt(zone *time.Location, reading time.Time) time.Time {
	_, last := clock{zone}.shows(wallOf(reading))
	return time.Unix(last, 0).In(zone)
}

func wallOf(reading time.Time) wall {
	_, offset := reading.Zone()
	return wall(reading.Unix() + int64(offset))
}

// clock is the wall clock of a zone: it skips forward over gaps and back at folds.
type clock struct{ zone *time.Location }

// reach is the distance in seconds from an instant within which clock changes are searched. No zone has changed its clock by more than a
// day (at the date line). Two days are sufficient even for a zone that does so twice.
const reach = 2 * day

// offset returns by how many seconds the clock is ahead of UTC at an instant, and a later instant until which this value is valid.
func (c clock) offset(at int64) (ahead, until int64) {
	t := time.Unix(at, 0).In(c.zone)
	_, seconds := t.Zone()
	_, end := t.ZoneBounds()
	if end.IsZero() {
		return int64(seconds), never
	}
	until = end.Unix()
	if until <= at {
		// For years after the last change in a zone's table, ZoneBounds computes with 365 days a year. On 31 December of a leap year, the
		// end that it returns is therefore in the past. The offset is correct on that day and does not change before the next year.
		until = at - at%day + day
	}
	return int64(seconds), until
}

// lowestFrom returns the lowest reading that the clock shows at or after an instant. This is the reading at the instant itself, unless a
// later fold sets the clock back to a lower reading.
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
// gap. They differ only in a fold, which shows w twice.
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
