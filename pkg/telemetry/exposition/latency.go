package exposition

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Counters gathers the counters of one latency of one pod within one scrape: a classic histogram, or a Quotient's two counters.
// Copies of a series (see Profile.Parts) are added up: both sides of every division grow alike.
type Counters struct {
	spelling  int
	histogram Histogram
	seen      bool
	at        time.Time
}

// Add takes in a series that the metric names; others are ignored.
func (c *Counters) Add(m *Metric, s *Sample) {
	for i := range m.From {
		if c.seen && i > c.spelling {
			return
		}
		put := m.From[i].target(m.Shape, s)
		if put == nil {
			continue
		}
		if !c.seen || i < c.spelling {
			*c = Counters{spelling: i, seen: true, at: s.At}
		}
		if s.At.Before(c.at) {
			c.at = s.At
		}
		put(&c.histogram, s.Value)
		return
	}
}

// target tells where a sample belongs, nil for nowhere.
func (f *Series) target(shape Shape, s *Sample) func(h *Histogram, v float64) {
	sum := func(h *Histogram, v float64) { h.Sum += v }
	count := func(h *Histogram, v float64) { h.Count += v }
	if shape == Quotient {
		switch s.Name {
		case f.Name:
			return sum
		case f.Per:
			return count
		}
		return nil
	}
	suffix, ok := strings.CutPrefix(s.Name, f.Name)
	if !ok {
		return nil
	}
	switch suffix {
	case "_sum":
		return sum
	case "_count":
		return count
	case "_bucket":
		upper, err := strconv.ParseFloat(s.Labels.Get("le"), 64)
		if err != nil {
			upper = math.NaN() // AddBucket leaves it out
		}
		return func(h *Histogram, v float64) { h.AddBucket(upper, v) }
	}
	return nil
}

// Histogram returns what was gathered; ok is false where the pod served none of it.
func (c *Counters) Histogram() (h Histogram, at time.Time, ok bool) {
	h = c.histogram
	// Some documents leave the +Inf bucket out; the count is the same number.
	if n := len(h.Buckets); n > 0 && !math.IsInf(h.Buckets[n-1].Upper, 1) {
		h.AddBucket(math.Inf(1), h.Count)
	}
	return h, c.at, c.seen
}

// Observed is what one pod gained in a window, ready to be put together with other pods'.
type Observed struct {
	Gain    Histogram
	At      time.Time
	Quality Quality
	Load    float64 // requests that wait or run, by the gauges that Metric.Busy names
	Told    int     // how many of those gauges told
}

// Settle turns an Observed of the metric without observations into what it means. Where requests wait and none finished, the histogram
// is blind exactly when users suffer most: that is Suspected. Where nothing waits, nobody waited; where nothing says whether anything
// waits, nothing is known.
func (o Observed) Settle(m *Metric) Observed {
	switch {
	case o.Quality != Good || o.Gain.Count > 0:
	case o.Load > 0:
		o.Quality = Suspected
	case o.Told < len(m.Busy):
		o.Quality = Missing
	}
	return o
}

// Latency returns the quantile of what was gained, or the mean for quantile 0, in the signal's unit. Without observations it is 0.
func (m *Metric) Latency(gain *Histogram, quantile float64) (v float64, q Quality) {
	if !(gain.Count > 0) {
		return 0, Good
	}
	var ok bool
	if quantile > 0 {
		v, ok = gain.Quantile(quantile)
	} else {
		v, ok = gain.Mean()
	}
	if !ok {
		return 0, Missing
	}
	if v *= m.Scale; Check(v, 0) != Good {
		return 0, Blank
	}
	return v, Good
}
