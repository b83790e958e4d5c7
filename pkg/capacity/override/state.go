package override

import (
	"encoding/json"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// State contains the overrides of a group between two ticks. It also contains the phase of the group (spot or on-demand), because the
// record annotations contain this phase too. State is a plain value of fixed size. Times are in Unix milliseconds, and 0 means that the
// time is not set.
type State struct {
	Limits Limits                 `json:"limits"`
	Pools  Pools                  `json:"pools"`
	Spot   statemachine.SpotState `json:"spot"`
	// revision of Spot: the record with the greater revision is the newer record
	Revision uint32 `json:"revision"`
}

// Pools are the states of the NodePools of a group.
type Pools [nodepool.MaxPools]Pool

// minSavedPools is the minimum number of NodePools in the JSON form of Pools.
const minSavedPools = 4

// MarshalJSON omits the unused states after the last NodePool of the group, but always writes the first minSavedPools states. A recording
// of a group with few NodePools therefore does not contain many empty states.
func (p *Pools) MarshalJSON() ([]byte, error) {
	n := nodepool.MaxPools
	for n > minSavedPools && p[n-1] == (Pool{}) {
		n--
	}
	return json.Marshal(p[:n])
}

// Pool is the state of one NodePool between two ticks.
type Pool struct {
	UID       string                       `json:"uid,omitempty"` // UID of the NodePool that has the overrides
	Adopted   bool                         `json:"adopted"`       // the record on the NodePool was read
	Stale     bool                         `json:"stale"`         // the record must be encoded again
	Record    string                       `json:"record"`
	Written   string                       `json:"written"` // the record that this process last wrote; WrittenAt is the time of that write
	WrittenAt int64                        `json:"writtenAt"`
	Overrides [nodepool.NumFields]Override `json:"overrides"`
	Freeze    statemachine.Freeze          `json:"freeze"`

	examined string       // the record that examineRecord has parsed
	newer    *newerRecord // the newer version's record on the NodePool; nil: none
	frozen   struct {     // the budgets with the entries of a freeze, cached because computing them is expensive
		of         statemachine.Freeze
		list, with nodepool.Value
	}
}

// WithFreeze returns a list of budgets with the entries of the freeze. ok is false if the list cannot be parsed or is full.
func (p *Pool) WithFreeze(list nodepool.Value) (with nodepool.Value, ok bool) {
	if p.frozen.of == p.Freeze.Persistent() && p.frozen.list == list && p.frozen.with != "" {
		return p.frozen.with, true
	}
	with, ok = p.Freeze.With(list)
	p.frozen.of, p.frozen.list, p.frozen.with = p.Freeze.Persistent(), list, with
	return with, ok
}

// Limits contains the resources of the limit fields: first the resources whose limits the group may set, then other resources with
// overrides in the records on the NodePools.
type Limits [nodepool.MaxLimits]string

// Resource returns the resource of a limit, and "" for every other field.
func (l *Limits) Resource(f nodepool.Field) string {
	if f < nodepool.FieldLimit || f >= nodepool.NumFields {
		return ""
	}
	return l[f-nodepool.FieldLimit]
}

// Field returns the field for the limit of a resource. If the resource has no field yet, Field assigns an unused field to the resource.
// ok is false if all MaxLimits fields are in use.
func (l *Limits) Field(resource string) (f nodepool.Field, ok bool) {
	for i := range l {
		switch l[i] {
		case "":
			l[i] = resource
			return nodepool.FieldLimit + nodepool.Field(i), true
		case resource:
			return nodepool.FieldLimit + nodepool.Field(i), true
		}
	}
	return 0, false
}

// FieldAt returns the field to which a JSON pointer refers. ok is false if it refers to no field.
func (l *Limits) FieldAt(pointer string) (f nodepool.Field, ok bool) {
	f, resource, ok := nodepool.FieldAt(pointer)
	if !ok || f < nodepool.FieldLimit {
		return f, ok
	}
	return l.Field(resource)
}

// Adapt changes the state to a new version of the group, in which NodePools and limits may have other indexes. was[i] is the previous
// index of NodePool i, or -1 for a new NodePool. The state of a removed NodePool is dropped, because its overrides are in its record
// annotation.
func (s *State) Adapt(limits []string, was []int) {
	old := *s
	s.Pools, s.Limits = Pools{}, Limits{}
	copy(s.Limits[:], limits)
	for i, j := range was {
		if j < 0 || old.Pools[j].newer != nil {
			continue // a newer record is parsed again for the new indexes of the limits
		}
		s.Pools[i] = old.Pools[j]
		for k := range nodepool.MaxLimits {
			s.Pools[i].Overrides[int(nodepool.FieldLimit)+k] = Override{}
		}
		for k := range nodepool.MaxLimits {
			o := old.Pools[j].Overrides[int(nodepool.FieldLimit)+k]
			if !o.remembered() {
				continue
			}
			if f, ok := s.Limits.Field(old.Limits[k]); ok {
				s.Pools[i].Overrides[f] = o
			}
		}
		s.Pools[i].Stale = true
	}
}

// MarkRecordsStale increments the revision and marks the records of all NodePools as outdated. The method Write encodes them again.
func (s *State) MarkRecordsStale() {
	s.Revision++
	for i := range s.Pools {
		s.Pools[i].Stale = true
	}
}

// ForgetEdits drops the counts of other managers' edits for the fields that are not overridden, and allows overrides of these fields at
// once.
func (s *State) ForgetEdits() {
	for i := range s.Pools {
		p := &s.Pools[i]
		for f := range p.Overrides {
			if o := &p.Overrides[f]; !o.On && o.remembered() {
				*o, p.Stale = Override{}, true
			}
		}
	}
}

// LimitsPending reports whether a limit of a NodePool is still overridden, or was restored but no observation contains the restore yet.
func (s *State) LimitsPending() bool {
	for i := range s.Pools {
		for f := nodepool.FieldLimit; f < nodepool.NumFields; f++ {
			if s.Pools[i].Overrides[f].On {
				return true
			}
		}
	}
	return false
}

// Stamps appends pointers to the times of the state, in Unix milliseconds, to the slice all, and returns the slice. If the clock was set
// back, the caller corrects these times. The times in the entries of a consolidation freeze are not included.
func (s *State) Stamps(all []*int64) []*int64 {
	all = append(all, &s.Spot.Since, &s.Spot.Until, &s.Spot.Moved)
	for i := range s.Pools {
		p := &s.Pools[i]
		all = append(all, &p.WrittenAt, &p.Freeze.Unused)
		for j := range p.Overrides {
			o := &p.Overrides[j]
			all = append(all, &o.At, &o.Since, &o.Retry, &o.Yielded)
		}
	}
	return all
}
