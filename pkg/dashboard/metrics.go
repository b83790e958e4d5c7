package dashboard

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Collector exports what the board shows as Prometheus metrics, read at scrape time.
type Collector struct {
	board Board
}

// NewCollector returns a collector over a board.
func NewCollector(b Board) *Collector { return &Collector{board: b} }

var (
	perPolicy = []string{"namespace", "policy"}
	perSignal = []string{"namespace", "policy", "signal", "type"}

	targetReplicas  = describe("target_replicas", "Replicas that the policy wants.", perPolicy)
	currentReplicas = describe("current_replicas", "spec.replicas of the workload when it was decided.", perPolicy)
	readyReplicas   = describe("ready_replicas", "Replicas that are Ready.", perPolicy)
	loadingReplicas = describe("loading_replicas", "Replicas on a node that are not Ready yet.", perPolicy)
	pendingReplicas = describe("pending_replicas", "Replicas without a node.", perPolicy)
	gpusPerReplica  = describe("gpus_per_replica", "GPUs that one replica asks for.", perPolicy)
	active          = describe("policy_active", "1 while demand, a schedule or a person keeps replicas.", perPolicy)
	degraded        = describe("policy_degraded", "1 while the policy decides on missing inputs: it may raise, it cannot lower.", perPolicy)
	unseen          = describe("policy_unseen", "1 while the cluster does not show the policy's target: nothing is decided.", perPolicy)
	decidedAt       = describe("decision_timestamp_seconds", "When the target was decided, Unix time.", perPolicy)
	bindingRule     = describe("binding_rule", "1 for the rule that made the target.", append(perPolicy[:2:2], "rule"))
	followerExact   = describe("follower_exact", "1 where the HPA that reads the target follows every step, 0 where it may not.", append(perPolicy[:2:2], "kind", "name"))
	signalValue     = describe("signal_value", "Newest reading of a signal, in its own unit (percentages as fractions); absent while unknown.", perSignal)
	signalTarget    = describe("signal_target", "The signal's target per replica.", perSignal)
	signalStatus    = describe("signal_usable", "1 while the signal can both raise and lower the target.", perSignal)
)

func describe(name, help string, labels []string) *prometheus.Desc {
	return prometheus.NewDesc("gpuscaler_"+name, help, labels, nil)
}

// Describe sends every metric's description.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{targetReplicas, currentReplicas, readyReplicas, loadingReplicas, pendingReplicas, gpusPerReplica,
		active, degraded, unseen, decidedAt, bindingRule, followerExact, signalValue, signalTarget, signalStatus} {
		out <- d
	}
}

// Collect sends the newest outcome of every policy that is decided under its version in force, and of every policy whether its scale target
// is seen: an outcome of the past would look like the present one.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, k := range c.board.Keys() {
		r, ok := c.board.Record(k)
		if !ok {
			continue
		}
		send := func(d *prometheus.Desc, v float64, more ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{k.Namespace, k.Name}, more...)...)
		}
		send(unseen, number(r.Unseen))
		if r.At.IsZero() || r.Unseen || r.Superseded {
			continue
		}
		send(targetReplicas, float64(r.Decision.Replicas))
		send(currentReplicas, float64(r.View.Replicas))
		send(readyReplicas, float64(r.View.Ready))
		send(loadingReplicas, float64(r.View.Loading))
		send(pendingReplicas, float64(r.View.Pending))
		send(gpusPerReplica, float64(r.View.GPUs))
		send(active, number(r.Decision.Active))
		send(degraded, number(r.Decision.Degraded))
		send(decidedAt, float64(r.At.UnixMilli())/1000)
		send(bindingRule, 1, ruleName(r.Workload.Policy, r.Decision.Binding, r.Decision.BindingIndex))
		if f := r.View.Follower; f.Kind != "" {
			send(followerExact, number(f.Exact), f.Kind, f.Name)
		}
		for i, s := range r.Workload.Policy.Signals {
			if i < len(r.Readings) && r.Readings[i].Known {
				send(signalValue, r.Readings[i].Value, s.Name, s.Type)
			}
			send(signalTarget, s.Target, s.Name, s.Type)
			send(signalStatus, number(r.Decision.Status[i] == scaling.SignalOK), s.Name, s.Type)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
