package calendar

import "time"

// After makes the search for the next match available to tests. The wall-clock time at which it begins is t in UTC.
func (c Cron) After(t time.Time) (time.Time, bool) {
	m := moments{on: c}
	w, ok := m.after(wall(t.Unix()))
	return w.civil(), ok
}
