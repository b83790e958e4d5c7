package cluster

import (
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What an HPA does that keeps it from following its number exactly. Each is stable: alerts and runbooks may match it.
const (
	NoSelector    = "NoPolicySelector" // our API answers 400: it never moves
	UnknownPolicy = "UnknownPolicy"    // our API answers 404: it never moves
	OtherTarget   = "OtherTarget"      // it moves another object than the one that was decided for
	TypeValue     = "TypeValue"        // multiplied with the ready pods
	WrongAverage  = "AverageValueNot1" // divided by something else than 1
	OtherMetrics  = "OtherMetrics"     // the greatest wins: another metric may raise above ours
	Tolerance     = "Tolerance"        // small steps are ignored
	Window        = "StabilizationWindow"
	Rates         = "Rates"
	SelectOff     = "SelectPolicyDisabled" // one direction never moves
	Bounds        = "Bounds"               // clamps what the policy may ask for
	TwoOwners     = "TwoOwners"            // another object moves the same replicas
	TwoPolicies   = "TwoPolicies"          // two policies decide for one workload
	NotServed     = "PolicyIsAdvisory"     // its metric answers an error: it never moves
)

// Finding is one reason for which an HPA will not follow its number exactly, and what to write instead.
type Finding struct{ What, Why, Fix string }

// Facts is what Lint must know beyond the HPA itself. The zero value knows nothing and finds only what the HPA alone shows.
type Facts struct {
	// Minor is the API server's minor version, 36 for Kubernetes 1.36; 0: unknown, taken as one with tolerance per HPA.
	Minor int
	// ScaledObject made the HPA; what is wrong must be put right there.
	ScaledObject string
	// PausedIn and PausedOut say that KEDA turned a direction off because somebody annotated the ScaledObject so.
	PausedIn, PausedOut bool
	// Others moves the same target: "HorizontalPodAutoscaler b", "ScaledObject c".
	Others []string
	// PoliciesKnown says that the next three fields mean something.
	PoliciesKnown bool
	// Policy is the one that the HPA names, nil where there is none by that name.
	Policy *PolicyFacts
	// Deciders are the policies that decide for the HPA's target.
	Deciders []string
	// Fallback is the replicas of the fallback of the HPA's metric; nil: it has none, or the API server does not have the field.
	Fallback *int64
}

// PolicyFacts is what Lint must know of a policy.
type PolicyFacts struct {
	Name                     string
	SameTarget               bool // it decides for the object that the HPA scales
	MinReplicas, MaxReplicas int32
	Advisory                 bool
	CooldownPeriod           time.Duration
	ReadsTriggers            bool // it has a signal of type keda
}

const (
	// defaultTolerance is kube-controller-manager's, where an HPA sets none of its own.
	defaultTolerance = 0.1
	// defaultDownWindow is kube-controller-manager's downscale stabilization in seconds.
	defaultDownWindow = 300
	// toleranceMinor is the first Kubernetes 1.x with behavior.tolerance on by default; from gateMinor a feature gate turns it on.
	toleranceMinor, gateMinor = 35, 33
)

// Lint finds why an HPA that reads our metric will not follow it exactly, most harmful first. It returns nil for an HPA that
// follows every step, and for one that does not read our metric.
func Lint(h *autoscalingv2.HorizontalPodAutoscaler, f Facts) []Finding {
	if _, ours := readsOurs(&h.Spec); !ours {
		return nil
	}
	l := &lint{spec: &h.Spec, facts: f, at: "spec.behavior"}
	if f.ScaledObject != "" {
		l.at = "ScaledObject " + f.ScaledObject + ": spec.advanced.horizontalPodAutoscalerConfig.behavior"
	}
	for _, rule := range []func(){
		l.selector, l.policies, l.advisory, l.owners, l.metric, l.fallback, l.otherMetrics, l.bounds, l.directions,
	} {
		rule()
	}
	return l.found
}

type lint struct {
	spec  *autoscalingv2.HorizontalPodAutoscalerSpec
	facts Facts
	at    string // where behavior is written
	found []Finding
}

func (l *lint) add(what, why, fix string) { l.found = append(l.found, Finding{what, why, fix}) }

func (l *lint) selector() {
	policy, _ := readsOurs(l.spec)
	switch {
	case l.facts.ScaledObject != "":
	case policy == "":
		l.add(NoSelector, "its metric names no policy, so no number is served", "set selector.matchLabels."+PolicyLabel)
	case l.facts.PoliciesKnown && l.facts.Policy == nil:
		l.add(UnknownPolicy, fmt.Sprintf("there is no policy %q in its namespace, so no number is served", policy),
			"correct "+PolicyLabel+", or add the policy")
	case l.facts.PoliciesKnown && !l.facts.Policy.SameTarget:
		l.add(OtherTarget, fmt.Sprintf("policy %q decides for another object than this HPA scales", policy),
			"let scaleTargetRef of both name the same object")
	}
}

func (l *lint) policies() {
	if len(l.facts.Deciders) > 1 {
		l.add(TwoPolicies, "several policies decide for its target: "+strings.Join(l.facts.Deciders, ", "), "keep one of them")
	}
}

// advisory is said of the ScaledObject where one made the HPA.
func (l *lint) advisory() {
	if p := l.facts.Policy; p != nil && p.Advisory && l.facts.ScaledObject == "" {
		l.add(NotServed, "the policy is advisory: its number is not served, and this HPA never moves", "remove the metric, or the policy's mode: advisory")
	}
}

func (l *lint) owners() {
	if len(l.facts.Others) > 0 {
		l.add(TwoOwners, "the same replicas are moved by "+strings.Join(l.facts.Others, ", "), "keep one of them")
	}
}

func (l *lint) metric() {
	for i := range l.spec.Metrics {
		m := l.spec.Metrics[i].External
		if m == nil || !isOurMetric(m.Metric.Name) {
			continue
		}
		t := m.Target
		if t.Type != autoscalingv2.AverageValueMetricType {
			l.add(TypeValue, "type "+string(t.Type)+" multiplies the number with the ready pods", `set type: AverageValue, averageValue: "1"`)
		} else if t.AverageValue == nil || t.AverageValue.Cmp(resource.MustParse("1")) != 0 {
			l.add(WrongAverage, "averageValue is not 1, so the number is divided by it", `set averageValue: "1"`)
		}
	}
}

// otherMetrics leaves a ScaledObject's further triggers alone: they are the coarse mirrors that raise while we are away.
func (l *lint) otherMetrics() {
	n := len(l.spec.Metrics)
	for i := range l.spec.Metrics {
		if m := &l.spec.Metrics[i]; l.facts.ScaledObject != "" && m.External != nil && !isOurMetric(m.External.Metric.Name) {
			n--
		}
	}
	if n > 1 {
		l.add(OtherMetrics, fmt.Sprintf("it reads %d metrics and takes the greatest: another may raise above ours", n),
			"make the others signals of the policy")
	}
}

func (l *lint) bounds() {
	p := l.facts.Policy
	if p == nil {
		return
	}
	own := bounds{1, l.spec.MaxReplicas}
	if l.spec.MinReplicas != nil {
		own.min = *l.spec.MinReplicas
	}
	if why := narrower(own, bounds{p.MinReplicas, p.MaxReplicas}, false); why != "" {
		l.add(Bounds, why, "set minReplicas and maxReplicas of the two alike")
	}
}

func (l *lint) directions() {
	var up, down *autoscalingv2.HPAScalingRules
	if b := l.spec.Behavior; b != nil {
		up, down = b.ScaleUp, b.ScaleDown
	}
	l.tolerance("scaleUp", up)
	l.tolerance("scaleDown", down)
	l.window("scaleUp", up, 0)
	l.window("scaleDown", down, defaultDownWindow)
	if !l.facts.PausedOut {
		l.off("scaleUp", up)
	}
	if !l.facts.PausedIn {
		l.off("scaleDown", down)
	}
	l.rates("scaleUp", up)
	l.rates("scaleDown", down)
}

// tolerance finds steps that an HPA ignores. At tolerance t a step of one is ignored from 1/t replicas on: 10 -> 11 and
// 10 -> 9 at 0.1. A fall is worse: during a rollout the HPA compares with the replicas that exist, surge included, and adopts
// them inside the band, so 9 wanted with one surplus pod becomes 10.
func (l *lint) tolerance(direction string, r *autoscalingv2.HPAScalingRules) {
	t, set := defaultTolerance, false
	if r != nil && r.Tolerance != nil {
		t, set = r.Tolerance.AsApproximateFloat64(), true
	}
	if t <= 0 {
		return
	}
	from := 1/t + 1
	if direction == "scaleDown" {
		from = (1 - t) / t
	}
	if float64(l.spec.MaxReplicas) < from {
		return
	}
	why := fmt.Sprintf("%s ignores a change of up to %.0f%%", direction, t*100)
	if !set {
		why += " (tolerance is unset)"
	}
	fix := fmt.Sprintf(`set %s.%s.tolerance: "0"`, l.at, direction)
	switch m := l.facts.Minor; {
	case m == 0 || m >= toleranceMinor:
	case m >= gateMinor:
		fix += fmt.Sprintf(" with the feature gate HPAConfigurableTolerance, which 1.%d has off", m)
	default:
		fix = fmt.Sprintf("1.%d has no tolerance per HPA: start kube-controller-manager with --horizontal-pod-autoscaler-tolerance=0.001", m)
	}
	l.add(Tolerance, why, fix)
}

func (l *lint) window(direction string, r *autoscalingv2.HPAScalingRules, seconds int32) {
	if r != nil && r.StabilizationWindowSeconds != nil {
		seconds = *r.StabilizationWindowSeconds
	}
	if seconds > 0 {
		l.add(Window, fmt.Sprintf("%s waits %d s on top of the policy's own window", direction, seconds),
			fmt.Sprintf("set %s.%s.stabilizationWindowSeconds: 0", l.at, direction))
	}
}

func (l *lint) off(direction string, r *autoscalingv2.HPAScalingRules) {
	if r != nil && r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.DisabledPolicySelect {
		l.add(SelectOff, direction+" is turned off (selectPolicy: Disabled)", fmt.Sprintf("remove %s.%s.selectPolicy", l.at, direction))
	}
}

// rates finds a direction in which the HPA may need several syncs for one step of ours: its own defaults double at most.
func (l *lint) rates(direction string, r *autoscalingv2.HPAScalingRules) {
	if r != nil && r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.DisabledPolicySelect {
		return
	}
	down := direction == "scaleDown"
	if r == nil || len(r.Policies) == 0 {
		if !down { // the default of scaleDown is 100% in 15 s: unlimited
			l.addRate(direction)
		}
		return
	}
	every, some := true, false
	for _, p := range r.Policies {
		free := p.Value >= l.spec.MaxReplicas
		if p.Type == autoscalingv2.PercentScalingPolicy {
			free = down && p.Value >= 100
		}
		every, some = every && free, some || free
	}
	least := r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.MinChangePolicySelect
	if least && !every || !some {
		l.addRate(direction)
	}
}

func (l *lint) addRate(direction string) {
	policy := "{type: Pods, value: 1000, periodSeconds: 15}"
	if direction == "scaleDown" {
		policy = "{type: Percent, value: 100, periodSeconds: 15}"
	}
	l.add(Rates, direction+" limits a step to less than the policy may take", fmt.Sprintf("set %s.%s.policies: [%s]", l.at, direction, policy))
}
