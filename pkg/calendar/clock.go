package calendar

import "time"

// StartsAt returns the first instant at which the clock of the zone shows the date and time of day of reading, or the first
// instant after the gap that skips them. The zone of reading is ignored.
func StartsAt(zone *time.Location, reading time.Time) time.Time {
	first, _ := clock{zone}.shows(wallOf(reading))
	return time.Unix(first, 0).In(zone)
}

// EndsAt is StartsAt for the end of a window: if the clock shows the reading twice, it returns the last such instant. The end
// is exclusive, so a window for all of 24 December ends at 25 December 00:00.
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

// reach is the distance around an instant, in seconds, within which clock changes can affect it. No zone has moved its clock
// by more than a day (the date line); two days cover a zone that does so twice.
const reach = 2 * day

// offset returns how many seconds the clock is ahead of UTC at an instant, and an instant until which that is certain.
func (c clock) offset(at int64) (ahead, until int64) {
	t := time.Unix(at, 0).In(c.zone)
	_, seconds := t.Zone()
	_, end := t.ZoneBounds()
	if end.IsZero() {
		return int64(seconds), never
	}
	until = end.Unix()
	if until <= at {
		// After a zone's last listed change, ZoneBounds counts 365 days a year, so on 31 December of a leap year the returned
		// end is in the past. The offset of that day is correct and holds until the next year.
		until = at - at%day + day
	}
	return int64(seconds), until
}

// lowestFrom returns the lowest reading of the clock at or after an instant: the reading at the instant, unless a later fold
// sets the clock back below it.
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

// shows returns the first and the last instant at which the clock reaches w, running or in a gap. They differ only in folds.
func (c clock) shows(w wall) (first, last int64) {
	ahead, _ := c.offset(int64(w))
	first, last = never, int64(w)-ahead
	below, limit := false, last+reach
	for at := last - reach; at < limit; {
		ahead, until := c.offset(at)
		comes := at
		if at+ahead < int64(w) {
			below, comes = true, int64(w)-ahead
		}
		if below && comes < until {
			first, last = min(first, comes), comes
			below = false
		}
		at = until
	}
	return min(first, last), last
}
