// Package objects finds configuration errors in HPAs, ScaledObjects, NodePools and in the cluster itself. The controller reports the
// findings as Events, and `gpuscaler lint` prints them. The package does not read the cluster: the caller passes the facts about the
// objects.
package objects

import "slices"

// Finding is one configuration error.
type Finding struct {
	Check string // one of the constants of this package; it never changes, because alerts and runbooks match it
	What  string // description of the problem
	Fix   string // what to change
}

// ObjectFinding is a finding together with the object to which it refers.
type ObjectFinding struct {
	Object string // kind and name, for example "HorizontalPodAutoscaler team-chat/llama"
	Severe bool   // true: the object does not work as intended; false: it works, but less exactly or at a higher cost than intended
	Finding
}

// About returns an ObjectFinding for each finding, with the given object, for example "HorizontalPodAutoscaler team-chat/llama".
func About(object string, all []Finding) (found []ObjectFinding) {
	for _, f := range all {
		found = append(found, newFinding(object, f.Check, f.What, f.Fix))
	}
	return found
}

func newFinding(object, check, what, fix string) ObjectFinding {
	return ObjectFinding{Object: object, Severe: severe[check], Finding: Finding{check, what, fix}}
}

// severe contains the checks for which ObjectFinding.Severe is true, because the object does not work as intended.
var severe = map[string]bool{
	NoSelector: true, UnknownPolicy: true, OtherTarget: true, TypeValue: true, WrongAverage: true, TwoOwners: true, TwoPolicies: true,
	NotServed: true, ZeroFallback: true, FallbackScalesDown: true, FormulaOverKEDA: true, NoFallback: true, NodePoolMissing: true,
	ExternalMetricsTaken: true, ExternalMetricsUnavailable: true, UnreadablePool: true,
}

// consequences contains the possible effects on a workload. The field checks contains the names of the checks whose findings can have the
// effect in the field text.
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

// Consequence returns a text for a message: how the problem that the given check finds affects the workload.
func Consequence(check string) string {
	for _, c := range consequences {
		if slices.Contains(c.checks, check) {
			return c.text
		}
	}
	return "it does not work as written"
}
