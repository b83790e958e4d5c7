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

// groupShadow is the last recorded data of a capacity group, with a copy of its decision state.
type groupShadow struct {
	state    capacity.State
	scratch  capacity.Decision
	group    *capacity.Group
	parts    map[string]json.RawMessage
	decision json.RawMessage // the last recorded decision; nil at the start of a segment (file)
	recorded bool            // whether the group was recorded in this tick
}

// GroupTick records a decision of a capacity group for the line of the current tick. Set it as engine.Options.OnGroupTick. If it fails, the
// next call of Tick returns the error.
func (r *Recorder) GroupTick(t engine.GroupTick) {
	if err := r.group(&t); err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("recording capacity group %s: %w", groupKey(&t), err))
	}
}

func (r *Recorder) group(t *engine.GroupTick) error {
	key := groupKey(t)
	s := r.knownGroups[key]
	e := groupEntry{Key: key, Orphaned: t.Orphaned, Fresh: s == nil || t.Fresh}
	if e.Fresh {
		s = &groupShadow{parts: map[string]json.RawMessage{}}
		r.knownGroups[key] = s
	}
	s.recorded = true
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
		if e.Group, err = r.groupVersion(t.Group); err != nil {
			return err
		}
	}
	if err := s.add(t.Observation, &e); err != nil {
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
	decideGroup(&s.state, t, &s.scratch)
	if e.Fresh || e.Group != 0 || e.Seen != nil || e.Decision != nil {
		r.groups = append(r.groups, e)
	}
	return nil
}

// add copies the parts of an observation that changed since the last recorded tick into an entry.
func (s *groupShadow) add(o *capacity.Observation, e *groupEntry) error {
	parts := make(map[string]json.RawMessage, len(s.parts)) // a new map, without the parts that the observation no longer has
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

// groupVersion writes a version of a group once per segment (file), and returns its number.
func (r *Recorder) groupVersion(g *capacity.Group) (int, error) {
	if id, recorded := r.groupIDs[g]; recorded {
		return id, nil
	}
	r.ids++
	r.groupIDs[g] = r.ids
	return r.ids, r.write(&line{Kind: kindGroup, Group: groupLineOf(r.ids, g)})
}

// endGroups adds the recorded groups to the line of a tick, and deletes the data of groups that were not decided in this tick.
func (r *Recorder) endGroups(out *line) error {
	out.Groups = r.groups
	for key, s := range r.knownGroups {
		if !s.recorded {
			delete(r.knownGroups, key)
			out.GroupsGone = append(out.GroupsGone, key)
		}
		s.recorded = false
	}
	slices.Sort(out.GroupsGone)
	r.groups = nil
	err := r.failed
	r.failed = nil
	return err
}
