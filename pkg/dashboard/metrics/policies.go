// Package metrics exports the decisions for policies, capacity groups and teams as Prometheus metrics. Each collector reads the engine's
// decision store when it is scraped.
package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// PolicyReader returns the newest record of each policy. The engine's decision store implements PolicyReader.
type PolicyReader interface {
	Keys() []scaling.Key
	CopyRecord(k scaling.Key, r *engine.Record) (ok bool)
}

// PolicyCollector exports one metric. The metric has series for all policies.
type PolicyCollector struct {
	decisions PolicyReader
	policyMetric
}

// NewPolicyCollectors returns one collector for each metric of policies. One collector for all metrics would need 100 MiB for 10,000
// policies. A caller that gathers the collectors one after the other needs only the memory for one metric.
func NewPolicyCollectors(b PolicyReader) (all []prometheus.Collector) {
	for _, m := range policyMetrics {
		all = append(all, &PolicyCollector{b, m})
	}
	return all
}

// policyMetric is one metric. The function send sends the values of the metric for one record.
type policyMetric struct {
	desc *prometheus.Desc
	send func(r *engine.Record, send func(value float64, labels ...string))
}

var (
	perPolicy = []string{"namespace", "policy"}
	perSignal = []string{"namespace", "policy", "signal", "type"}

	targetNotFound = describe("policy_target_not_found",
		"1 while the scale target of the policy is not in the cluster: no target is computed.", perPolicy)

	// policyMetrics contains the metrics of policies. A policy without a current decision has only policy_target_not_found.
	policyMetrics = []policyMetric{
		{targetNotFound, nil},
		gauge("target_replicas", "Target of the policy in replicas.", func(r *engine.Record) float64 { return float64(r.Decision.Replicas) }),
		gauge("current_replicas", "spec.replicas of the workload at the decision.",
			func(r *engine.Record) float64 { return float64(r.View.Replicas) }),
		gauge("ready_replicas", "Replicas that are Ready.", func(r *engine.Record) float64 { return float64(r.View.Ready) }),
		gauge("loading_replicas", "Replicas on a node that are not Ready yet.",
			func(r *engine.Record) float64 { return float64(r.View.Loading) }),
		gauge("pending_replicas", "Replicas without a node.", func(r *engine.Record) float64 { return float64(r.View.Pending) }),
		gauge("crashing_replicas", "Replicas that restart in a loop: they count neither as ready nor as loading.",
			func(r *engine.Record) float64 { return float64(r.View.Crashing) }),
		{describe("rejected_replicas", "Replicas whose pods the API server rejects, by the kind and name of the object that rejects them; "+
			"absent while it rejects none.", append(perPolicy[:2:2], "kind", "name")), sendRejected},
		gauge("gpus_per_replica", "GPUs that one replica requests.", func(r *engine.Record) float64 { return float64(r.View.GPUs) }),
		gauge("policy_active", "1 while demand, a schedule or a user keeps replicas.",
			func(r *engine.Record) float64 { return number(r.Decision.Active) }),
		gauge("policy_degraded", "1 while inputs are missing: the target can increase, it cannot decrease.",
			func(r *engine.Record) float64 { return number(r.Decision.Degraded) }),
		gauge("decision_timestamp_seconds", "Time of the decision, Unix time.",
			func(r *engine.Record) float64 { return float64(r.At.UnixMilli()) / 1000 }),
		{describe("binding_rule", "1 for the rule that determined the target.", append(perPolicy[:2:2], "rule")), sendBindingRule},
		{describe("managed_object_exact", "1 if the HPA or ScaledObject that reads the target follows every change, 0 if it can differ.",
			append(perPolicy[:2:2], "kind", "name")), sendScaledBy},
		{describe("signal_value", "Newest value of a signal in its own unit (percentages as fractions); absent while it is unknown.", perSignal),
			sendSignalValues},
		{describe("signal_target", "Target of the signal per replica.", perSignal), sendSignalTargets},
		{describe("signal_missing", "1 while a signal cannot lower the target because its last poll returned no usable value, by cause.",
			append(slices.Clip(perSignal), "cause")), sendSignalsMissing},
		{describe("signal_usable", "1 while the signal can raise and lower the target.", perSignal), sendSignalsUsable},
		{describe("learned_capacity", "Work per second that one replica serves, as learned for the objective of the policy (median).", perPolicy),
			sendLearnedCapacity},
		{describe("cold_start_seconds", "Quantiles of the observed cold starts; total: until the replica is ready; node: until it has one.",
			append(perPolicy[:2:2], "phase", "quantile")), sendColdStart},
		{describe("slo_attained_ratio", "Share of the work that met the objective of the policy, over its window; absent until work was "+
			"observed.", perPolicy), sendAttained},
		{describe("late_budget_left_ratio", "Share of the late work that the objective allows over its window and that is left.", perPolicy),
			sendBudget},
		{describe("objective_missing_replicas", "Replicas that the objective of the policy needs above its limits, such as maxReplicas.",
			perPolicy), sendMissing},
		{describe("objective_safe_policy", "1 while the safe policy decides for an objective, by reason: too-little-load, capacity-unknown, "+
			"evidence-missing, or slo-missed with the greatest margin.", append(perPolicy[:2:2], "reason")), sendSafePolicy},
	}
)

func describe(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("gpuscaler_"+name, help, labels, nil)
}

func gauge(name, help string, value func(*engine.Record) float64) policyMetric {
	return policyMetric{describe(name, help, perPolicy), func(r *engine.Record, send func(float64, ...string)) { send(value(r)) }}
}

// Describe sends the description of the metric.
func (c *PolicyCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect sends the metric of each policy that has a current decision, which requires an existing scale target and the current version of
// the policy. It sends nothing for other policies, because a user would interpret an old decision as current. policy_target_not_found is
// sent for every policy.
func (c *PolicyCollector) Collect(out chan<- prometheus.Metric) {
	var r engine.Record
	for _, k := range c.decisions.Keys() {
		if !c.decisions.CopyRecord(k, &r) {
			continue
		}
		send := func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, value, append([]string{k.Namespace, k.Name}, labels...)...)
		}
		switch {
		case c.send == nil:
			send(number(r.Unseen))
		case !r.At.IsZero() && !r.Unseen && !r.Superseded:
			c.send(&r, send)
		}
	}
}

func sendBindingRule(r *engine.Record, send func(float64, ...string)) {
	send(1, explain.RuleName(r.Workload.Policy, r.Decision.Binding, r.Decision.BindingIndex))
}

func sendScaledBy(r *engine.Record, send func(float64, ...string)) {
	if f := r.View.ManagedHPA; f.Kind != "" {
		send(number(f.Exact), f.Kind, f.Name)
	}
}

func sendRejected(r *engine.Record, send func(float64, ...string)) {
	if v := &r.View; v.Rejected > 0 {
		send(float64(v.Rejected), v.Rejection.Kind, v.Rejection.Name)
	}
}

func sendSignalValues(r *engine.Record, send func(float64, ...string)) {
	for i, s := range r.Workload.Policy.Signals {
		if i < len(r.Readings) && r.Readings[i].Known {
			send(r.Readings[i].Value, s.Name, s.Type)
		}
	}
}

func sendSignalTargets(r *engine.Record, send func(float64, ...string)) {
	for _, s := range r.Workload.Policy.Signals {
		if s.Target > 0 { // 0: the signal has no target, because the policy has an objective
			send(s.Target, s.Name, s.Type)
		}
	}
}

func sendSignalsUsable(r *engine.Record, send func(float64, ...string)) {
	for i, s := range r.Workload.Policy.Signals {
		send(number(r.Decision.Status[i] == scaling.SignalOK), s.Name, s.Type)
	}
}

func sendSignalsMissing(r *engine.Record, send func(float64, ...string)) {
	for i, s := range r.Workload.Policy.Signals {
		if i < len(r.Readings) && r.Readings[i].Cause != scaling.CauseNone && r.Decision.Status[i].Unusable() {
			send(1, s.Name, s.Type, r.Readings[i].Cause.Label())
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
