package dashboard

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// MetricBoard is the part of the engine's board that metrics are read from.
type MetricBoard interface {
	Keys() []scaling.Key
	CopyRecord(k scaling.Key, r *engine.Record) (ok bool)
}

// Collector exports one metric of all policies on the board, read at scrape time.
type Collector struct {
	board MetricBoard
	metric
}

// NewCollectors returns one collector for each metric of policies. At 10,000 policies all of them together need 100 MiB while they are
// gathered; a caller that gathers them one after the other needs the memory of one.
func NewCollectors(b MetricBoard) (all []prometheus.Collector) {
	for _, m := range policyMetrics {
		all = append(all, &Collector{b, m})
	}
	return all
}

// metric is a description, and how a policy's newest outcome is sent.
type metric struct {
	desc *prometheus.Desc
	send func(r *engine.Record, send func(value float64, labels ...string))
}

var (
	perPolicy = []string{"namespace", "policy"}
	perSignal = []string{"namespace", "policy", "signal", "type"}

	// policyMetrics are the metrics of policies. All but policy_target_not_found are absent until the policy was decided.
	policyMetrics = []metric{
		{describe("policy_target_not_found", "1 while the cluster does not show the policy's target: nothing is decided.", perPolicy), nil},
		gauge("target_replicas", "Replicas that the policy wants.", func(r *engine.Record) float64 { return float64(r.Decision.Replicas) }),
		gauge("current_replicas", "spec.replicas of the workload when it was decided.", func(r *engine.Record) float64 { return float64(r.View.Replicas) }),
		gauge("ready_replicas", "Replicas that are Ready.", func(r *engine.Record) float64 { return float64(r.View.Ready) }),
		gauge("loading_replicas", "Replicas on a node that are not Ready yet.", func(r *engine.Record) float64 { return float64(r.View.Loading) }),
		gauge("pending_replicas", "Replicas without a node.", func(r *engine.Record) float64 { return float64(r.View.Pending) }),
		gauge("crashing_replicas", "Replicas that restart in a loop: neither ready nor loading.", func(r *engine.Record) float64 { return float64(r.View.Crashing) }),
		gauge("gpus_per_replica", "GPUs that one replica asks for.", func(r *engine.Record) float64 { return float64(r.View.GPUs) }),
		gauge("policy_active", "1 while demand, a schedule or a person keeps replicas.", func(r *engine.Record) float64 { return number(r.Decision.Active) }),
		gauge("policy_degraded", "1 while the policy decides on missing inputs: it may raise, it cannot lower.", func(r *engine.Record) float64 { return number(r.Decision.Degraded) }),
		gauge("decision_timestamp_seconds", "When the target was decided, Unix time.", func(r *engine.Record) float64 { return float64(r.At.UnixMilli()) / 1000 }),
		{describe("binding_rule", "1 for the rule that made the target.", append(perPolicy[:2:2], "rule")), sendBindingRule},
		{describe("managed_object_exact", "1 where the HPA that reads the target follows every step, 0 where it may not.", append(perPolicy[:2:2], "kind", "name")), sendFollower},
		{describe("signal_value", "Newest reading of a signal, in its own unit (percentages as fractions); absent while unknown.", perSignal), sendSignalValues},
		{describe("signal_target", "The signal's target per replica.", perSignal), sendSignalTargets},
		{describe("signal_usable", "1 while the signal can both raise and lower the target.", perSignal), sendSignalsUsable},
	}
)

func describe(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("gpuscaler_"+name, help, labels, nil)
}

func gauge(name, help string, value func(*engine.Record) float64) metric {
	return metric{describe(name, help, perPolicy), func(r *engine.Record, send func(float64, ...string)) { send(value(r)) }}
}

// Describe sends the metric's description.
func (c *Collector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect sends the metric of each policy that is decided under its version in force, and policy_target_not_found of every policy: an outcome of the
// past would look like the present one.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	var r engine.Record
	for _, k := range c.board.Keys() {
		if !c.board.CopyRecord(k, &r) {
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
	send(1, ruleName(r.Workload.Policy, r.Decision.Binding, r.Decision.BindingIndex))
}

func sendFollower(r *engine.Record, send func(float64, ...string)) {
	if f := r.View.ManagedHPA; f.Kind != "" {
		send(number(f.Exact), f.Kind, f.Name)
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
		send(s.Target, s.Name, s.Type)
	}
}

func sendSignalsUsable(r *engine.Record, send func(float64, ...string)) {
	for i, s := range r.Workload.Policy.Signals {
		send(number(r.Decision.Status[i] == scaling.SignalOK), s.Name, s.Type)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
