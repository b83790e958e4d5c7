package dashboard

import (
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// NewCost converts a bill to the amounts that the web page shows, in USD per hour. Idle cost is grouped by the rule that determined the
// workload's target.
func NewCost(b *cost.Bill, decisions *engine.DecisionStore) Cost {
	hours := b.To.Sub(b.From).Hours()
	out := Cost{Currency: "USD", At: b.To, PerHour: b.Total.Cost / hours, Idle: b.Total.Idle() / hours,
		Unmeasured: b.Total.Unmeasured / hours, Unpriced: b.Total.UnpricedGPUHours / hours}
	for _, c := range b.IdleCauses(keptBy(decisions)) {
		out.Causes = append(out.Causes, Cause{Name: c.Name, Workloads: c.Workloads, GPUs: c.GPUs, PerHour: c.PerHour})
	}
	return out
}

// keptBy returns a function that returns the name of the rule that determined a workload's target, or "" if the workload has no decision.
func keptBy(decisions *engine.DecisionStore) func(namespace, workload string) string {
	rules := map[[2]string]string{}
	var r engine.Record
	for _, k := range decisions.Keys() {
		if decisions.CopyRecord(k, &r) && !r.At.IsZero() {
			rules[[2]string{k.Namespace, r.Workload.Target.Name}] = r.Decision.Binding.String()
		}
	}
	return func(namespace, workload string) string { return rules[[2]string{namespace, workload}] }
}
