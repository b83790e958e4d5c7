package planner

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// starts contains the replicas that were requested and are not ready. When a replica becomes ready, it is matched with the oldest request,
// and the time since that request is a cold start. Only the number of replicas in each tick is used, so the result is the same in a cluster
// and in the simulator.
type starts struct {
	known    bool
	ready    int32 // ready replicas in the last tick
	target   int32 // the last target; targetAt is the time of the tick that decided it, or of the first tick
	targetAt int64
	n        int8
	list     [maxStarts]start // the first n entries are used, with the oldest first
}

// maxStarts is the maximum number of entries. If there are more requests, the newest request is added to the last entry, which has an
// earlier time. The measured cold start of this request is then too long.
const maxStarts = 16

// decisionLag is the longest time from a decision until the HPA has changed the replicas of the scale target, in milliseconds. An HPA reads
// the target every 15 seconds.
const decisionLag = 60_000

// start is a number of replicas that were requested at the same time.
type start struct {
	at    int64
	count int32
	whole bool // true if the time of the request was observed; if false, no cold start is measured
}

// follow updates the starts with the numbers of a tick. It sets p.cold to the cold starts that ended in this tick. For each replica that is
// starting, it sets an element of p.ages to the time since the request of the replica.
func (p *Planner) follow(t *Tick) {
	s := &p.starts
	p.cold = p.cold[:0]
	// A replica whose pod crashes or is rejected by the API server was requested, but is not included in the starting replicas.
	starting := min(max(t.Current-t.Ready, 0), t.Loading+t.Pending)
	if s.target != t.LastTarget {
		s.target, s.targetAt = t.LastTarget, t.At
		if s.known {
			s.targetAt = p.at // the previous tick decided the target
		}
	}
	if t.At < s.newest() { // the clock was set back
		s.n, s.known = 0, false
	}
	if s.known {
		p.cold = s.finish(p.cold, t)
	}
	switch more := starting - s.total(); {
	case more > 0:
		// If a ready replica fails and is replaced or restarted, the time until it is ready again is not a cold start. The method begin detects
		// this.
		s.push(s.begin(t, more))
	case more < 0:
		s.drop(-more)
	}
	s.known, s.ready = true, t.Ready
	p.ages = s.ages(p.ages[:0], t.At)
}

// begin returns the entry for replicas that are observed for the first time in this tick. Their start began when the target last changed,
// if three conditions are met: the change was at most decisionLag ago, the target is not below the current replicas, and no ready replica
// was lost. Otherwise their start began in this tick.
func (s *starts) begin(t *Tick, count int32) start {
	out := start{at: t.At, count: count, whole: s.known && t.Ready >= s.ready}
	if out.whole && t.LastTarget >= t.Current && t.At-s.targetAt <= decisionLag {
		out.at = min(s.targetAt, t.At)
	}
	return out
}

// finish removes the replicas that became ready in this tick from the list, with the oldest requests first. It appends the cold starts of
// the removed replicas to the slice cold, and returns that slice. If several replicas of one request became ready, one cold start is
// appended, with the phases of the replica that became ready last.
func (s *starts) finish(cold []objective.ColdStart, t *Tick) []objective.ColdStart {
	ready, done := t.Ready-s.ready, int32(0)
	for done < ready && s.n > 0 {
		first := &s.list[0]
		taken := min(ready-done, first.count)
		done += taken
		if first.whole && t.At > first.at {
			c := objective.ColdStart{Total: milliseconds(t.At - first.at)}
			if started, ok := t.Started.newest(done-1, ready); ok {
				started.phases(first.at, &c)
			}
			cold = append(cold, c)
		}
		if first.count -= taken; first.count == 0 {
			copy(s.list[:], s.list[1:s.n])
			s.n--
		}
	}
	return cold
}

func (s *starts) push(b start) {
	if s.n == maxStarts {
		s.list[s.n-1].count += b.count
		return
	}
	s.list[s.n] = b
	s.n++
}

// drop removes the newest replicas from the list. No replica in the list is ready, and Kubernetes deletes the newest replicas of this kind
// first.
func (s *starts) drop(count int32) {
	for count > 0 && s.n > 0 {
		last := &s.list[s.n-1]
		taken := min(count, last.count)
		count -= taken
		if last.count -= taken; last.count == 0 {
			s.n--
		}
	}
}

func (s *starts) total() (n int32) {
	for _, b := range s.list[:s.n] {
		n += b.count
	}
	return n
}

func (s *starts) newest() int64 {
	if s.n == 0 {
		return -history.MaxStamp
	}
	return s.list[s.n-1].at
}

// maxAges is the greatest number of replicas whose ages the model receives. It limits the duration of a tick.
const maxAges = 4096

func (s *starts) ages(out []time.Duration, at int64) []time.Duration {
	for _, b := range s.list[:s.n] {
		for range min(int(b.count), maxAges-len(out)) {
			out = append(out, milliseconds(max(at-b.at, 0)))
		}
	}
	return out
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
