package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// replayedGroup is the recorded data of a capacity group up to the current line.
type replayedGroup struct {
	state       capacity.State
	group       *capacity.Group
	orphaned    bool
	observation capacity.Observation
	scratch     capacity.Decision
	decision    json.RawMessage
}

func (p *player) group(l *groupLine) error {
	if l == nil {
		return p.fault(errors.New("a group line without a group"))
	}
	g, err := l.compiled()
	if err != nil {
		return p.fault(err)
	}
	p.groups[l.ID] = g
	return nil
}

// groupTick recomputes the decisions of all known groups. It deletes the data of groups that were not decided in the tick.
func (p *player) groupTick(l *line) error {
	for i := range l.Groups {
		if err := p.learnGroup(&l.Groups[i]); err != nil {
			return p.fault(fmt.Errorf("capacity group %s: %w", l.Groups[i].Key, err))
		}
	}
	for _, key := range l.GroupsGone {
		delete(p.nodes, key)
	}
	for _, key := range slices.Sorted(maps.Keys(p.nodes)) {
		if err := p.decideGroup(key, p.nodes[key], l.At); err != nil {
			return err
		}
	}
	return nil
}

// learnGroup stores the recorded changes of a capacity group in the player.
func (p *player) learnGroup(e *groupEntry) error {
	g := p.nodes[e.Key]
	if g == nil || e.Fresh {
		if e.Group == 0 || e.Seen[partWhole] == nil || e.Decision == nil || !e.Fresh && e.State == nil {
			return errors.New("the first entry is incomplete")
		}
		g = &replayedGroup{}
		p.nodes[e.Key] = g
	}
	if g.orphaned = e.Orphaned; e.Group != 0 {
		if g.group = p.groups[e.Group]; g.group == nil {
			return fmt.Errorf("version %d is not in the recording", e.Group)
		}
	}
	if e.State != nil {
		state, err := capacity.DecodeState(g.group, e.State)
		if err != nil {
			return err
		}
		g.state = state
	}
	if text := e.Seen[partWhole]; text != nil {
		if err := size(&g.observation, text); err != nil {
			return err
		}
	}
	for part, text := range e.Seen {
		if part == partWhole {
			continue
		}
		if err := learn(&g.observation, part, text); err != nil {
			return err
		}
	}
	if e.Decision != nil {
		g.decision = e.Decision
	}
	if len(g.observation.Pools) > len(g.group.Pools) {
		return fmt.Errorf("%d NodePools observed, want %d", len(g.observation.Pools), len(g.group.Pools))
	}
	return nil
}

func (p *player) decideGroup(key string, g *replayedGroup, now time.Time) error {
	t := engine.GroupTick{At: now, Group: g.group, Orphaned: g.orphaned, Observation: &g.observation}
	decideGroup(&g.state, &t, &g.scratch)
	got, err := encodeGroup(&g.scratch)
	if err != nil {
		return p.fault(err)
	}
	p.out.Groups++
	p.out.enter(key, g.scratch.Phase)
	if !bytes.Equal(got, g.decision) {
		return &Difference{File: p.name, Line: p.line, At: now, Key: "capacity group " + key, Recorded: string(g.decision), Now: string(got)}
	}
	return nil
}
