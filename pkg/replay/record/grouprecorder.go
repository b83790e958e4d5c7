package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// groupShadow is what was last written of a capacity group, and the brain's state beside the engine's own.
type groupShadow struct {
	state    capacity.State
	scratch  capacity.Decision
	group    *capacity.Group
	parts    map[string]json.RawMessage
	decision json.RawMessage // nil at the start of a segment: nothing was said yet
	told     bool            // in this tick
}

// GroupTick takes in a decision for nodes, for the line of the tick that is going on. It belongs into engine.Options.OnGroupTick. What
// cannot be written down is the error of the next Tick.
func (r *Recorder) GroupTick(t engine.GroupTick) {
	if err := r.group(&t); err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("recording capacity group %s: %w", groupKey(&t), err))
	}
}

func (r *Recorder) group(t *engine.GroupTick) error {
	key := groupKey(t)
	s := r.knownGroups[key]
	e := groupEntry{Key: key, Stray: t.Stray, Fresh: s == nil || t.Fresh}
	if e.Fresh {
		s = &groupShadow{parts: map[string]json.RawMessage{}}
		r.knownGroups[key] = s
	}
	s.told = true
	whole := s.decision == nil
	if whole && !e.Fresh {
		var err error
		if e.State, err = s.state.Snapshot(); err != nil {
			return err
		}
	}
	if whole {
		clear(s.parts)
	}
	if whole || s.group != t.Group {
		var err error
		if e.Group, err = r.tellGroup(t.Group); err != nil {
			return err
		}
	}
	if err := s.tell(t.Observation, &e); err != nil {
		return err
	}
	d, err := encodeGroup(t.Decision)
	if err != nil {
		return err
	}
	if !bytes.Equal(s.decision, d) {
		e.Decision = d
	}
	s.group, s.decision = t.Group, d
	decideGroup(&s.state, t.Stray, t.Group, t.Observation, t.At, &s.scratch)
	if e.Fresh || e.Group != 0 || e.Seen != nil || e.Decision != nil {
		r.groups = append(r.groups, e)
	}
	return nil
}

// tell puts the parts of an observation that are news into an entry.
func (s *groupShadow) tell(o *capacity.Observation, e *groupEntry) error {
	parts := make(map[string]json.RawMessage, len(s.parts)) // what lay beyond an end is forgotten, as by who reads
	err := seen(o, func(part string, text json.RawMessage) {
		if parts[part] = text; !bytes.Equal(s.parts[part], text) {
			if e.Seen == nil {
				e.Seen = map[string]json.RawMessage{}
			}
			e.Seen[part] = text
		}
	})
	s.parts = parts
	return err
}

// tellGroup writes a version of a group, once in a segment.
func (r *Recorder) tellGroup(g *capacity.Group) (int, error) {
	if id, told := r.groupIDs[g]; told {
		return id, nil
	}
	r.ids++
	r.groupIDs[g] = r.ids
	return r.ids, r.write(&line{Kind: kindGroup, Group: groupLineOf(r.ids, g)})
}

// endGroups puts what was taken in into a tick's line, and forgets the groups that were not decided.
func (r *Recorder) endGroups(out *line) error {
	out.Groups = r.groups
	for key, s := range r.knownGroups {
		if !s.told {
			delete(r.knownGroups, key)
			out.GroupsGone = append(out.GroupsGone, key)
		}
		s.told = false
	}
	slices.Sort(out.GroupsGone)
	r.groups = nil
	err := r.failed
	r.failed = nil
	return err
}
