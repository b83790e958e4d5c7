package override

import (
	"encoding/json"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// This file reads record annotations that a newer version of gpuscaler wrote, and that are on NodePools after a rollback. A version of
// gpuscaler that does not understand a record completely must not lose the owner's values in the record. It therefore overrides no field
// of the NodePool and restores the fields whose entries it understands. It keeps the record while the record has an entry that it does
// not understand. After that, it writes a record of its own version, which contains only the times until which fields are not overridden
// after edits of other managers.

// stableRecord is the part of a record that has the same meaning in every version of gpuscaler. A newer version may add keys and entries
// with other paths. A version that changes the meaning of a key of stableRecord must store its overrides in a list with another name. For
// an older version, Fields is then nil, and the older version changes nothing.
type stableRecord struct {
	Version  int           `json:"v"`
	Group    string        `json:"group"`
	Resource string        `json:"resource"`
	Fields   []stableField `json:"fields"`
}

type stableField struct {
	Path     string         `json:"path"`
	On       bool           `json:"on"`
	To       nodepool.Value `json:"value"`
	Original nodepool.Value `json:"original"`
	Owner    string         `json:"owner"`

	Overwrites lenientInt `json:"overwrites"`
	Yielded    lenientInt `json:"yielded"`
	Retry      lenientInt `json:"retry"`
}

// lenientInt is a number in a newer record that is not necessary to restore the owner's values. If the JSON value has another type, it is
// read as 0, so that the other keys can be read.
type lenientInt int64

// UnmarshalJSON never returns an error.
func (n *lenientInt) UnmarshalJSON(b []byte) error {
	var v int64
	if json.Unmarshal(b, &v) == nil {
		*n = lenientInt(v)
	}
	return nil
}

// wait returns the edits that a newer record contains for a field: the number of counted edits by other managers, and the time until which
// the field is not overridden after the last edit. The result contains no override. It is the zero value if these edits need not be stored
// any longer (see forgotten).
func (fs *Fields) wait(saved *stableField) Override {
	o := Override{Overwrites: uint8(min(max(saved.Overwrites, 0), maxOverwrites)), Yielded: fs.clip(int64(saved.Yielded)),
		Retry: fs.clip(int64(saved.Retry))}
	if o.forgotten(fs.At) {
		return Override{}
	}
	return o
}

// newerRecord is a record that this version does not understand completely. The record has a higher version, an unknown key, a value
// outside the known range, or an override of an unknown field. A newerRecord does not change after newNewerRecord.
type newerRecord struct {
	version int
	unknown string // path of the first overridden field that this version cannot restore; "": none
	fields  [nodepool.NumFields]stableField
}

// parseStable parses the part of a record that every version understands. ok is false if the text is not a record of any version.
func parseStable(text string) (r stableRecord, ok bool) {
	if text == "" || len(text) > maxRecord || json.Unmarshal([]byte(text), &r) != nil {
		return r, false
	}
	return r, r.Version > 0
}

// GroupOf returns the name of the group in a record of any version, and the group's resource. It returns "" if the text is not a record.
func GroupOf(text string) (name, resource string) {
	r, ok := parseStable(text)
	if !ok {
		return "", ""
	}
	return r.Group, r.Resource
}

// newNewerRecord parses a record of a newer version. It returns nil if this version understands the record completely, or if the text is
// not a record of any version.
func newNewerRecord(text string, limits *Limits) *newerRecord {
	r, ok := parseStable(text)
	if !ok {
		return nil
	}
	n := &newerRecord{version: r.Version}
	if r.Fields == nil {
		n.unknown = "fields"
	}
	for _, saved := range r.Fields {
		f, known := limits.FieldAt(saved.Path)
		switch {
		case !saved.On && (!known || n.fields[f] != stableField{}):
		case known && !n.fields[f].On && (!saved.On || len(saved.Original) <= maxOriginal):
			n.fields[f] = saved
		case n.unknown == "":
			n.unknown = saved.Path
		}
	}
	if _, understood := parseRecord(text); understood && n.unknown == "" {
		return nil
	}
	return n
}

// examineRecord looks for a newer version's record on a NodePool. It parses the record only if the record has changed and was not written
// by this process. When a newer record appears or is removed, the state of the NodePool is reset.
func (fs *Fields) examineRecord(pool int) {
	p, text := &fs.State.Pools[pool], fs.Views[pool].Record
	if p.examined == text || p.newer == nil && p.Written == text {
		return
	}
	newer := newNewerRecord(text, &fs.State.Limits)
	switch {
	case newer == nil && p.newer != nil:
		*p = Pool{UID: p.UID, Overrides: p.waits()}
	case newer != nil && p.Record != text: // if the state already contains this record, a snapshot restored the state, which is kept
		*p = Pool{UID: p.UID, Record: text, Overrides: p.waits()}
	}
	p.examined, p.newer = text, newer
}

// waits returns, for each field, the number of counted edits and the time until which the field is not overridden. It omits the
// overrides.
func (p *Pool) waits() (out [nodepool.NumFields]Override) {
	for f := range p.Overrides {
		out[f] = p.Overrides[f].yield()
	}
	return out
}

// adoptNewer reads the overrides of a newer record, so that they are restored. It skips a field that gpuscaler does not own, because such
// a field already has its owner's value. It also skips a field whose value is neither the override nor the original value in the record.
func (fs *Fields) adoptNewer(pool int) {
	p := &fs.State.Pools[pool]
	for f := range nodepool.NumFields {
		saved, o, view := &p.newer.fields[f], &p.Overrides[f], fs.view(pool, f)
		if *o == (Override{}) {
			*o = fs.wait(saved)
		}
		restored := view.Value.Same(saved.Original) // the owner's value is already restored, but gpuscaler still owns the field
		if saved.On && !o.On && view.Ours && (restored || view.Value.Same(saved.To)) {
			*o = Override{On: true, Seen: true, Releasing: restored, To: saved.To, Before: view.Value, Original: saved.Original, Owner: saved.Owner,
				Rule: explain.RuleRelease, Since: fs.At, Overwrites: o.Overwrites, Yielded: o.Yielded, Retry: o.Retry}
		}
	}
	fs.Report.Find(explain.Finding{Kind: explain.FindNewerRecord, Pool: int8(pool), Count: p.newer.version, Name: p.newer.unknown})
}

// writeNewer completes a patch that restores fields of a NodePool with a newer record, and reports whether the patch must be written.
// When no override is left, the patch removes the record. If a field must not be overridden for a time after an edit, the patch replaces
// the record by a record of this version instead.
func (fs *Fields) writeNewer(pool int, patch *Patch) (due bool) {
	p := &fs.State.Pools[pool]
	if fs.Views[pool].Consent&nodepool.ConsentAny == 0 {
		return false
	}
	patch.Record, patch.KeepsRecord = p.examined, true
	if len(patch.Changes) == 0 {
		if fs.hasOverride(pool) || !fs.repeatDue(p.WrittenAt) {
			return false
		}
		patch.Record, patch.KeepsRecord, p.WrittenAt = fs.encode(pool), false, fs.At
	}
	return true
}

// hasOverride reports whether an override is left on a NodePool with a newer record: a field that gpuscaler owns, or a field that this
// version cannot restore.
func (fs *Fields) hasOverride(pool int) bool {
	p := &fs.State.Pools[pool]
	for f := range nodepool.NumFields {
		if p.Overrides[f].On || fs.view(pool, f).Ours {
			return true
		}
	}
	return p.newer.unknown != "" || slices.ContainsFunc(fs.Views[pool].Limits, func(l nodepool.LimitView) bool { return l.Ours })
}
