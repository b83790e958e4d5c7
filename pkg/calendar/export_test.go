package calendar

import "time"

// After and AtOrBefore export the calendar search to tests, on a clock without a zone.
func (c Cron) After(t time.Time) (time.Time, bool) {
	m := moments{on: c}
	w, ok := m.after(wall(t.Unix()))
	return w.civil(), ok
}

func (c Cron) AtOrBefore(t time.Time) (time.Time, bool) {
	m := moments{on: c}
	w, ok := m.atOrBefore(wall(t.Unix()))
	return w.civil(), ok
}
