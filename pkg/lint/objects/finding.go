// Package objects finds configuration errors in HPAs, ScaledObjects, NodePools and in the cluster itself. The controller reports the
// findings as Events, and `gpuscaler lint` prints them. The caller passes the facts about the objects; the package does not read the
// cluster.
package objects

// Finding is one configuration error.
type Finding struct {
	Check string // a constant of this package, which does not change, because alerts and runbooks can match it
	What  string // what is wrong
	Fix   string // what to change
}

// ObjectFinding is a finding with the object that it is about.
type ObjectFinding struct {
	Object string // kind and name, for example "HorizontalPodAutoscaler team-chat/llama"
	Severe bool   // true: the object does not work as written; false: the object works, but less exactly or at a higher cost
	Finding
}

// About converts findings to ObjectFindings of the given object, for example "HorizontalPodAutoscaler team-chat/llama".
func About(object string, all []Finding) (found []ObjectFinding) {
	for _, f := range all {
		found = append(found, newFinding(object, f.Check, f.What, f.Fix))
	}
	return found
}

func newFinding(object, check, what, fix string) ObjectFinding {
	return ObjectFinding{Object: object, Severe: severe[check], Finding: Finding{check, what, fix}}
}

// severe contains the checks whose findings set ObjectFinding.Severe: the object does not work as written.
var severe = map[string]bool{
	NoSelector: true, UnknownPolicy: true, OtherTarget: true, TypeValue: true, WrongAverage: true, TwoOwners: true, TwoPolicies: true,
	NotServed: true, ZeroFallback: true, FallbackScalesDown: true, FormulaOverKEDA: true, NoFallback: true, NodePoolMissing: true,
	ExternalMetricsTaken: true, ExternalMetricsUnavailable: true, UnreadablePool: true,
}

// consequences lists the effects on a workload, each with the checks that find its cause.
var consequences = []struct {
	text   string
	checks []string
}{
	{"the HPA keeps its replicas: it has no target from gpuscaler", []string{NoSelector, UnknownPolicy, NotServed, ExternalMetricsTaken,
		ExternalMetricsUnavailable}},
	{"the replicas follow a target that was decided for another object", []string{OtherTarget, TypeValue, WrongAverage, FormulaOverKEDA}},
	{"each one reverts the other's change at every sync", []string{TwoOwners, TwoPolicies}},
	{"the replicas differ from the decided target", []string{OtherMetrics, Tolerance, Bounds, OldKubernetes, SelectPolicyDisabled}},
	{"the replicas change later than decided", []string{StabilizationWindow, Rates, DoubledIdleDelay, CachedTrigger, NoPush}},
	{"the workload is scaled to zero while it is needed", []string{ZeroFallback}},
	{"the workload loses replicas while no target is served", []string{FallbackScalesDown}},
	{"unused GPUs are paid for", []string{CannotReachZero, NoTaint}},
	{"pods wait for GPUs that another NodePool could provide", []string{NoFallback, NodePoolMissing}},
	{"gpuscaler neither reads nor overrides the NodePool", []string{UnreadablePool}},
	{"on-demand nodes are paid for while spot is available", []string{SpotIsNotFirst}},
	{"features that need a newer version do not work", []string{OldKEDA, OldKarpenter}},
}

// Consequence returns the effect on the workload of the problem that a check finds, as text for a message.
func Consequence(check string) string {
	for _, c := range consequences {
		for _, name := range c.checks {
			if name == check {
				return c.text
			}
		}
	}
	return "it does not work as written"
}
