package capacity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// State is the state of one group between two ticks. It is a plain value of fixed size that the caller stores. With the zero State,
// Decide reads the record annotations on the NodePools, so the owners' original values are not lost in a crash. If gpuscaler owns a field
// and no record contains an override of it, the override is removed.
type State struct {
	group *Group
	memory
}

// memory contains all fields of State except the group. Its JSON form is the snapshot in a recording of ticks. The fields that must be
// kept after a crash have the same JSON form in the record annotation of a NodePool. Times are in Unix milliseconds, and 0 means that the
// time is not set.
type memory struct {
	At int64 `json:"at"` // time of the last tick
	override.State

	KnownSince int64 `json:"knownSince"` // time since which demand has been known without interruption
	UnknownAt  int64 `json:"unknownAt"`  // when demand was last unknown; 0: demand has been known since the first tick
	// ShortSince is the time since which pods without a node have waited although no node is being launched for them; 0: none wait.
	ShortSince int64                  `json:"shortSince"`
	ZeroLimit  statemachine.ZeroLimit `json:"zeroLimit"`
	TargetCap  statemachine.TargetCap `json:"targetCap"`
	Move       statemachine.Move      `json:"move"`
	Pace       statemachine.Pace      `json:"pace"`
	Reserve    statemachine.Reserve   `json:"reserve"`
	// Surges contains the replicas that are added before Karpenter disrupts the node of a replica. LastSurge is the workload of the surge
	// that began last. Inherits is true until the first tick has looked for surges of the previous leader.
	Surges            [statemachine.MaxSurges]statemachine.Surge `json:"surges,omitzero"`
	LastSurge         string                                     `json:"lastSurge,omitempty"`
	Inherits          bool                                       `json:"inherits,omitempty"`
	statemachine.Sent                                            // writes that the next observation may not contain yet
}

// stamps returns pointers to the times in the state, in Unix milliseconds, so that begin can change them if the clock was set back. The
// times in the entries of a consolidation freeze are not included.
func (s *State) stamps() []*int64 {
	all := s.State.Stamps([]*int64{&s.At, &s.KnownSince, &s.UnknownAt, &s.ZeroLimit.Since, &s.ShortSince, &s.TargetCap.Since,
		&s.TargetCap.Until, &s.Move.Since, &s.Pace.Until, &s.Reserve.At})
	for i := range s.Sent.Writes {
		all = append(all, &s.Sent.Writes[i].At)
	}
	for i := range s.Surges {
		all = append(all, &s.Surges[i].Since, &s.Surges[i].Ready, &s.Surges[i].Until)
	}
	return all
}

// begin prepares the state for a tick. If the clock was set back, begin moves all times in the state back by the same duration. It does
// not change the times in the entries of a consolidation freeze: they are part of the NodePool's budgets, which Karpenter evaluates by
// its own clock.
func (s *State) begin(g *Group, now time.Time) {
	at := statemachine.Stamp(now)
	if s.group == nil {
		*s = State{memory: memory{At: at, KnownSince: at, Inherits: true}}
	}
	if s.group != g {
		s.adapt(g)
	}
	if back := s.At - at; back > 0 {
		for _, t := range s.stamps() {
			if *t != 0 {
				*t -= back
			}
		}
	}
	s.At = at
}

// adapt changes the state to a new version of the group, in which NodePools and limits may have other indexes. It drops the state of
// NodePools that the group no longer contains. Their overrides are in their record annotations (see Orphan).
func (s *State) adapt(g *Group) {
	was := make([]int, 0, nodepool.MaxPools)
	for i := range min(len(g.Pools), nodepool.MaxPools) {
		j := -1
		if s.group != nil {
			old := s.group.Pools[:min(len(s.group.Pools), nodepool.MaxPools)]
			j = slices.IndexFunc(old, func(p Pool) bool { return p.Name == g.Pools[i].Name })
		}
		was = append(was, j)
	}
	limits := g.limits
	if len(limits) == 0 {
		limits = []string{g.Resource} // a group that NewGroup did not create
	}
	s.State.Adapt(limits, was)
	s.group = g
}

// Overrides appends the current overrides of the group's NodePools to the slice into, ordered by NodePool and field, and returns the slice.
func (s *State) Overrides(into []override.Current) []override.Current {
	if s.group == nil {
		return into
	}
	for i := range min(len(s.group.Pools), nodepool.MaxPools) {
		into = s.Current(into, i, s.group.Pools[i].Name)
	}
	return into
}

// snapshot is the JSON form of a state.
type snapshot struct {
	Version int     `json:"v"`
	State   *memory `json:"state"`
}

// Snapshot returns the state as JSON, without its group. A recording begins with this snapshot, so that a replay can repeat the
// decisions.
func (s *State) Snapshot() (json.RawMessage, error) {
	return json.Marshal(snapshot{override.Version, &s.memory})
}

// DecodeState returns the state of a snapshot, for the group to which the snapshot belongs.
func DecodeState(g *Group, text json.RawMessage) (State, error) {
	s := State{group: g}
	content := snapshot{State: &s.memory}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&content); err != nil {
		return State{}, fmt.Errorf("state of a capacity group: %w", err)
	}
	if content.Version != override.Version || content.State == nil {
		return State{}, fmt.Errorf("state of a capacity group: version %d, allowed: %d", content.Version, override.Version)
	}
	return s, nil
}
