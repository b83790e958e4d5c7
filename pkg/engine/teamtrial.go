package engine

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/teams"
)

// onTrial reports whether a trial of the member continues: it has no more than one replica, and its target was not above one.
func (m *teamMember) onTrial(in *teams.Member) bool {
	return m.trial && in.Running <= 1 && in.Granted <= 1
}

// setTrial updates the field trial after a division. A trial begins when a member without replicas and with an unknown amount receives its
// first one. It ends when the amount is known and the replica is within the limits, or when the replica is removed.
func (m *teamMember) setTrial(in *teams.Member, share *teams.Share) {
	if !m.evaluation.decided || m.workload.Mode != scaling.Auto {
		return
	}
	unknown := slices.ContainsFunc(m.amounts, func(a teams.Amount) bool { return !a.Known })
	switch none := in.Running == 0 && in.Granted == 0; {
	case none:
		m.trial = unknown && share.Max == 1
	case in.Running > 1 || in.Granted > 1 || !unknown && share.Max > 0:
		m.trial = false
	}
}

// forget discards the last known amounts if the scale target was replaced by one without replicas. They can be too large for the new
// object, which would then never receive a first replica.
func (m *teamMember) forget() {
	v := &m.evaluation.view
	if !m.evaluation.decided || v.UID == m.uid {
		return
	}
	if m.uid != "" && v.Replicas <= 0 {
		m.trial = false
		for r := range m.amounts {
			m.amounts[r].PerReplica = 0
		}
	}
	m.uid = v.UID
}
