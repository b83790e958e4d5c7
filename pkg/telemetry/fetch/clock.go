package fetch

import (
	"net/http"
	"sync"
	"time"
)

const (
	// skewTolerance is the greatest difference that is not corrected: clocks with NTP, the whole seconds of the Date header and slow
	// answers cause up to 2 s.
	skewTolerance = 2 * time.Second
	// A clock that is behind is corrected after this many answers over this time agree. The correction makes samples younger, and an
	// answer from a cache looks like a clock that is further behind at each poll.
	agreeAnswers = 3
	agreeFor     = 30 * time.Second
	// skewDrift is the fastest drift of two clocks, one second in this many seconds: much faster than quartz clocks drift, much slower
	// than a Date header that never changes.
	skewDrift = 1000
	// maxSkew keeps sums of differences within a Duration.
	maxSkew = 100 * 365 * 24 * time.Hour
)

// Clock measures how far a source's clock is ahead of ours, by the Date header of its answers (RFC 9110, section 6.6.1) and the times at
// which the request was sent and the answer received. The age of a sample is the difference of two clocks: with a clock that is two
// minutes ahead, the last 0 of an exporter that has stopped looks new; with one that is behind, new samples look stale. The zero Clock is
// ready to use, by several goroutines.
//
// The Date header is that of the server that sets it. A pod and Prometheus set their own; a proxy in between may replace it (nginx does).
// Then the clock of the proxy is measured, and where the clock of Prometheus differs from it, the ages of samples are wrong by the
// difference. Set both clocks by NTP, or let the proxy keep the header (nginx: proxy_pass_header Date).
type Clock struct {
	mu      sync.Mutex
	agreed  span      // the differences that all answers since then allow
	since   time.Time // the first of them
	newest  time.Time
	answers int
	skew    time.Duration
	latest  time.Duration // the last result of Observe
}

// span is a range of differences between two clocks.
type span struct{ low, high time.Duration }

func (s span) middle() time.Duration { return s.low + (s.high-s.low)/2 }

// Skew returns how far the source's clock is ahead of ours: negative where it is behind, 0 for less than two seconds. ok is false before
// the first answer with a Date header.
func (c *Clock) Skew() (ahead time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.answers > 0
}

// Correction returns the last result of Observe, for a caller that does not have the headers of the answer.
func (c *Clock) Correction() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// Observe measures the clock by the header of an answer, and returns what is to be subtracted from the times of that answer's samples. A
// clock that is ahead is corrected at once, because that makes samples older; a clock that is behind is corrected only after several
// answers agree. An answer without a Date header, or from a cache, is corrected by an earlier measurement where that makes its samples
// older.
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
	// Date has whole seconds, and was written at some time between the request and the answer.
	c.take(span{bounded100y(date.Sub(received)), bounded100y(date.Add(time.Second).Sub(sent))}, received)
	c.skew = 0
	switch middle := c.agreed.middle(); {
	case c.agreed.low > skewTolerance:
		c.skew = middle
	case c.agreed.high < -skewTolerance:
		c.skew = middle
		if c.answers < agreeAnswers || received.Sub(c.since) < agreeFor {
			return 0
		}
	}
	return c.skew
}

// take narrows the range by one more answer. It starts a new range where the answer contradicts it: a clock was set, or two servers with
// different clocks answer in turn.
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
