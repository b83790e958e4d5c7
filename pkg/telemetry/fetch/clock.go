package fetch

import (
	"net/http"
	"sync"
	"time"
)

const (
	// skewTolerance is what clocks that NTP keeps may differ by, and what whole seconds and a slow answer blur: less is not corrected.
	skewTolerance = 2 * time.Second
	// A clock that runs behind is believed after so many answers over so long that all say the same. To correct it makes samples
	// younger, and an answer out of a cache looks like a clock that falls back further with each poll.
	agreeAnswers = 3
	agreeFor     = 30 * time.Second
	// skewDrift is how fast two clocks part at the most, one second in so many: far more than quartz does, far less than a frozen Date.
	skewDrift = 1000
	// maxSkew keeps sums of differences inside a Duration.
	maxSkew = 100 * 365 * 24 * time.Hour
)

// Clock follows how far a source's clock stands ahead of ours, by the Date of its answers (RFC 9110, section 6.6.1) against the time
// between which we asked and were answered. A sample's age is a difference of two clocks: one that runs two minutes ahead makes the
// last zero of an exporter that died look young, one that runs behind makes live samples look stale. The zero Clock is ready to use,
// by several goroutines at once.
//
// The Date is that of whoever writes it: a server that exposes its metrics and Prometheus itself write their own, a proxy in between may
// put its own in the place (nginx does). Then the proxy's clock is measured, and where Prometheus' differs from that, its samples' ages
// are off by the difference. Keep both by NTP, or let the proxy pass the Date on (nginx: proxy_pass_header Date).
type Clock struct {
	mu      sync.Mutex
	agreed  span      // what all answers since then allow
	since   time.Time // the first of them
	newest  time.Time
	answers int
	skew    time.Duration
	newly   time.Duration // what Observe returned last
}

// span is a difference of two clocks that lies between two bounds.
type span struct{ low, high time.Duration }

func (s span) middle() time.Duration { return s.low + (s.high-s.low)/2 }

// Skew returns how far the source's clock stands ahead of ours, negative for behind, 0 for less than two seconds; ok is false where no
// answer has told.
func (c *Clock) Skew() (ahead time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew, c.answers > 0
}

// Correction returns what the newest Observe did, for who does not see the answers' headers itself.
func (c *Clock) Correction() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newly
}

// Observe takes in an answer's header and returns what is to be taken off the times of that answer's samples. A clock ahead is
// corrected at once, because that makes samples older; one behind only once it is certain. An answer that does not tell the time, or
// comes out of a cache, is corrected by what is known already where that makes its samples older.
func (c *Clock) Observe(h http.Header, sent, received time.Time) (correction time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newly = c.judge(h, sent, received)
	return c.newly
}

func (c *Clock) judge(h http.Header, sent, received time.Time) time.Duration {
	date, err := http.ParseTime(h.Get("Date"))
	if age := h.Get("Age"); err != nil || age != "" && age != "0" {
		return max(c.skew, 0)
	}
	// Date is cut to whole seconds, and was written at some time between the question and the answer.
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

// take narrows what is known by one more answer, or begins anew where the answer contradicts it: a clock was set, or two servers with
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
