package capacity

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Snapshot is everything that the state holds but its group, as a JSON list: what a recording begins with, so that decisions can be
// made again without what came before.
func (s *State) Snapshot() (json.RawMessage, error) { return json.Marshal(s.fields()) }

// DecodeState is the state that Snapshot wrote, of the group that it belongs to.
func DecodeState(g *Group, snapshot json.RawMessage) (State, error) {
	s := State{group: g}
	var values []json.RawMessage
	if err := json.Unmarshal(snapshot, &values); err != nil {
		return State{}, fmt.Errorf("a group's state: %w", err)
	}
	fields := s.fields()
	if len(values) != len(fields) {
		return State{}, errors.New("a group's state of another version")
	}
	for i, v := range values {
		if err := json.Unmarshal(v, fields[i]); err != nil {
			return State{}, fmt.Errorf("a group's state, value %d: %w", i, err)
		}
	}
	return s, nil
}

// fields points at every value of the state, in one order for both ways.
func (s *State) fields() []any {
	all := []any{&s.at, &s.revision, &s.knownSince, &s.doubtedAt, &s.zeroSince, &s.shortSince, &s.sentNext,
		&s.spot.phase, &s.spot.level, &s.spot.cause, &s.spot.since, &s.spot.until, &s.spot.limit, &s.spot.moved, &s.spot.count, &s.spot.of,
		&s.capped.on, &s.capped.level, &s.capped.since, &s.capped.until,
		&s.move.step, &s.move.refused, &s.move.since, &s.move.workload, &s.move.count, &s.move.node,
		&s.pace.width, &s.pace.level, &s.pace.until, &s.reserve.size, &s.reserve.at}
	for i := range s.move.victims {
		all = append(all, &s.move.victims[i])
	}
	for i := range s.limits {
		all = append(all, &s.limits[i])
	}
	for i := range s.sent {
		all = append(all, &s.sent[i].key, &s.sent[i].at)
	}
	for i := range s.pools {
		p := &s.pools[i]
		all = append(all, &p.adopted, &p.stale, &p.record, &p.written, &p.writtenAt)
		for _, h := range []*hold{&p.hold, &p.held.of} {
			all = append(all, &h.start, &h.empty, &h.under)
		}
		all = append(all, &p.held.list, &p.held.with)
		for j := range p.nudges {
			n := &p.nudges[j]
			all = append(all, &n.on, &n.releasing, &n.seen, &n.to, &n.before, &n.original, &n.owner, &n.rule, &n.at, &n.since, &n.overwrites, &n.yielded, &n.retry)
		}
	}
	return all
}
