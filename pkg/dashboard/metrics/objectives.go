package metrics

import (
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// safeReasons contains the values of the label reason of the metric objective_safe_policy: why the safe policy computes the target.
var safeReasons = map[objective.SafeReason]string{objective.TooLittleData: "too-little-load", objective.CapacityUnknown: "capacity-unknown",
	objective.EvidenceMissing: "evidence-missing", objective.FeedbackFails: "slo-missed"}

func sendLearnedCapacity(r *engine.Record, send func(float64, ...string)) {
	if l := r.Learned; l != nil && l.Capacity.P50 > 0 {
		send(l.Capacity.P50)
	}
}

func sendColdStart(r *engine.Record, send func(float64, ...string)) {
	if r.Learned == nil {
		return
	}
	all := func(d objective.Distribution, phase string) {
		if d.Count > 0 {
			send(d.P50, phase, "0.5")
			send(d.P90, phase, "0.9")
			send(d.P95, phase, "0.95")
		}
	}
	all(r.Learned.ColdStart, "total")
	all(r.Learned.Node, "node")
	for p, d := range r.Learned.Phase {
		all(d, objective.Phase(p).String())
	}
}

// sendAttained sends the share of the work that met the SLO. For a workload that had no load, it sends nothing: the share would be 1, which
// a user would interpret as an attained SLO.
func sendAttained(r *engine.Record, send func(float64, ...string)) {
	if r.Learned != nil && r.Learned.Observed > 0 {
		send(r.Learned.Attained)
	}
}

func sendBudget(r *engine.Record, send func(float64, ...string)) {
	if r.Learned != nil && r.Learned.Observed > 0 {
		send(r.Learned.Budget)
	}
}

func sendSafePolicy(r *engine.Record, send func(float64, ...string)) {
	if p := r.Decision.Plan; p != nil && p.Safe != objective.NotSafe {
		send(1, safeReasons[p.Safe])
	}
}

func sendMissing(r *engine.Record, send func(float64, ...string)) {
	if p := r.Decision.Plan; p != nil {
		send(float64(max(-p.Added[objective.TermLimits], 0)))
	}
}
