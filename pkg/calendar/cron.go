package calendar

import (
	"math/bits"
	"time"
)

// Cron is a five-field cron expression as bit sets: bit n of a field is set if the value n matches. The fields have the values of
// robfig/cron's SpecSchedule, including its star bit, so a parser's result can be copied field by field.
//
//	Minute 0-59   Hour 0-23   DayOfMonth 1-31   Month 1-12   DayOfWeek 0-6, Sunday is 0
//
// Days follow the rule of cron: if DayOfMonth and DayOfWeek are both restricted, a day matches if one of the fields matches. If one of them
// has the star bit (bit 63), both must match. Bits outside the range of a field have no effect.
type Cron struct {
	Minute, Hour, DayOfMonth, Month, DayOfWeek uint64
}

const (
	star       = 1 << 63
	allMinutes = 1<<60 - 1
	allHours   = 1<<24 - 1
	allDays    = 1<<7 - 1

	minute = 60
	day    = 24 * 60 * minute

	// searchMonths is 41 years. A search of 8 years would miss a window on 29 February around the year 2100, which is not a leap year. A
	// search of 28 years would miss a window on a 29 February that is a Sunday.
	searchMonths = 41 * 12
)

// wall is the time that the clock of a zone shows, in seconds since 1970-01-01 00:00 on that clock.
type wall int64

func (w wall) civil() time.Time { return time.Unix(int64(w), 0).UTC() }

// month is a calendar month with the values that are needed to compute the set of its matching days. In this set, bit n is day n of the
// month.
type month struct {
	year    int
	number  time.Month
	first   wall // midnight of day 1
	weekday int  // weekday of day 1, Sunday is 0
}

// monthOf returns the month in which a wall-clock time is.
func monthOf(t time.Time) month {
	midnight := wall(t.Unix()) - wall(t.Hour()*60+t.Minute())*minute - wall(t.Second())
	back := t.Day() - 1
	return month{
		year: t.Year(), number: t.Month(),
		first: midnight - wall(back)*day, weekday: (int(t.Weekday()) + 35 - back) % 7,
	}
}

func (m month) length() int {
	switch m.number {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if m.year%4 == 0 && (m.year%100 != 0 || m.year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func (m month) days() uint64 { return (1<<m.length() - 1) << 1 }

func (m month) next() month {
	length := m.length()
	m.first, m.weekday, m.number = m.first+wall(length)*day, (m.weekday+length)%7, m.number+1
	if m.number > time.December {
		m.year, m.number = m.year+1, time.January
	}
	return m
}

func (m month) previous() month {
	if m.number--; m.number < time.January {
		m.year, m.number = m.year-1, time.December
	}
	length := m.length()
	m.first, m.weekday = m.first-wall(length)*day, (m.weekday+35-length)%7
	return m
}

func (m month) at(date, minuteOfDay int) wall {
	return m.first + wall(date-1)*day + wall(minuteOfDay)*minute
}

// daysIn returns the days of the month on which the expression matches.
func (c *Cron) daysIn(m month) uint64 {
	if c.Month>>m.number&1 == 0 {
		return 0
	}
	week := c.DayOfWeek & allDays
	week = (week>>m.weekday | week<<(7-m.weekday)) & allDays // after the rotation, bit 0 is the weekday of the month's first day
	byWeekday := week * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1
	if (c.DayOfMonth|c.DayOfWeek)&star != 0 {
		return c.DayOfMonth & byWeekday & m.days()
	}
	return (c.DayOfMonth | byWeekday) & m.days()
}

// AtOrBefore returns the last match that is not later than the instant t, or false if there is none within 41 years before t. The fields
// of the expression are times in UTC.
func (c Cron) AtOrBefore(t time.Time) (time.Time, bool) {
	m := moments{on: c}
	w, ok := m.atOrBefore(wall(t.Unix()))
	return w.civil(), ok
}

// moments is the set of wall-clock minutes that match the cron expression in the field on, and do not match the cron expression in the
// field unless.
type moments struct{ on, unless Cron }

// daysIn returns the days of the month that have at least one moment. A search skips all other days.
func (m *moments) daysIn(mo month) uint64 {
	hours, minutes := m.on.Hour&allHours, m.on.Minute&allMinutes
	if hours == 0 || minutes == 0 {
		return 0
	}
	days := m.on.daysIn(mo)
	if hours&^m.unless.Hour == 0 && minutes&^m.unless.Minute == 0 {
		days &^= m.unless.daysIn(mo)
	}
	return days
}

// minutesIn returns the moments of an hour as a bit set of minutes. The parameter excepted is true if m.unless matches on this day.
// minutesIn then removes the minutes that m.unless matches.
func (m *moments) minutesIn(hour int, excepted bool) uint64 {
	if m.on.Hour>>hour&1 == 0 {
		return 0
	}
	minutes := m.on.Minute & allMinutes
	if excepted && m.unless.Hour>>hour&1 == 1 {
		minutes &^= m.unless.Minute
	}
	return minutes
}

// firstOn returns the first moment on a day of the month at or after the parameter from, which is in minutes since midnight. It returns
// false if there is none.
func (m *moments) firstOn(mo month, date, from int) (wall, bool) {
	excepted := m.unless.daysIn(mo)>>date&1 == 1
	reach := ^uint64(0) << (from % 60)
	for hour := from / 60; hour < 24; hour++ {
		if set := m.minutesIn(hour, excepted) & reach; set != 0 {
			return mo.at(date, hour*60+bits.TrailingZeros64(set)), true
		}
		reach = ^uint64(0)
	}
	return 0, false
}

// lastOn returns the last moment on a day of the month at or before the parameter upTo, which is in minutes since midnight. It returns
// false if there is none.
func (m *moments) lastOn(mo month, date, upTo int) (wall, bool) {
	excepted := m.unless.daysIn(mo)>>date&1 == 1
	reach := uint64(1)<<(upTo%60+1) - 1
	for hour := upTo / 60; hour >= 0; hour-- {
		if set := m.minutesIn(hour, excepted) & reach; set != 0 {
			return mo.at(date, hour*60+bits.Len64(set)-1), true
		}
		reach = ^uint64(0)
	}
	return 0, false
}

// after returns the first moment later than w, or false if there is none within 41 years. It searches the rest of the day, then the rest of
// the month, and then the following months.
func (m *moments) after(w wall) (wall, bool) {
	t := (w - wall(w.civil().Second()) + minute).civil()
	mo, date := monthOf(t), t.Day()
	days := m.daysIn(mo)
	if days>>date&1 == 1 {
		if found, ok := m.firstOn(mo, date, t.Hour()*60+t.Minute()); ok {
			return found, true
		}
	}
	days &= ^uint64(0) << (date + 1)
	for range searchMonths {
		if days != 0 {
			return m.firstOn(mo, bits.TrailingZeros64(days), 0)
		}
		mo = mo.next()
		days = m.daysIn(mo)
	}
	return 0, false
}

// atOrBefore returns the last moment that is not later than w, or false if there is none within 41 years.
func (m *moments) atOrBefore(w wall) (wall, bool) {
	t := w.civil()
	mo, date := monthOf(t), t.Day()
	days := m.daysIn(mo)
	if days>>date&1 == 1 {
		if found, ok := m.lastOn(mo, date, t.Hour()*60+t.Minute()); ok {
			return found, true
		}
	}
	days &= 1<<date - 1
	for range searchMonths {
		if days != 0 {
			return m.lastOn(mo, bits.Len64(days)-1, 24*60-1)
		}
		mo = mo.previous()
		days = m.daysIn(mo)
	}
	return 0, false
}
