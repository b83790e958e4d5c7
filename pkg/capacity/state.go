package capacity

import (
	"hash/fnv"
	"slices"
	"time"
)

// State is what one group remembers from tick to tick: a plain value of fixed size, kept by the caller. The zero State starts from
// the records on the NodePools, so a crash loses no original; what it does not know it lets go.
type State struct {
	group    *Group
	limits   [MaxLimits]string // the resources of the limit fields: the group's, then what a record names
	at       int64             // the last tick; all stamps are Unix milliseconds
	pools    [MaxPools]poolState
	spot     spotState
	revision uint32 // of spot, so that the newest of two records is known

	knownSince int64 // since when demand is known without a gap
	doubtedAt  int64 // when demand was unknown last; 0: never since we began
	zeroSince  int64 // since when nobody wants anything; 0: somebody does
	shortSince int64 // since when pods wait that no node on its way will take; 0: none do
	capped     cappedState
	move       move
	pace       pace
	reserve    reserve
	sent       [16]sent // marks written lately, which the next observation may not show yet
	sentNext   uint8
}

// poolState is what is remembered of one NodePool.
type poolState struct {
	adopted   bool // its record was read
	stale     bool // the record must be rendered anew
	record    string
	written   string // the record that was written last, and when
	writtenAt int64
	nudges    [numFields]nudge
	hold      hold
	held      struct { // what the hold made of a list, which a quiet tick need not read again
		of         hold
		list, with Value
	}
}

// Phase is where a group stands between spot and on-demand.
type Phase uint8

const (
	PreferSpot Phase = iota // as the NodePools are written
	Fallback                // on-demand first, until the next probe
	Probing                 // spot again, one node at most
	Returning               // replicas move back at the set pace
)

// spotState is the part of the state machine that survives a crash.
type spotState struct {
	phase Phase
	level uint8 // failures in a row: the hold doubles with each
	cause Cause
	since int64 // of the phase
	until int64 // when a fallback probes, or a probe is given up
	limit int64 // of a probe
	moved int64 // when the last node's move began
	// What the evidence for a fallback was: so many refusals or losses, of so many launches or nodes.
	count, of int32
}

// stamps lists every stamp of the state, so that a clock that stepped back can take them all with it.
func (s *State) stamps() []*int64 {
	all := []*int64{&s.at, &s.spot.since, &s.spot.until, &s.spot.moved, &s.knownSince, &s.doubtedAt, &s.zeroSince, &s.shortSince,
		&s.capped.since, &s.capped.until, &s.move.since, &s.pace.until, &s.reserve.at}
	for i := range s.pools {
		p := &s.pools[i]
		all = append(all, &p.writtenAt)
		for j := range p.nudges {
			all = append(all, &p.nudges[j].at, &p.nudges[j].since, &p.nudges[j].retry, &p.nudges[j].yielded)
		}
	}
	for i := range s.sent {
		all = append(all, &s.sent[i].at)
	}
	return all
}

// begin makes the state fit the tick. Holds are left where they stand on a clock that stepped back: their ends are written in a
// NodePool, which Karpenter reads by a clock of its own.
func (s *State) begin(g *Group, now time.Time) {
	at := stamp(now)
	if s.group == nil {
		*s = State{at: at, knownSince: at}
	}
	if s.group != g {
		s.fit(g)
	}
	if back := s.at - at; back > 0 {
		for _, t := range s.stamps() {
			if *t != 0 {
				*t -= back
			}
		}
	}
	s.at = at
}

// fit carries the state over to another version of the group: pools and limits may have other indexes now. What a pool that left
// the group still holds stands in its record: see Orphan.
func (s *State) fit(g *Group) {
	old := *s
	s.group, s.pools, s.limits = g, [MaxPools]poolState{}, [MaxLimits]string{}
	s.limits[0] = g.Resource
	copy(s.limits[:], g.limits)
	for i := range min(len(g.Pools), MaxPools) {
		if old.group == nil {
			break
		}
		j := slices.IndexFunc(old.group.Pools, func(p Pool) bool { return p.Name == g.Pools[i].Name })
		if j < 0 || j >= MaxPools {
			continue
		}
		s.pools[i] = old.pools[j]
		for k := range MaxLimits {
			s.pools[i].nudges[int(FieldLimit)+k] = nudge{}
		}
		for k := range MaxLimits {
			n := old.pools[j].nudges[int(FieldLimit)+k]
			if !n.on && n.overwrites == 0 {
				continue
			}
			if f, ok := s.limit(old.limits[k]); ok {
				s.pools[i].nudges[f] = n
			}
		}
		s.pools[i].stale = true
	}
}

// enter changes the phase.
func (s *State) enter(p Phase, cause Cause) {
	s.spot.phase, s.spot.cause, s.spot.since, s.spot.until, s.spot.limit = p, cause, s.at, 0, 0
	s.spot.count, s.spot.of = 0, 0
	s.touch()
}

// touch has every record rendered anew.
func (s *State) touch() {
	s.revision++
	for i := range s.pools {
		s.pools[i].stale = true
	}
}

// sent is a mark that was written, as a hash of the pod, the kind and the value.
type sent struct {
	key uint64
	at  int64
}

// resend is how long an observation may take to show what was written before it is written again.
const resend = 10 * time.Second

// resendAtShutdown replaces resend during Shutdown, which has only seconds: an extra patch costs less than a limit that stays.
const resendAtShutdown = 500 * time.Millisecond

// repeats tells whether the mark was written a moment ago, and remembers it otherwise.
func (s *State) repeats(m *PodAnnotation) bool {
	key := hash(m.UID, string(rune('a'+m.Kind)), m.Value)
	for i := range s.sent {
		if s.sent[i].key == key && s.sent[i].at != 0 && s.at-s.sent[i].at < resend.Milliseconds() {
			return true
		}
	}
	s.sent[s.sentNext%uint8(len(s.sent))] = sent{key, s.at}
	s.sentNext++
	return false
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // a hash never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// jittered spreads a duration over 80 to 120 % of itself, by name: groups that were refused together do not ask again together.
func jittered(d time.Duration, name string, level uint8) time.Duration {
	return d*4/5 + d*2/5/1000*time.Duration(hash(name, string(rune('a'+level)))%1000)
}

// maxStamp keeps every sum of a stamp and a duration inside an int64; it lies beyond the year 100,000,000.
const maxStamp = int64(1) << 61

// stamp is Unix milliseconds, for years beyond what UnixMilli can hold too.
func stamp(t time.Time) int64 {
	const maxSeconds = maxStamp / 1000
	return max(-maxSeconds, min(t.Unix(), maxSeconds))*1000 + int64(t.Nanosecond()/1e6)
}

// instant is a stamp as people read it; 0 is the zero time.
func instant(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}
