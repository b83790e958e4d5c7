package redisqueue

import (
	"strings"
	"time"
)

// doubtTime is how long the length 0 of a queue is not used after it appeared together with another server. It is twice the default
// stabilization window of a scale-down, so that there is time to load a backup or to start the former server again. If it were twice as
// long, a workload whose queue is really empty would keep its replicas for 20 minutes instead of ten.
const doubtTime = 10 * time.Minute

// maxKeys limits the number of queues that are stored. If there are more, all are forgotten, as after a restart of gpuscaler.
const maxKeys = 10_000

// restarts recognizes queues that became empty because the server was restarted without its data, or because another, empty server has its
// address now. Redis deletes a list with its last element, so the length of both an empty and a lost list is 0.
//
// The field run_id in the reply to INFO identifies a process of Redis. If it changes, the length 0 of a queue that was not empty before is
// in doubt, until the queue has an element again or doubtTime has passed.
type restarts struct {
	run   string               // the last run_id; "": not known yet
	busy  map[string]struct{}  // queues with an element at the last poll
	doubt map[string]time.Time // queues whose length 0 is in doubt, with the time of the change of run_id
}

// observe adds the run_id of a poll, which is "" if it is not known.
func (r *restarts) observe(run string, at time.Time) {
	if run == "" {
		return
	}
	if r.run != "" && r.run != run {
		if r.doubt == nil {
			r.doubt = map[string]time.Time{}
		}
		for key := range r.busy {
			// The first change counts: behind a load balancer, each poll can have another run_id.
			if _, known := r.doubt[key]; !known {
				r.doubt[key] = at
			}
		}
	}
	r.run = run
}

// trusts reports whether the length of a queue can be used.
func (r *restarts) trusts(key string, length float64, at time.Time) bool {
	if length > 0 {
		if r.busy == nil || len(r.busy) >= maxKeys {
			r.busy, r.doubt = map[string]struct{}{}, nil
		}
		r.busy[key] = struct{}{}
		delete(r.doubt, key)
		return true
	}
	since, inDoubt := r.doubt[key]
	if age := at.Sub(since); inDoubt && age >= 0 && age < doubtTime {
		return false
	}
	delete(r.doubt, key)
	delete(r.busy, key)
	return true
}

// runID returns the run_id in the reply to INFO, or "".
func runID(info string) string {
	_, rest, found := strings.Cut(info, "run_id:")
	if !found {
		return ""
	}
	id, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(id)
}
