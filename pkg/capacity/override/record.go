package override

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

const (
	// Version is the version of the record's format. It increases when an older controller would misinterpret the new format. An older
	// controller then only restores the fields of stableRecord, and overrides no field of the NodePool.
	Version = 1
	// maxRecord is the maximum length of a record that is read. The API server allows annotations of up to 256 KiB in total. A record
	// usually has a few hundred bytes.
	maxRecord = 64 << 10
	// maxStampAge is the maximum age of a time in a record. An older time is replaced by a time of this age. No rule needs older times.
	maxStampAge = 30 * 24 * time.Hour
	// maxOriginal is the length of the longest value that is saved. A field with a longer value is not overridden.
	maxOriginal = 8 << 10
)

// record is the content of the annotation in which gpuscaler stores overrides on a NodePool. A new leader needs it to continue the
// previous leader's decisions and to restore the owner's values. Its fields have the same types as the fields of State.
type record struct {
	Version  int                     `json:"v"`
	Group    string                  `json:"group"`
	Resource string                  `json:"resource"`
	Revision uint32                  `json:"revision,omitempty"`
	Spot     *statemachine.SpotState `json:"spot,omitempty"`
	Freeze   *statemachine.Freeze    `json:"freeze,omitempty"`
	Fields   []recordField           `json:"fields"`
}

// recordField is the override of one field of a NodePool.
type recordField struct {
	Path string `json:"path"` // a JSON pointer
	Override
}

// encode returns the record of one NodePool as JSON, or "" if the record would contain no field.
func (fs *Fields) encode(pool int) string {
	s := fs.State
	p := &s.Pools[pool]
	r := record{Version: Version, Group: fs.Name, Resource: fs.Resource, Revision: s.Revision}
	for f := range nodepool.NumFields {
		if o := p.Overrides[f].persistent(); o.remembered() {
			r.Fields = append(r.Fields, recordField{f.Path(s.Limits.Resource(f)).Pointer(), o})
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
		return "" // cannot occur, because a struct of strings and numbers can always be encoded
	}
	return string(text)
}

// persistent returns the part of an override that the record contains. The omitted fields change with every write and are not needed
// after a crash.
func (o Override) persistent() Override {
	o.Releasing, o.Seen, o.Before, o.At = false, false, "", 0
	return o
}

// parseRecord parses the record annotation. ok is false if the text cannot be a record of this version.
func parseRecord(text string) (r record, ok bool) {
	if len(text) > maxRecord {
		return r, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil || d.More() || r.Version != Version || len(r.Fields) > int(nodepool.NumFields) {
		return r, false
	}
	if s := r.Spot; s != nil && (s.Phase > statemachine.Returning || s.Level > statemachine.MaxLevel || s.Limit < 0 ||
		s.Limit > nodepool.MaxUnits) {
		return r, false
	}
	return r, true
}

// load reads the given fields of a record into the state. It returns false if the record is not completely valid. It also reads the phase
// of the group, unless a record of another NodePool has a higher revision. The records of the NodePools can differ if gpuscaler crashed
// between the writes to two NodePools.
func (fs *Fields) load(pool int, text string, fields nodepool.FieldSet) bool {
	s := fs.State
	if text == "" {
		return true
	}
	if s.Pools[pool].newer != nil {
		return false // adoptNewer reads such a record
	}
	r, ok := parseRecord(text)
	if !ok {
		return false
	}
	p := &s.Pools[pool]
	for i := range r.Fields {
		saved := r.Fields[i].Override.persistent()
		f, known := s.Limits.FieldAt(r.Fields[i].Path)
		if !known || len(saved.Original) > maxOriginal || saved.Overwrites > maxOverwrites {
			ok = false
			continue
		}
		if fields&(1<<f) == 0 {
			continue
		}
		saved.Rule, saved.Before = min(saved.Rule, explain.NumRules-1), saved.Original
		saved.Since, saved.Yielded, saved.Retry = fs.clip(saved.Since), fs.clip(saved.Yielded), fs.clip(saved.Retry)
		saved.At = saved.Since
		p.Overrides[f] = saved
	}
	if r.Freeze != nil {
		p.Freeze = statemachine.Freeze{Start: fs.clip(r.Freeze.Start), Empty: fs.clip(r.Freeze.Empty), InUse: fs.clip(r.Freeze.InUse)}
	}
	if r.Group != fs.Name || r.Revision < s.Revision {
		return ok
	}
	s.Revision = r.Revision
	if r.Spot != nil {
		s.Spot = *r.Spot
		s.Spot.Since, s.Spot.Until, s.Spot.Moved = fs.clip(s.Spot.Since), fs.clip(s.Spot.Until), fs.clip(s.Spot.Moved)
	}
	return ok
}

// clip limits a time in Unix milliseconds to a range around the current time. Without this limit, a record from a process with a wrong
// clock could delay the end of a freeze, or the next override, by years.
func (fs *Fields) clip(at int64) int64 {
	if at == 0 {
		return 0
	}
	return max(fs.At-maxStampAge.Milliseconds(), min(at, fs.At+longYield.Milliseconds()))
}
