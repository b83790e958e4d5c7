package capacity

import (
	"encoding/json"
	"strings"
	"time"
)

const (
	// recordVersion is raised when an older controller would misread a record.
	recordVersion = 1
	// maxRecord bounds what is read: an annotation of 256 KiB is the API server's own bound, and a record of ours is a few hundred bytes.
	maxRecord = 64 << 10
	// remembered is the oldest that a stamp may be; nothing here looks further back.
	remembered = 30 * 24 * time.Hour
	// maxOriginal is the longest value that is saved; a longer one is not nudged.
	maxOriginal = 8 << 10
)

// record is what stands in a NodePool's annotation: what a new leader needs to go on and, if it does not, to put back.
type record struct {
	Version  int           `json:"v"`
	Group    string        `json:"group"`
	Resource string        `json:"resource"`
	Revision uint32        `json:"revision,omitempty"`
	Spot     *recordSpot   `json:"spot,omitempty"`
	Hold     []int64       `json:"hold,omitempty"` // start, empty, under
	Fields   []recordField `json:"fields"`
}

type recordSpot struct {
	Phase Phase `json:"phase"`
	Level uint8 `json:"level,omitempty"`
	Cause Cause `json:"cause,omitempty"`
	Since int64 `json:"since,omitempty"`
	Until int64 `json:"until,omitempty"`
	Limit int64 `json:"limit,omitempty"`
	Moved int64 `json:"moved,omitempty"`
	Count int32 `json:"count,omitempty"`
	Of    int32 `json:"of,omitempty"`
}

type recordField struct {
	Path       string `json:"path"` // a JSON pointer
	Original   Value  `json:"original,omitempty"`
	Owner      string `json:"owner,omitempty"`
	Value      Value  `json:"value,omitempty"`
	Rule       Rule   `json:"rule,omitempty"`
	Since      int64  `json:"since,omitempty"`
	Overwrites uint8  `json:"overwrites,omitempty"`
	Yielded    int64  `json:"yielded,omitempty"`
	Retry      int64  `json:"retry,omitempty"`
	Released   bool   `json:"released,omitempty"` // not ours any more: only its edits by others are remembered
}

// encode renders what is remembered of one NodePool; "" where nothing is held and nobody's edit is remembered.
func (s *State) encode(pool int) string {
	p := &s.pools[pool]
	r := record{Version: recordVersion, Group: s.group.Name, Resource: s.group.Resource, Revision: s.revision}
	for f := range numFields {
		n := &p.nudges[f]
		if !n.on && n.overwrites == 0 {
			continue
		}
		r.Fields = append(r.Fields, recordField{Path: f.Path(s.resource(f)).Pointer(), Original: n.original, Owner: n.owner, Value: n.to, Rule: n.rule,
			Since: n.since, Overwrites: n.overwrites, Yielded: n.yielded, Retry: n.retry, Released: !n.on})
	}
	if len(r.Fields) == 0 {
		return ""
	}
	if s.spot != (spotState{}) {
		r.Spot = &recordSpot{s.spot.phase, s.spot.level, s.spot.cause, s.spot.since, s.spot.until, s.spot.limit, s.spot.moved, s.spot.count, s.spot.of}
	}
	if p.hold != (hold{}) {
		r.Hold = []int64{p.hold.start, p.hold.empty, p.hold.under}
	}
	text, err := json.Marshal(&r)
	if err != nil {
		return "" // a struct of strings and numbers always marshals
	}
	return string(text)
}

// parse reads a record; ok is false for one that no version of ours would write.
func parse(text string) (r record, ok bool) {
	if len(text) > maxRecord {
		return r, false
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&r) != nil || d.More() || r.Version != recordVersion || len(r.Fields) > int(numFields) || len(r.Hold) != 0 && len(r.Hold) != 3 {
		return r, false
	}
	if s := r.Spot; s != nil && (s.Phase > Returning || s.Level > maxLevel || s.Limit < 0 || s.Limit > maxUnits) {
		return r, false
	}
	return r, true
}

// load takes up what a record says of some fields. The part that is the group's own comes from the newest record of its NodePools: a crash between two
// writes leaves them different.
func (s *State) load(pool int, text string, fields fieldSet) bool {
	if text == "" {
		return true
	}
	r, ok := parse(text)
	if !ok {
		return false
	}
	p := &s.pools[pool]
	for i := range r.Fields {
		n := &r.Fields[i]
		f, known := s.fieldAt(n.Path)
		if !known || len(n.Original) > maxOriginal || n.Overwrites > maxOverwrites {
			ok = false
			continue
		}
		if fields&(1<<f) == 0 {
			continue
		}
		p.nudges[f] = nudge{on: !n.Released, to: n.Value, before: n.Original, original: n.Original, owner: n.Owner,
			rule: min(n.Rule, numRules-1), at: s.clip(n.Since), since: s.clip(n.Since), overwrites: n.Overwrites, yielded: s.clip(n.Yielded), retry: s.clip(n.Retry)}
	}
	if len(r.Hold) == 3 {
		p.hold = hold{s.clip(r.Hold[0]), s.clip(r.Hold[1]), s.clip(r.Hold[2])}
	}
	if r.Group != s.group.Name || r.Revision < s.revision {
		return ok
	}
	s.revision = r.Revision
	if r.Spot != nil {
		s.spot = spotState{r.Spot.Phase, r.Spot.Level, r.Spot.Cause, s.clip(r.Spot.Since), s.clip(r.Spot.Until), r.Spot.Limit, s.clip(r.Spot.Moved), r.Spot.Count, r.Spot.Of}
	}
	return ok
}

// clip keeps a stamp near the present: a record from another clock must not make a hold or a back-off last for years.
func (s *State) clip(at int64) int64 {
	if at == 0 {
		return 0
	}
	return max(s.at-remembered.Milliseconds(), min(at, s.at+backOff.Milliseconds()))
}

// Orphan makes a group of one NodePool from its record alone, for one that no group names any more: a zero State that is Released
// with it puts back what the record says. ok is false where the record cannot be read; then the fields that our manager owns are
// all that is known.
func Orphan(pool, text string) (g *Group, ok bool) {
	r, ok := parse(text)
	if !ok || r.Resource == "" {
		return nil, false
	}
	g, err := NewGroup(Group{Name: r.Group, Resource: r.Resource, Pools: []Pool{{Name: pool}}})
	return g, err == nil
}
