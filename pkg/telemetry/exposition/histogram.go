package exposition

import (
	"math"
	"slices"
	"time"
)

// Bucket is a cumulative bucket of a histogram. Count is the number of observations of at most Upper seconds.
type Bucket struct{ Upper, Count float64 }

// Histogram is a classic histogram, or its increase in a window. The buckets are cumulative and in ascending order. If there are any
// buckets, the last one is +Inf. The counters of a Quotient are stored as a Histogram without buckets.
type Histogram struct {
	Buckets    []Bucket
	Sum, Count float64
}

// AddBucket adds count to the bucket with the given bound, and creates the bucket if it does not exist. It ignores a bound that is NaN.
func (h *Histogram) AddBucket(upper, count float64) {
	if math.IsNaN(upper) {
		return
	}
	i, ok := slices.BinarySearchFunc(h.Buckets, upper, func(b Bucket, u float64) int {
		switch {
		case b.Upper < u:
			return -1
		case b.Upper > u:
			return 1
		}
		return 0
	})
	if ok {
		h.Buckets[i].Count += count
		return
	}
	h.Buckets = slices.Insert(h.Buckets, i, Bucket{upper, count})
}

// Merge adds o to h. If two versions of a server run, the bounds of their buckets may differ. For a bound that one histogram does not
// have, Merge uses the histogram's count at the next lower bound. Observations between the two bounds are then counted in a higher
// bucket, so latencies are overestimated and never underestimated.
func (h *Histogram) Merge(o *Histogram) {
	h.Sum += o.Sum
	h.Count += o.Count
	if len(o.Buckets) == 0 {
		return
	}
	if len(h.Buckets) == 0 {
		h.Buckets = slices.Clone(o.Buckets)
		return
	}
	if sameBounds(h.Buckets, o.Buckets) {
		for i := range h.Buckets {
			h.Buckets[i].Count += o.Buckets[i].Count
		}
		return
	}
	merged := make([]Bucket, 0, len(h.Buckets)+len(o.Buckets))
	for i, j := 0, 0; i < len(h.Buckets) || j < len(o.Buckets); {
		upper := math.Inf(1)
		if i < len(h.Buckets) {
			upper = h.Buckets[i].Upper
		}
		if j < len(o.Buckets) {
			upper = min(upper, o.Buckets[j].Upper)
		}
		for i < len(h.Buckets) && h.Buckets[i].Upper <= upper {
			i++
		}
		for j < len(o.Buckets) && o.Buckets[j].Upper <= upper {
			j++
		}
		merged = append(merged, Bucket{upper, below(h.Buckets, i) + below(o.Buckets, j)})
	}
	h.Buckets = merged
}

func below(b []Bucket, n int) float64 {
	if n == 0 {
		return 0
	}
	return b[n-1].Count
}

func sameBounds(a, b []Bucket) bool {
	return slices.EqualFunc(a, b, func(x, y Bucket) bool { return x.Upper == y.Upper })
}

// Mean returns sum / count. ok is false if there are no observations.
func (h *Histogram) Mean() (seconds float64, ok bool) {
	if !(h.Count > 0) {
		return 0, false
	}
	return h.Sum / h.Count, true
}

// Quantile returns a quantile of the observations, computed as in PromQL's histogram_quantile: it interpolates linearly within a bucket,
// and returns at most the highest finite bound. ok is false if there are no observations or if no bucket has a finite bound.
func (h *Histogram) Quantile(q float64) (seconds float64, ok bool) {
	n := len(h.Buckets)
	if n < 2 || !math.IsInf(h.Buckets[n-1].Upper, 1) || !(h.Buckets[n-1].Count > 0) {
		return 0, false
	}
	rank := q * h.Buckets[n-1].Count
	lower, under := 0.0, 0.0
	for i, b := range h.Buckets {
		count := max(b.Count, under) // if buckets were read at different times, their counts are possibly not ascending
		if count < rank {
			lower, under = b.Upper, count
			continue
		}
		if i == n-1 {
			return h.Buckets[n-2].Upper, true
		}
		if count <= under {
			return b.Upper, true
		}
		return lower + (b.Upper-lower)*(rank-under)/(count-under), true
	}
	return h.Buckets[n-2].Upper, true
}

// Since returns the increase of the counters from prev to h. If a counter has decreased or the buckets differ, the process was restarted.
// In this case Since returns the values of h, because all counters of a new process begin at 0.
func (h *Histogram) Since(prev *Histogram) Histogram {
	if h.Count < prev.Count || h.Sum < prev.Sum || !sameBounds(h.Buckets, prev.Buckets) {
		return h.clone()
	}
	out := Histogram{Sum: h.Sum - prev.Sum, Count: h.Count - prev.Count, Buckets: make([]Bucket, len(h.Buckets))}
	for i, b := range h.Buckets {
		if b.Count < prev.Buckets[i].Count {
			return h.clone()
		}
		out.Buckets[i] = Bucket{b.Upper, b.Count - prev.Buckets[i].Count}
	}
	return out
}

func (h *Histogram) clone() Histogram {
	return Histogram{Sum: h.Sum, Count: h.Count, Buckets: slices.Clone(h.Buckets)}
}

// finite reports whether every number is finite and not negative.
func (h *Histogram) finite() bool {
	good := func(v float64) bool { return v >= 0 && v < math.MaxFloat64 }
	if !good(h.Sum) || !good(h.Count) {
		return false
	}
	for _, b := range h.Buckets {
		if !good(b.Count) {
			return false
		}
	}
	return true
}

// maxSteps is the maximum number of increases that a Window keeps. With a poll every 15 s, they cover an hour.
const maxSteps = 240

// Window keeps the increases of the counters of a pod between polls, and returns their sum over a time range. The zero Window is ready to
// use.
type Window struct {
	last   Histogram
	lastAt time.Time // time of the last observation; zero: there is none yet
	steps  []step
}

type step struct {
	from, to time.Time
	gain     Histogram
}

// Observe adds the counters that were read at the time at. If a value is not valid for a counter (negative, NaN or infinite), Observe
// clears the window, because the increase from such a value to the next value would be wrong.
func (w *Window) Observe(h Histogram, at time.Time) {
	if !h.finite() {
		*w = Window{}
		return
	}
	if !w.lastAt.IsZero() {
		if !at.After(w.lastAt) {
			return // not newer than the last observation, so it is from the same scrape
		}
		if len(w.steps) == maxSteps {
			w.steps = slices.Delete(w.steps, 0, 1)
		}
		w.steps = append(w.steps, step{from: w.lastAt, to: at, gain: h.Since(&w.last)})
	}
	w.last, w.lastAt = h, at
}

// Gain returns the increase of the counters within span before the newest observation, and the time of that observation. ok is false
// before the second observation. An increase between two observations is included completely or not at all. It is not included if the
// first of the two observations is before the span, except if it is the only increase in the window.
func (w *Window) Gain(span time.Duration) (gain Histogram, at time.Time, ok bool) {
	if len(w.steps) == 0 {
		return Histogram{}, w.lastAt, false
	}
	start := w.lastAt.Add(-span)
	old := 0
	for old < len(w.steps)-1 && w.steps[old].from.Before(start) {
		old++
	}
	w.steps = slices.Delete(w.steps, 0, old)
	for i := range w.steps {
		gain.Merge(&w.steps[i].gain)
	}
	return gain, w.lastAt, true
}
