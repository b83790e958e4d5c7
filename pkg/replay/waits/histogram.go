// Package waits contains histograms of the waits of requests: one for a whole run, and one for a recent window that signals read.
package waits

import (
	"math/bits"
	"time"
)

// grain determines the resolution of waits. Values below 2^grain microseconds are exact; greater values have an error of at most 2^-grain.
const grain = 8

// Histogram is a histogram of waits that uses a fixed amount of memory. Quantiles have an error of at most 0.4%. Count, Late and Max are
// exact.
type Histogram struct {
	Limit time.Duration // the wait in the SLO: a request that waited longer is late
	Count int64
	Late  int64
	Max   time.Duration
	sum   int64 // sum of the waits in microseconds

	cells [(64 - grain) << grain]int64
}

// cellOf returns the index of the cell that counts a wait in microseconds. Each wait below 2^grain has its own cell. A cell for greater
// waits contains waits that differ by at most 2^-grain of their value.
func cellOf(us int64, grain int) int {
	if us < 1<<grain {
		return int(us)
	}
	shift := bits.Len64(uint64(us)) - grain - 1
	return (shift+1)<<grain + int(us>>shift) - 1<<grain
}

// floorOf returns the smallest wait, in microseconds, that the histogram cell with index i counts. It is the inverse of cellOf.
func floorOf(i, grain int) int64 {
	if i < 1<<grain {
		return int64(i)
	}
	shift := i>>grain - 1
	return int64(i&(1<<grain-1)+1<<grain) << shift
}

// Add counts the wait of one request.
func (w *Histogram) Add(wait time.Duration) { w.count(wait, 1) }

// Move replaces the counted wait of a request by a new one, because the request was interrupted and waited again.
func (w *Histogram) Move(from, to time.Duration) {
	w.count(from, -1)
	w.count(to, 1)
}

func (w *Histogram) count(wait time.Duration, n int64) {
	us := wait.Microseconds()
	w.Count += n
	w.sum += n * us
	w.cells[cellOf(us, grain)] += n
	if wait > w.Limit {
		w.Late += n
	}
	w.Max = max(w.Max, wait)
}

// Mean returns the mean wait, or 0 without requests.
func (w *Histogram) Mean() time.Duration {
	if w.Count == 0 {
		return 0
	}
	return time.Duration(w.sum/w.Count) * time.Microsecond
}

// Quantile returns the wait that a share q (0..1) of the requests did not exceed, by nearest rank.
func (w *Histogram) Quantile(q float64) time.Duration {
	if w.Count == 0 {
		return 0
	}
	rank := max(1, min(w.Count, int64(float64(float64(w.Count)*q)+0.999999)))
	var seen int64
	for i, n := range w.cells {
		if seen += n; seen >= rank {
			return min(time.Duration(floorOf(i, grain))*time.Microsecond, w.Max)
		}
	}
	return w.Max
}

// OnTime returns the share of requests that waited at most Limit, or 1 without requests.
func (w *Histogram) OnTime() float64 {
	if w.Count == 0 {
		return 1
	}
	return 1 - float64(w.Late)/float64(w.Count)
}
