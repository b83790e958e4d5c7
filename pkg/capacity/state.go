package capacity

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// State is the state of one group between two ticks. It is a plain value of fixed size that the caller stores. With the zero State, Decide
// reads the records on the NodePools, so the owners' original values are not lost in a crash. A field that gpuscaler owns without a record
// loses its override.
type State struct {
	group *Group
	memory
}

// memory contains all fields of State except the group. Its JSON form is the snapshot in a recording. The parts that must not be lost in a
// crash have the same JSON form in the record on a NodePool. Stamps are Unix times in milliseconds, and 0 means that the time is not set.
type memory struct {
	At int64 `json:"at"` // time of the last tick
	// the resources of the limit fields: first those of the group, then those that only records contain
	Limits [nodepool.MaxLimits]string `json:"limits"`
	Pools  poolStates                 `json:"pools"`
	Spot   statemachine.SpotState     `json:"spot"`
	// revision of Spot: if two records differ, the one with the greater revision is newer
	Revision uint32 `json:"revision"`

	KnownSince        int64                  `json:"knownSince"` // time since which demand has been known without interruption
	UnknownAt         int64                  `json:"unknownAt"`  // when demand was last unknown; 0: it has been known since the start
	ShortSince        int64                  `json:"shortSince"` // time since which pods have waited for which no node is being launched
	ZeroLimit         statemachine.ZeroLimit `json:"zeroLimit"`
	TargetCap         statemachine.TargetCap `json:"targetCap"`
	Move              statemachine.Move      `json:"move"`
	Pace              statemachine.Pace      `json:"pace"`
	Reserve           statemachine.Reserve   `json:"reserve"`
	statemachine.Sent                        // writes that the next observation may not show yet
}

// poolStates are the states of the NodePools of a group.
type poolStates [nodepool.MaxPools]poolState

// minSavedPools is the least number of NodePools in the JSON form of poolStates.
const minSavedPools = 4

// MarshalJSON omits the zero states after the last NodePool of the group, except for the first minSavedPools. A recording of a group with
// few NodePools therefore does not contain many empty states.
func (p *poolStates) MarshalJSON() ([]byte, error) {
	n := nodepool.MaxPools
	for n > minSavedPools && p[n-1] == (poolState{}) {
		n--
	}
	return json.Marshal(p[:n])
}

// poolState is the state of one NodePool between two ticks.
type poolState struct {
	Adopted   bool                         `json:"adopted"` // the record on the NodePool was read
	Stale     bool                         `json:"stale"`   // the record must be encoded again
	Record    string                       `json:"record"`
	Written   string                       `json:"written"` // the record of the last write, and the time of that write
	WrittenAt int64                        `json:"writtenAt"`
	Overrides [nodepool.NumFields]override `json:"overrides"`
	Freeze    statemachine.Freeze          `json:"freeze"`

	examined string       // the record that examineRecord has parsed
	newer    *newerRecord // the record of a newer version on the NodePool; nil: none
	frozen   struct {     // the budgets with the entries of a freeze, stored so that they are not computed again in each tick
		of         statemachine.Freeze
		list, with nodepool.Value
	}
}

// stamps returns pointers to all times (in Unix milliseconds) of the state except those of the entries of a consolidation freeze. begin
// changes them if the clock was set back.
func (s *State) stamps() []*int64 {
	all := []*int64{&s.At, &s.Spot.Since, &s.Spot.Until, &s.Spot.Moved, &s.KnownSince, &s.UnknownAt, &s.ZeroLimit.Since, &s.ShortSince,
		&s.TargetCap.Since, &s.TargetCap.Until, &s.Move.Since, &s.Pace.Until, &s.Reserve.At}
	for i := range s.Pools {
		p := &s.Pools[i]
		all = append(all, &p.WrittenAt, &p.Freeze.Unused)
		for j := range p.Overrides {
			o := &p.Overrides[j]
			all = append(all, &o.At, &o.Since, &o.Retry, &o.Yielded)
		}
	}
	for i := range s.Sent.Writes {
		all = append(all, &s.Sent.Writes[i].At)
	}
	return all
}

// begin prepares the state for a tick. If the clock was set back, it moves all times in the state back by the same duration. It does not
// change the times of the entries of a consolidation freeze: they are part of the NodePool's budgets, which Karpenter evaluates by its own
// clock.
func (s *State) begin(g *Group, now time.Time) {
	at := statemachine.Stamp(now)
	if s.group == nil {
		*s = State{memory: memory{At: at, KnownSince: at}}
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
// NodePools that are no longer part of the group. Their overrides are in their records, see Orphan.
func (s *State) adapt(g *Group) {
	old := *s
	s.group, s.Pools, s.Limits = g, poolStates{}, [nodepool.MaxLimits]string{}
	s.Limits[0] = g.Resource
	copy(s.Limits[:], g.limits)
	for i := range min(len(g.Pools), nodepool.MaxPools) {
		if old.group == nil {
			break
		}
		j := slices.IndexFunc(old.group.Pools, func(p Pool) bool { return p.Name == g.Pools[i].Name })
		if j < 0 || j >= nodepool.MaxPools {
			continue
		}
		if old.Pools[j].newer != nil {
			continue // the record is parsed again for the new indexes of the limits
		}
		s.Pools[i] = old.Pools[j]
		for k := range nodepool.MaxLimits {
			s.Pools[i].Overrides[int(nodepool.FieldLimit)+k] = override{}
		}
		for k := range nodepool.MaxLimits {
			o := old.Pools[j].Overrides[int(nodepool.FieldLimit)+k]
			if !o.remembered() {
				continue
			}
			if f, ok := s.limit(old.Limits[k]); ok {
				s.Pools[i].Overrides[f] = o
			}
		}
		s.Pools[i].Stale = true
	}
}

// encodeRecords marks the records of all NodePools as changed, so that this tick encodes them again.
func (s *State) encodeRecords() {
	s.Revision++
	for i := range s.Pools {
		s.Pools[i].Stale = true
	}
}

// resource returns the resource of a limit, and "" for every other field.
func (s *State) resource(f nodepool.Field) string {
	if f < nodepool.FieldLimit || f >= nodepool.NumFields {
		return ""
	}
	return s.Limits[f-nodepool.FieldLimit]
}

// limit returns the field for the limit of a resource. If the resource has none yet, limit assigns an unused field to it. ok is false if
// all MaxLimits fields are in use.
func (s *State) limit(resource string) (f nodepool.Field, ok bool) {
	for i := range s.Limits {
		switch s.Limits[i] {
		case "":
			s.Limits[i] = resource
			return nodepool.FieldLimit + nodepool.Field(i), true
		case resource:
			return nodepool.FieldLimit + nodepool.Field(i), true
		}
	}
	return 0, false
}

// fieldAt returns the field at a JSON pointer. ok is false if there is none.
func (s *State) fieldAt(pointer string) (f nodepool.Field, ok bool) {
	f, resource, ok := nodepool.FieldAt(pointer)
	if !ok || f < nodepool.FieldLimit {
		return f, ok
	}
	return s.limit(resource)
}
