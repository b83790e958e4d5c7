package simulator

import "time"

// counter is the number of requests that had arrived at a scrape.
type counter struct {
	at    time.Duration
	total int64
}

// count stores the counter of arrivals at a scrape, and deletes the scrapes that no query can read after it.
func (m *meter) count(now time.Duration) {
	if m.keepCounter == 0 {
		return
	}
	old := 0
	for old < len(m.counters) && m.counters[old].at <= now-m.keepCounter {
		old++
	}
	m.counters = append(append(m.counters[:0], m.counters[old:]...), counter{now, m.arrived})
}

// rate returns the arrivals per second as rate() in Prometheus computes them: from the oldest scrape in the window to the newest visible
// one. Without two scrapes in the window it is unknown.
func (l *load) rate(newest *scraped, window time.Duration) (float64, bool) {
	counters := l.meter.counters
	for len(counters) > 0 && counters[0].at <= l.w.queue.Now-window {
		counters = counters[1:]
	}
	for len(counters) > 0 && counters[len(counters)-1].at > newest.at {
		counters = counters[:len(counters)-1]
	}
	if len(counters) < 2 {
		return 0, false
	}
	first, last := counters[0], counters[len(counters)-1]
	return float64(last.total-first.total) / (last.at - first.at).Seconds(), true
}
