package main

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
)

// The invariants. The first five are checked after each action. The remaining invariants are checked after a time without faults.
const (
	oneLeader      = "at most one replica leads with a valid Lease"
	leaderWrites   = "a request that the API server receives at once is from the holder of a valid Lease"
	newestWritten  = "a write is based on a version that contains the owner's last edit"
	consentGiven   = "gpuscaler changes only the limit and its own annotations, and only while the owner lets it write the limit"
	recoverable    = "the limit is the owner's, or the record contains the owner's limit"
	editsStay      = "the leader does not change a limit to which the owner gave a new value during an override for ten minutes"
	demandServed   = "three minutes after the last fault, no limit of gpuscaler blocks a pod that waits"
	restored       = "three minutes after the last fault, a NodePool without a group or with the consent restore has only its owner's limit"
	overridesAgain = "35 minutes after the last fault, a group without demand has the limit 0, unless its owner edited the limit three times"
	quiet          = "35 minutes after the last fault, no more writes are sent"
)

// violation is an invariant that does not hold, with a text that describes the state.
type violation struct{ invariant, text string }

func (v *violation) Error() string { return v.invariant + ": " + v.text }

func violated(invariant, format string, args ...any) error {
	return &violation{invariant, fmt.Sprintf(format, args...)}
}

const consentLimits = nodepool.ConsentLimits

// consentIndex returns the index in consents of the NodePool's consent annotation.
func (m *model) consentIndex(v version) int {
	for i, text := range consents {
		if c, _ := nodepool.ConsentOf(text); m.facts(v).consent == c {
			return i
		}
	}
	panic("unknown consent")
}

// check returns an error if a state violates an invariant.
func (m *model) check(s *state) error {
	if s.replicas[0].leading() && s.replicas[1].leading() {
		return violated(oneLeader, "both do")
	}
	if !s.live.exists() {
		return nil
	}
	if f := m.facts(s.live); !s.owner.has(f.limit) && (!f.on || !s.owner.has(f.original)) {
		return violated(recoverable, "the limit is %s, the owner's limit is %s, and the record is %s", text(f.limit), limits[s.owner.limit],
			text(f.record))
	}
	return nil
}

func text(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}

// checkWrite checks the invariants of a write that the API server has executed. The parameter before is the version before the write.
func (m *model) checkWrite(s *state, sender int8, w *write, before version) error {
	if !w.old && (s.holder != sender || s.leaseAge >= expiredAge) {
		return violated(leaderWrites, "the holder is %d", s.holder)
	}
	if s.live == before {
		return nil
	}
	base := w.base.serial
	for _, in := range w.inputs {
		if in.version.exists() {
			base = in.version.serial
		}
	}
	if base < s.owner.edit {
		return violated(newestWritten, "the write is based on an older version")
	}
	was, is := m.facts(before), m.facts(s.live)
	if was.rest != is.rest || was.consent&consentLimits == 0 {
		return violated(consentGiven, "the consent is %q", was.consent)
	}
	if was.limit != is.limit && s.owner.waits > 0 {
		return violated(editsStay, "the limit changes from %s to %s, %d s after the owner's edit", text(was.limit), text(is.limit),
			10*(editWait-int(s.owner.waits)))
	}
	return nil
}

// overridden reports whether a leader has observed its override of the limit on the NodePool, and each replica has loaded the files with
// the group. If so, an edit of the owner is certainly an edit during an override.
func (m *model) overridden(s *state) bool {
	for i := range s.replicas {
		r := &s.replicas[i]
		if other := &s.replicas[1-i]; other.up && !other.seesPolicy || !r.seesPolicy {
			continue
		}
		if !r.leading() || r.cached != s.live || len(r.writes) > 0 {
			continue
		}
		if o := m.override(r); o.InForce() && o.Seen {
			return true
		}
	}
	return false
}

// override returns the override of the limit that a replica has stored in its memory, or an empty override.
func (m *model) override(r *replica) *override.Override {
	if r.memory == 0 {
		return &override.Override{}
	}
	state := m.memories.at(r.memory).state
	return &state.Pools[0].Overrides[nodepool.FieldLimit]
}
