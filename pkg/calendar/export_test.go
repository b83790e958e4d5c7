package calendar

import "time"

// After and AtOrBefore make the search for the next and the previous match available to tests. The wall-clock time at which they begin is t
// in UTC.
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
