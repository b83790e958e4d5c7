package capacity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	// recordVersion increases when an older controller would misread a record.
	recordVersion = 1
	// maxRecord bounds what is read. The API server allows annotations of 256 KiB; a record has a few hundred bytes.
	maxRecord = 64 << 10
	// maxStampAge is the age of the oldest stamp that a record may have; no rule looks further back.
	maxStampAge = 30 * 24 * time.Hour
	// maxOriginal is the length of the longest value that is saved. A field with a longer value is not overridden.
	maxOriginal = 8 << 10
)

// record is the content of the annotation on a NodePool: what a new leader needs to continue, and to restore the owner's values.
// Its parts are the types of State.
type record struct {
	Version  int           `json:"v"`
	Group    string        `json:"group"`
	Resource string        `json:"resource"`
	Revision uint32        `json:"revision,omitempty"`
	Spot     *spotState    `json:"spot,omitempty"`
	Freeze   *freeze       `json:"freeze,omitempty"`
	Fields   []recordField `json:"fields"`
}

// recordField is the override of one field.
type recordField struct {
	Path string `json:"path"` // a JSON pointer
	override
}

// encode returns the record of one NodePool, and "" if no field is overridden and no edit of another manager is remembered.
func (s *State) encode(pool int) string {
	p := &s.Pools[pool]
	r := record{Version: recordVersion, Group: s.group.Name, Resource: s.group.Resource, Revision: s.Revision}
	for f := range numFields {
		if o := p.Overrides[f].persistent(); o.On || o.Overwrites > 0 {
			r.Fields = append(r.Fields, recordField{f.Path(s.resource(f)).Pointer(), o})
		}
	}
	if len(r.Fields) == 0 {
		return ""
	}
	if s.Spot != (spotState{}) {
		r.Spot = &s.Spot
	}
	if p.Freeze != (freeze{}) {
		r.Freeze = &p.Freeze
	}
	text, err := json.Marshal(&r)
	if err != nil {
		return "" // a struct of strings and numbers always marshals
	}
	return string(text)
}

// persistent returns the part of an override that survives a crash. The rest changes with every write, and would change the record.
func (o override) persistent() override {
	o.Releasing, o.Seen, o.Before, o.At = false, false, "", 0
	return o
}

// parseRecord reads a record. ok is false for a text that no version of gpuscaler writes.
func parseRecord(text string) (r record, ok bool) {
	if len(text) > maxRecord {
		return r, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil || d.More() || r.Version != recordVersion || len(r.Fields) > int(numFields) {
		return r, false
	}
	if s := r.Spot; s != nil && (s.Phase > Returning || s.Level > maxLevel || s.Limit < 0 || s.Limit > maxUnits) {
		return r, false
	}
	return r, true
}

// load reads some fields of a record into the state. The phase of the group is that of the newest record of its NodePools: a crash
// between two writes leaves them different. load returns false for a record that is not completely valid.
func (s *State) load(pool int, text string, fields fieldSet) bool {
	if text == "" {
		return true
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
		saved.Rule, saved.Before = min(saved.Rule, numRules-1), saved.Original
		saved.Since, saved.Yielded, saved.Retry = s.clip(saved.Since), s.clip(saved.Yielded), s.clip(saved.Retry)
		saved.At = saved.Since
		p.Overrides[f] = saved
	}
	if r.Freeze != nil {
		p.Freeze = freeze{s.clip(r.Freeze.Start), s.clip(r.Freeze.Empty), s.clip(r.Freeze.InUse)}
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

// clip keeps a stamp near the present, so that a record of a clock that was wrong does not extend a freeze or a wait by years.
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

// Orphan returns a group of one NodePool made from its record, for a NodePool that no group names any more. A zero State that is
// Released with this group restores what the record says. ok is false for a record that cannot be read; then only the fields that the
// field manager of gpuscaler owns are known.
func Orphan(pool, text string) (g *Group, ok bool) {
	r, ok := parseRecord(text)
	if !ok || r.Resource == "" {
		return nil, false
	}
	g, err := NewGroup(Group{Name: r.Group, Resource: r.Resource, Pools: []Pool{{Name: pool}}})
	return g, err == nil
}
