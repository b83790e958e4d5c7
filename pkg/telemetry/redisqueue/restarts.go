package redisqueue

import (
	"strings"
	"time"
)

// doubtTime is how long the length 0 of a queue is ignored after the process of the server changed. It is twice the default stabilization
// window of a scale-down. In this time an operator can load a backup or start the previous server again. doubtTime is not longer, because a
// queue that is really empty keeps the replicas of its workload for this time.
const doubtTime = 10 * time.Minute

// maxKeys is the maximum number of queues that are stored. If there are more, all stored queues are deleted, as after a restart of
// gpuscaler.
const maxKeys = 10_000

// restarts detects queues that became empty because the server was restarted without its data, or because another server without the data
// has the same address now. Redis deletes a list when its last element is removed, so an empty list and a lost list both have the length 0.
//
// The field run_id in the reply to INFO identifies a process of Redis. The length 0 of a queue that was not empty before is ignored in
// two cases, in each case for at most doubtTime:
//
//   - The run_id has changed. The length is ignored until the queue has an element again.
//   - INFO fails after it has worked, for example during a failover. The length is ignored until INFO works again with the same run_id.
type restarts struct {
	run   string               // the last run_id; "": not known yet
	known bool                 // the last poll had a run_id
	lost  time.Time            // time of the first poll without a run_id after the last poll with a run_id
	busy  map[string]struct{}  // queues with an element at the last poll
	doubt map[string]time.Time // queues whose length 0 is ignored, with the time at which run_id changed
}

// observe processes the run_id of a poll. The parameter run is "" if the poll did not return a run_id.
func (r *restarts) observe(run string, at time.Time) {
	if run == "" {
		if r.known {
			r.known, r.lost = false, at
		}
		return
	}
	r.known = true
	if r.run != "" && r.run != run {
		if r.doubt == nil {
			r.doubt = map[string]time.Time{}
		}
		for key := range r.busy {
			// The time of the first change is kept, because each poll behind a load balancer can have another run_id.
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
		if _, known := r.busy[key]; r.busy == nil || !known && len(r.busy) >= maxKeys {
			r.busy, r.doubt = map[string]struct{}{}, nil
		}
		r.busy[key] = struct{}{}
		delete(r.doubt, key)
		return true
	}
	since, inDoubt := r.doubt[key]
	if _, busy := r.busy[key]; busy && !inDoubt && !r.known && r.run != "" {
		since, inDoubt = r.lost, true // without INFO, the server that replies can be another server
	}
	if age := at.Sub(since); inDoubt && age >= 0 && age < doubtTime {
		return false
	}
	delete(r.doubt, key)
	// Without a run_id, the queue remains marked as not empty. The next poll with a run_id can then detect that the server has changed.
	if r.known || r.run == "" {
		delete(r.busy, key)
	}
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
