// Package evidence counts refused launches and lost nodes. From the losses of the last hour, it estimates how many nodes and replicas
// will be lost during a cold start. Its input is plain lists of events, and times are in Unix milliseconds.
package evidence

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// Failure is a NodeClaim that was deleted before an instance existed.
type Failure struct {
	UID string
	At  time.Time
	// whether the launch failed for lack of capacity, as an InsufficientCapacityError event shows
	Capacity bool
}

// Loss is a node that the provider took: by interruption, by reclaim, or by a hardware failure.
type Loss struct {
	UID string
	At  time.Time
}

// Within reports whether an event happened after the time from and at most one minute after now. The minute is allowed because the clock of
// the machine that recorded the event may be ahead.
func Within(when time.Time, from, now int64) bool {
	at := statemachine.Stamp(when)
	return at > from && at <= now+time.Minute.Milliseconds()
}

// Refused returns how many launches were refused for lack of capacity after the time from.
func Refused(failures []Failure, from, now int64) int {
	var c counter
	for i := range failures {
		if f := &failures[i]; f.Capacity && Within(f.At, from, now) {
			c.add(f.UID)
		}
	}
	return c.count
}

// Lost returns how many nodes were lost after the time from.
func Lost(losses []Loss, from, now int64) int {
	var c counter
	for i := range losses {
		if l := &losses[i]; Within(l.At, from, now) {
			c.add(l.UID)
		}
	}
	return c.count
}

// counter counts NodeClaims, at most MaxEvidence. A NodeClaim counts once, by its UID, because Kubernetes repeats and merges Events.
type counter struct {
	uids  [statemachine.MaxEvidence]string
	count int
}

// add counts the NodeClaim with the given UID and returns true. It returns false if this NodeClaim already counts or MaxEvidence is
// reached.
func (c *counter) add(uid string) bool {
	if c.count >= len(c.uids) || slices.Contains(c.uids[:c.count], uid) {
		return false
	}
	c.uids[c.count] = uid
	c.count++
	return true
}
