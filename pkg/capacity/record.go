package capacity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

const (
	// recordVersion is the version of the record's format. It increases when an older controller would misinterpret the new format. An
	// older controller then restores the fields of stableRecord and overrides no field of the NodePool.
	recordVersion = 1
	// maxRecord is the maximum length of a record that is read. The API server allows annotations of up to 256 KiB in total. A record
	// usually has a few hundred bytes.
	maxRecord = 64 << 10
	// maxStampAge is the maximum age of a time in a record. Older times are set to this age. No rule needs older times.
	maxStampAge = 30 * 24 * time.Hour
	// maxOriginal is the length of the longest value that is saved. A field with a longer value is not overridden.
	maxOriginal = 8 << 10
)

// record is the content of the annotation with which gpuscaler stores overrides on a NodePool. A new leader needs it to continue the
// previous leader's decisions and to restore the owner's values. Its fields have the same types as those of State.
type record struct {
	Version  int                     `json:"v"`
	Group    string                  `json:"group"`
	Resource string                  `json:"resource"`
	Revision uint32                  `json:"revision,omitempty"`
	Spot     *statemachine.SpotState `json:"spot,omitempty"`
	Freeze   *statemachine.Freeze    `json:"freeze,omitempty"`
	Fields   []recordField           `json:"fields"`
}

// recordField is the override of one field.
type recordField struct {
	Path string `json:"path"` // a JSON pointer
	override
}

// encode returns the record of one NodePool as JSON. It returns "" if no field is overridden and no edit of another manager is
// remembered.
func (s *State) encode(pool int) string {
	p := &s.Pools[pool]
	r := record{Version: recordVersion, Group: s.group.Name, Resource: s.group.Resource, Revision: s.Revision}
	for f := range nodepool.NumFields {
		if o := p.Overrides[f].persistent(); o.remembered() {
			r.Fields = append(r.Fields, recordField{f.Path(s.resource(f)).Pointer(), o})
		}
	}
	if len(r.Fields) == 0 {
		return ""
	}
	if s.Spot != (statemachine.SpotState{}) {
		r.Spot = &s.Spot
	}
	if h := p.Freeze.Persistent(); h != (statemachine.Freeze{}) {
		r.Freeze = &h
	}
	text, err := json.Marshal(&r)
	if err != nil {
		return "" // not possible: a struct of strings and numbers can always be encoded
	}
	return string(text)
}

// persistent returns the part of an override that is stored in the record. The other fields change with every write and are not needed
// after a crash.
func (o override) persistent() override {
	o.Releasing, o.Seen, o.Before, o.At = false, false, "", 0
	return o
}

// parseRecord parses a record. ok is false if the text cannot be a record of this version.
func parseRecord(text string) (r record, ok bool) {
	if len(text) > maxRecord {
		return r, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil || d.More() || r.Version != recordVersion || len(r.Fields) > int(nodepool.NumFields) {
		return r, false
	}
	if s := r.Spot; s != nil && (s.Phase > statemachine.Returning || s.Level > statemachine.MaxLevel || s.Limit < 0 ||
		s.Limit > nodepool.MaxUnits) {
		return r, false
	}
	return r, true
}

// load reads the given fields of a record into the state. It returns false if the record is not completely valid. It also reads the phase
// of the group, unless a record of another NodePool has a higher revision. The records of a group can differ if gpuscaler crashed between
// two writes.
func (s *State) load(pool int, text string, fields nodepool.FieldSet) bool {
	if text == "" {
		return true
	}
	if s.Pools[pool].newer != nil {
		return false // see adoptNewer
	}
	r, ok := parseRecord(text)
	if !ok {
		return false
	}
	p := &s.Pools[pool]
	for i := range r.Fields {
		saved := r.Fields[i].override.persistent()
		f, known := s.fieldAt(r.Fields[i].Path)
		if !known || len(saved.Original) > maxOriginal || saved.Overwrites > maxOverwrites {
			ok = false
			continue
		}
		if fields&(1<<f) == 0 {
			continue
		}
		saved.Rule, saved.Before = min(saved.Rule, explain.NumRules-1), saved.Original
		saved.Since, saved.Yielded, saved.Retry = s.clip(saved.Since), s.clip(saved.Yielded), s.clip(saved.Retry)
		saved.At = saved.Since
		p.Overrides[f] = saved
	}
	if r.Freeze != nil {
		p.Freeze = statemachine.Freeze{Start: s.clip(r.Freeze.Start), Empty: s.clip(r.Freeze.Empty), InUse: s.clip(r.Freeze.InUse)}
	}
	if r.Group != s.group.Name || r.Revision < s.Revision {
		return ok
	}
	s.Revision = r.Revision
	if r.Spot != nil {
		s.Spot = *r.Spot
		s.Spot.Since, s.Spot.Until, s.Spot.Moved = s.clip(s.Spot.Since), s.clip(s.Spot.Until), s.clip(s.Spot.Moved)
	}
	return ok
}

// clip limits a time in Unix milliseconds to a range around the current time. Without this, a record that was written with a wrong clock
// could extend a freeze or a wait by years.
func (s *State) clip(at int64) int64 {
	if at == 0 {
		return 0
	}
	return max(s.At-maxStampAge.Milliseconds(), min(at, s.At+longYield.Milliseconds()))
}

// snapshot is the JSON form of a state.
type snapshot struct {
	Version int     `json:"v"`
	State   *memory `json:"state"`
}

// Snapshot returns the state without its group as JSON. A recording starts with it, so that a replay can repeat the decisions.
func (s *State) Snapshot() (json.RawMessage, error) {
	return json.Marshal(snapshot{recordVersion, &s.memory})
}

// DecodeState returns the state of a snapshot, for the group that it belongs to.
func DecodeState(g *Group, text json.RawMessage) (State, error) {
	s := State{group: g}
	content := snapshot{State: &s.memory}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&content); err != nil {
		return State{}, fmt.Errorf("state of a capacity group: %w", err)
	}
	if content.Version != recordVersion || content.State == nil {
		return State{}, fmt.Errorf("state of a capacity group: version %d, allowed: %d", content.Version, recordVersion)
	}
	return s, nil
}

// Orphan returns a group that consists of one NodePool, for a NodePool with a record that is not part of any group any more. text is the
// record. Release with this group and a zero State restores the values in the record. ok is false if the record cannot be read. The only
// known overrides are then the fields that gpuscaler's field manager owns.
func Orphan(pool, text string) (g *Group, ok bool) {
	r, ok := parseStable(text)
	if !ok || r.Resource == "" {
		return nil, false
	}
	g, err := NewGroup(Group{Name: r.Group, Resource: r.Resource, Pools: []Pool{{Name: pool}}})
	return g, err == nil
}
