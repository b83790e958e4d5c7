package redisqueue

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// A server with three jobs restarts empty. Its length 0 must not be used for ten minutes, but a length above 0 must be used at once. A
// queue that was empty before the restart must be read as empty.
func TestEmptyAfterARestartIsInDoubt(t *testing.T) {
	now := start
	var r restarts
	poll := func(step, run string, length float64, want bool) {
		t.Helper()
		now = now.Add(5 * time.Second)
		if r.observe(run, now); r.trusts("jobs", length, now) != want {
			t.Errorf("%s: length %g of server %q trusted: %v", step, length, run, !want)
		}
	}
	poll("the first poll", "a", 3, true)
	poll("all jobs are done", "a", 0, true)
	poll("a restart while the queue is empty", "b", 0, true)
	poll("jobs", "b", 3, true)
	poll("INFO failed once", "", 3, true)
	poll("a restart without the data", "c", 0, false)
	poll("still empty, and INFO failed", "", 0, false)
	poll("the data was loaded", "c", 2, true)
	poll("these jobs are done", "c", 0, true)

	poll("jobs", "c", 1, true)
	poll("another restart", "d", 0, false)
	now = now.Add(doubtTime - 10*time.Second)
	poll("almost ten minutes later", "d", 0, false)
	poll("ten minutes later", "d", 0, true)
	poll("and from then on", "d", 0, true)

	poll("jobs", "d", 4, true)
	poll("a restart without the data, and a proxy rejects INFO", "", 0, false)
	poll("INFO works again", "e", 0, false)
}

// While INFO fails, a server without the data cannot be detected. The length 0 of a queue that was not empty must then be ignored until
// INFO works again, but for at most ten minutes.
func TestEmptyWhileInfoFailsIsInDoubt(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	var r restarts
	poll := func(step, key, run string, length float64, want bool) {
		t.Helper()
		now = now.Add(5 * time.Second)
		if r.observe(run, now); r.trusts(key, length, now) != want {
			t.Errorf("%s: length %g of %s trusted: %v", step, length, key, !want)
		}
	}
	poll("INFO never worked", "jobs", "", 3, true)
	poll("INFO never worked, and the jobs are done", "jobs", "", 0, true)

	poll("jobs", "jobs", "a", 3, true)
	poll("INFO fails", "jobs", "", 0, false)
	poll("the same server", "jobs", "a", 0, true)
	poll("and from then on", "jobs", "", 0, true)

	poll("jobs", "jobs", "a", 3, true)
	poll("INFO fails", "jobs", "", 0, false)
	poll("a queue that was empty before", "other", "", 0, true)
	now = now.Add(doubtTime - 15*time.Second)
	poll("almost ten minutes later", "jobs", "", 0, false)
	poll("ten minutes later", "jobs", "", 0, true)
	poll("another server, and INFO works again", "jobs", "b", 0, false)
}

// A load balancer sends each poll to another of two servers. If both are empty, the length 0 must be used after ten minutes, although the
// run_id changes with each poll.
func TestAlternatingServersAreNotInDoubtForever(t *testing.T) {
	now := start
	var r restarts
	r.observe("a", now)
	r.trusts("jobs", 3, now)
	polls := 0
	for ; polls < 1000; polls++ {
		now = now.Add(5 * time.Second)
		r.observe([]string{"b", "a"}[polls%2], now)
		if r.trusts("jobs", 0, now) {
			break
		}
	}
	if polls != 120 {
		t.Errorf("empty after %d polls of 5s, want 120", polls)
	}
	if r.observe("a", now.Add(-time.Hour)); !r.trusts("jobs", 0, now.Add(-time.Hour)) {
		t.Error("a clock that was set back: a queue that is known to be empty is in doubt")
	}
}

func TestManyQueuesAreForgotten(t *testing.T) {
	var r restarts
	for i := range maxKeys + 5 {
		r.trusts(string(rune('a'+i%26))+time.Duration(i).String(), 1, start)
	}
	if len(r.busy) != 5 {
		t.Errorf("%d queues are stored", len(r.busy))
	}
}

func TestRunIDOfAReply(t *testing.T) {
	for text, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nrun_id:4f3a\r\ntcp_port:6379\r\n": "4f3a", "run_id:4f3a": "4f3a", "": "", "tcp_port:6379\r\n": "",
	} {
		if got := runID(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A command that the server rejected is sent again after an hour. A permission that is granted later therefore has an effect without a
// restart of gpuscaler.
func TestRejectedCommandIsSentAgainAfterAnHour(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	now, never := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), time.Time{}
	for _, c := range []struct {
		story    string
		rejected time.Time
		sent     bool
	}{
		{"never rejected", never, true}, {"rejected by the last poll", now.Add(-5 * time.Second), false},
		{"rejected an hour ago", now.Add(-time.Hour), true}, {"the clock was set back", now.Add(time.Minute), true},
	} {
		if sent := optional(t.Context(), client.Pipeline(), now.Sub(c.rejected), "INFO", "server") != nil; sent != c.sent {
			t.Errorf("%s: INFO sent: %v", c.story, sent)
		}
	}
}
