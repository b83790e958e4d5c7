package exposition

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Counters collects the counters of one latency of one pod in one scrape: a classic histogram, or the two counters of a Quotient. If a
// series has copies (see Profile.Parts), their values are added up. This does not change the latency: all counters of the latency have the
// same copies, and the mean and the quantiles depend only on the ratios between the counters.
type Counters struct {
	name      int // index in Metric.From of the collected series
	histogram Histogram
	seen      bool
	at        time.Time
}

// Add adds a sample if its series is one of m.From. It ignores other samples. If samples of several names are added, only the samples of
// the newest name are used.
func (c *Counters) Add(m *Metric, s *Sample) {
	for i := range m.From {
		if c.seen && i > c.name {
			return
		}
		put := m.From[i].target(m.Shape, s)
		if put == nil {
			continue
		}
		if !c.seen || i < c.name {
			*c = Counters{name: i, seen: true, at: s.At}
		}
		if s.At.Before(c.at) {
			c.at = s.At
		}
		put(&c.histogram, s.Value)
		return
	}
}

// target returns the function that adds the value of sample s to a histogram. It returns nil if the sample does not belong to this series.
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
			upper = math.NaN() // AddBucket ignores a bound that is NaN
		}
		return func(h *Histogram, v float64) { h.AddBucket(upper, v) }
	}
	return nil
}

// Histogram returns the collected counters and the time of the oldest sample. ok is false if the pod served none of the counters.
func (c *Counters) Histogram() (h Histogram, at time.Time, ok bool) {
	h = c.histogram
	// Some engines do not serve the +Inf bucket. For them, the bucket is added with the count of the histogram, because it contains all
	// observations.
	if n := len(h.Buckets); n > 0 && !math.IsInf(h.Buckets[n-1].Upper, 1) {
		h.AddBucket(math.Inf(1), h.Count)
	}
	return h, c.at, c.seen
}

// Observed contains the increase of the counters of one pod in a window, and the number of requests that wait or run in the pod.
type Observed struct {
	Gain     Histogram
	At       time.Time
	Quality  Quality
	Load     float64 // requests that wait or run: the sum of the gauges that Metric.Busy names
	Reported int     // number of the gauges in Metric.Busy that have a value
}

// WithoutObservations returns a copy of o with the final quality. It changes the quality only if the quality is Good and no latency was
// observed in the window:
//
//   - If requests wait or run, the quality is Suspected, because a latency of 0 would hide a blocked server.
//   - If no request waits or runs, but a gauge of Metric.Busy has no value, the quality is Missing.
//   - Otherwise the quality remains Good, and the latency is 0.
func (o Observed) WithoutObservations(m *Metric) Observed {
	switch {
	case o.Quality != Good || o.Gain.Count > 0:
	case o.Load > 0:
		o.Quality = Suspected
	case o.Reported < len(m.Busy):
		o.Quality = Missing
	}
	return o
}

// Latency returns the latency of the observations in a histogram, in the unit of the signal: the given quantile, or the mean if the
// parameter quantile is 0. It returns 0 if there are no observations.
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
