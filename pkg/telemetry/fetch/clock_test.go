package fetch

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// dateOf returns a header with the Date that a server sends at the time at if its clock is ahead by the given duration.
func dateOf(at time.Time, ahead time.Duration) http.Header {
	return http.Header{"Date": {at.Add(ahead).UTC().Format(http.TimeFormat)}}
}

// polls simulates n requests, 15 s apart, to a server whose clock is ahead by the given duration. Each response takes a random time, which
// is at most the parameter latency. The server writes the Date header at a random moment of this time. polls returns the correction for the
// last response.
func polls(c *Clock, n int, ahead, latency time.Duration) (last time.Duration) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		sent := noon.Add(time.Duration(i)*15*time.Second + time.Duration(r.Int64N(int64(time.Second))))
		took := time.Duration(r.Int64N(int64(latency) + 1))
		written := sent.Add(time.Duration(r.Int64N(int64(took) + 1)))
		last = c.Observe(dateOf(written, ahead), sent, sent.Add(took))
	}
	return last
}

func near(got, want time.Duration) bool { return (got - want).Abs() <= time.Second }

func TestClockIsMeasuredThroughWholeSecondsAndSlowAnswers(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Minute, -40 * time.Second, 5 * time.Second, -5 * time.Second, 48 * time.Hour,
		-400 * 24 * time.Hour} {
		for _, latency := range []time.Duration{5 * time.Millisecond, 800 * time.Millisecond} {
			var c Clock
			correction := polls(&c, 40, ahead, latency)
			skew, ok := c.Skew()
			if !near(correction, ahead) || !near(skew, ahead) || !ok {
				t.Errorf("clock %v ahead, answers in %v: corrected by %v, measured %v", ahead, latency, correction, skew)
			}
		}
	}
}

func TestClocksThatAgreeAreNotCorrectedByASlowAnswer(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Second, -time.Second} {
		for _, latency := range []time.Duration{0, 5 * time.Millisecond, 3 * time.Second, 9 * time.Second} {
			var c Clock
			if got := polls(&c, 40, ahead, latency); got != 0 {
				t.Errorf("clock %v ahead, answers in up to %v: corrected by %v", ahead, latency, got)
			}
		}
	}
}

func TestClockAheadIsCorrectedAtOnceAndClockBehindAfterSeveralAnswers(t *testing.T) {
	var ahead, behind Clock
	if got := polls(&ahead, 1, 2*time.Minute, 10*time.Millisecond); !near(got, 2*time.Minute) {
		t.Errorf("ahead: corrected by %v with the first answer", got)
	}
	for n, corrected := range map[int]bool{1: false, 2: false, 4: true, 5: true} {
		behind = Clock{}
		if got := polls(&behind, n, -40*time.Second, 10*time.Millisecond); (got != 0) != corrected {
			t.Errorf("behind: corrected by %v after %d answers over %v", got, n, time.Duration(n-1)*15*time.Second)
		}
	}
}

// A cache returns one response, with the same Date header, for a long time. The age of this Date must not be taken for an
// error of the server's clock, because the samples in the response really become stale.
func TestAnswerFromACacheNeverMakesSamplesYounger(t *testing.T) {
	var silent, honest Clock
	for i := range 40 {
		for range 4 { // four queries in each round
			at := noon.Add(time.Duration(i) * 15 * time.Second)
			if got := silent.Observe(dateOf(noon, 0), at, at.Add(5*time.Millisecond)); got < 0 {
				t.Fatalf("poll %d: a frozen Date made samples %v younger", i, -got)
			}
			h := dateOf(noon, 0)
			h.Set("Age", fmt.Sprint(i*15))
			if got := honest.Observe(h, at, at.Add(5*time.Millisecond)); got != 0 {
				t.Fatalf("poll %d: the Age header was ignored: %v", i, got)
			}
		}
	}
}

// Two servers behind one address respond alternately, and the clock of one server is two minutes ahead. Each response must be corrected by
// the clock of the server that sent it.
func TestTwoServersWithDifferentClocksAreCorrectedSeparately(t *testing.T) {
	var c Clock
	for i := range 40 {
		at, ahead := noon.Add(time.Duration(i)*15*time.Second), time.Duration(i%2)*2*time.Minute
		if got := c.Observe(dateOf(at, ahead), at, at.Add(5*time.Millisecond)); !near(got, ahead) {
			t.Fatalf("answer %d by a clock %v ahead was corrected by %v", i, ahead, got)
		}
	}
}

func TestAnswerWithoutADateIsCorrectedOnlyTowardsOlder(t *testing.T) {
	for _, date := range []string{"", "yesterday", "Fri, 20 Nov"} {
		var fresh, ahead, behind Clock
		polls(&ahead, 5, 2*time.Minute, 0)
		polls(&behind, 5, -2*time.Minute, 0)
		at, h := noon.Add(5*time.Minute), http.Header{"Date": {date}}
		if got := fresh.Observe(h, at, at); got != 0 {
			t.Errorf("%q: nothing known, corrected by %v", date, got)
		}
		if _, ok := fresh.Skew(); ok {
			t.Errorf("%q: returns a skew without a measurement", date)
		}
		if got := ahead.Observe(h, at, at); !near(got, 2*time.Minute) {
			t.Errorf("%q: known to be ahead, corrected by %v", date, got)
		}
		if got := behind.Observe(h, at, at); got != 0 {
			t.Errorf("%q: known to be behind, corrected by %v", date, got)
		}
	}
}

func TestClockThatWasSetIsMeasuredByTheNextAnswer(t *testing.T) {
	var c Clock
	polls(&c, 10, 2*time.Minute, 0)
	at := noon.Add(10 * time.Minute)
	if got := c.Observe(dateOf(at, 0), at, at); got != 0 {
		t.Errorf("corrected by %v after the clock was set", got)
	}
	if skew, _ := c.Skew(); skew != 0 {
		t.Errorf("still returns %v", skew)
	}
}

func FuzzClockSurvivesAnyDate(f *testing.F) {
	for _, date := range []string{"", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 0000 00:00:00 GMT",
		"Friday, 20-Nov-26 12:00:00 GMT"} {
		f.Add(date, "", int64(5))
	}
	f.Fuzz(func(t *testing.T, date, age string, took int64) {
		var c Clock
		h := http.Header{"Date": {date}, "Age": {age}}
		for i := range 4 {
			at := noon.Add(time.Duration(i) * 15 * time.Second)
			if got := c.Observe(h, at, at.Add(time.Duration(took))); got < -maxSkew-time.Minute || got > maxSkew+time.Minute {
				t.Fatalf("corrected by %v", got)
			}
		}
	})
}
