package fetch

import (
	"net/http"
	"sync"
	"time"
)

const (
	// skewTolerance is the greatest clock difference that is not corrected. Even clocks that are synchronized by NTP can appear to differ
	// by up to 2 s, because the Date header has whole seconds and responses take time.
	skewTolerance = 2 * time.Second
	// agreementAnswers and agreementPeriod define when a clock that is behind gpuscaler's clock is corrected: at least this number of
	// responses must agree, and at least this time must pass between the first and the last of them. This correction makes samples look newer,
	// so it needs more evidence than the correction of a clock that is ahead. A cached response has an old Date header, which looks like a
	// clock that falls behind further with each poll.
	agreementAnswers = 3
	agreementPeriod  = 30 * time.Second
	// skewDrift is the number of seconds in which the difference between two clocks may change by one second. Quartz clocks drift much less. A
	// Date header that never changes drifts much more.
	skewDrift = 1000
	// maxSkew is the greatest clock difference that is recorded, because sums of greater differences could overflow a time.Duration.
	maxSkew = 100 * 365 * 24 * time.Hour
)

// Clock measures how far the clock of a source is ahead of gpuscaler's clock. It uses the Date header of each response (RFC 9110, section
// 6.6.1), the time at which the request was sent and the time at which the response was received. The zero Clock is ready to use and is
// safe for concurrent use.
//
// The measurement is needed because the age of a sample is the difference of two clocks. If the clock of the source is two minutes ahead,
// the last sample of a stopped exporter, for example 0, looks new. If the clock is behind, new samples look stale.
//
// Pods and Prometheus set the Date header themselves, but a proxy between them and gpuscaler may replace it (nginx does). Clock then
// measures the clock of the proxy. If the clock of Prometheus differs from the clock of the proxy, the ages of samples are wrong by this
// difference. Synchronize both clocks by NTP, or configure the proxy to pass on the header (nginx: proxy_pass_header Date).
type Clock struct {
	mu      sync.Mutex
	agreed  span      // range of the clock differences that agree with all responses since the time in the field since
	since   time.Time // time of the first response that agrees with the range
	newest  time.Time
	answers int
	skew    time.Duration
	latest  time.Duration // the last result of Observe
}

// span is the range of clock differences that are consistent with one or more responses.
type span struct{ low, high time.Duration }

func (s span) middle() time.Duration { return s.low + (s.high-s.low)/2 }

// Skew returns how far the clock of the source is ahead of gpuscaler's clock. It is negative if the clock of the source is behind, and 0 if
// the difference is less than two seconds. ok is false before the first response with a Date header.
func (c *Clock) Skew() (ahead time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.answers > 0
}

// Correction returns the last result of Observe. It is for a caller that does not have the headers of the response.
func (c *Clock) Correction() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// Observe measures the clock from the header of a response. It returns the duration to subtract from the times of the samples in that
// response:
//
//   - A clock that is ahead of gpuscaler's clock is corrected from the first response on. This is safe, because the correction
//     makes samples older.
//   - A clock that is behind is corrected only after several responses agree.
//   - For a response without a Date header or from a cache, Observe returns the last measured difference if the clock was ahead, and
//     else 0.
func (c *Clock) Observe(h http.Header, sent, received time.Time) (correction time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = c.correct(h, sent, received)
	return c.latest
}

func (c *Clock) correct(h http.Header, sent, received time.Time) time.Duration {
	date, err := http.ParseTime(h.Get("Date"))
	if age := h.Get("Age"); err != nil || age != "" && age != "0" {
		return max(c.skew, 0)
	}
	// The Date header has whole seconds, and the server wrote it at some time between the sending of the request and the arrival of the
	// response.
	c.take(span{bounded100y(date.Sub(received)), bounded100y(date.Add(time.Second).Sub(sent))}, received)
	c.skew = 0
	switch middle := c.agreed.middle(); {
	case c.agreed.low > skewTolerance:
		c.skew = middle
	case c.agreed.high < -skewTolerance:
		c.skew = middle
		if c.answers < agreementAnswers || received.Sub(c.since) < agreementPeriod {
			return 0
		}
	}
	return c.skew
}

// take adds one more response: it reduces the agreed range to its intersection with s, the range of that response. If the two ranges do not
// intersect, take starts again with s. This happens if a clock was adjusted, or if two servers with different clocks respond alternately.
func (c *Clock) take(s span, received time.Time) {
	slack := max(received.Sub(c.newest), 0) / skewDrift
	have := span{c.agreed.low - slack, c.agreed.high + slack}
	c.newest = received
	if low, high := max(have.low, s.low), min(have.high, s.high); c.answers > 0 && low <= high {
		c.agreed = span{low, high}
		c.answers++
		return
	}
	c.agreed, c.since, c.answers = s, received, 1
}

func bounded100y(d time.Duration) time.Duration { return max(-maxSkew, min(d, maxSkew)) }
