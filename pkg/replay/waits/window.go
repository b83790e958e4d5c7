package waits

import "time"

// coarse is the resolution of the wait histograms that signals read. Values have an error of at most 1/8, similar to the histograms of
// model servers.
const coarse = 3

// Window contains the waits of the recent past, so that a signal can read the waits in a window of time before a scrape. A round contains
// the waits that ended between two successive scrapes. The rounds are in order of time.
type Window struct {
	Keep time.Duration // how long a round is stored: at least the longest window that Read is called with, plus the lag of scrapes

	rounds []round
	open   round // waits since the last scrape
}

type round struct {
	at    time.Duration // time of the scrape that closed the round
	count int64
	sum   time.Duration
	cells [(64 - coarse) << coarse]uint32
}

// Add counts a wait that has ended.
func (w *Window) Add(d time.Duration) {
	w.open.count++
	w.open.sum += d
	w.open.cells[cellOf(d.Microseconds(), coarse)]++
}

// Scrape ends the current round and deletes the rounds that are older than Keep.
func (w *Window) Scrape(now time.Duration) {
	w.open.at = now
	w.rounds = append(w.rounds, w.open)
	w.open = round{}
	old := 0
	for w.rounds[old].at < now-w.Keep {
		old++
	}
	w.rounds = append(w.rounds[:0], w.rounds[old:]...)
}

// Read returns a quantile, in seconds, of the waits that ended within the given window before the scrape at the given time. The quantile 0
// means the mean. ok is false if no wait ended in the window.
func (w *Window) Read(at, window time.Duration, quantile float64) (seconds float64, ok bool) {
	var total round
	for i := range w.rounds {
		r := &w.rounds[i]
		if r.at > at || r.at <= at-window {
			continue
		}
		total.count += r.count
		total.sum += r.sum
		for c, n := range r.cells {
			total.cells[c] += n
		}
	}
	if total.count == 0 {
		return 0, false
	}
	if quantile == 0 {
		return total.sum.Seconds() / float64(total.count), true
	}
	rank := max(1, min(total.count, int64(float64(float64(total.count)*quantile)+0.999999)))
	var seen int64
	for c, n := range total.cells {
		if seen += int64(n); seen >= rank {
			return (time.Duration(floorOf(c, coarse)) * time.Microsecond).Seconds(), true
		}
	}
	return 0, false
}
