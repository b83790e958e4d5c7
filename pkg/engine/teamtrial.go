package engine

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/teams"
)

// onTrial reports whether the trial of the member continues (see setTrial). The trial requires that the member has at most one replica and
// that its last target was at most 1.
func (m *teamMember) onTrial(in *teams.Member) bool {
	return m.trial && in.Running <= 1 && in.Granted <= 1
}

// setTrial updates the field trial after the team's limits were divided among its members. A trial begins when a member receives its first
// replica although its request per replica (a number of GPUs, for example) is unknown. The trial ends when the request is known and the
// replica fits within the limits, or when the replica is removed.
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

// forget discards the last known requests per replica if the scale target was replaced by an object without replicas. If these requests are
// too large for the new object, it would never receive a first replica.
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
