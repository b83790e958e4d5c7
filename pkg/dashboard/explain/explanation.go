// Package explain converts a decision of the engine to an Explanation: the target, the readings of the signals, the rules that were
// applied, and the objects that caused the decision. An Explanation can be written as text for a terminal, as JSON, and as one line for a
// log. An Explanation that was decoded from JSON can be written in the same forms.
package explain

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	reasons "github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// Served is the value of Explanation.Served while the target is served to the HPA and to KEDA.
const Served = "served"

// Explanation contains the target of one workload and all inputs and rules that determined it. `gpuscaler explain -o json` prints it, the
// web page shows it, and the controller logs it at each transition.
type Explanation struct {
	Policy  string `json:"policy"` // namespace/name
	Cluster string `json:"cluster,omitempty"`
	// NotDecided is the reason why there is no current decision; empty: there is a current decision. If NotDecided is set, the other fields
	// describe the last decision, made at the time At. If there was never a decision, At is zero and the JSON omits the numbers of replicas,
	// because a client could interpret a 0 as a target.
	NotDecided string `json:"notDecided,omitempty"`

	At      time.Time `json:"at,omitzero"`    // time of the decision
	Since   time.Time `json:"since,omitzero"` // time of the last change of the target
	From    int32     `json:"from"`           // the target before the change at Since
	Target  int32     `json:"target"`
	Current int32     `json:"current"` // spec.replicas at the time of the decision
	Ready   int32     `json:"ready"`
	Loading int32     `json:"loading"`
	Pending int32     `json:"pending"`
	// Crashing is the number of replicas that restart in a loop. Ready and Loading do not include them. CrashingPod is the name of one of
	// their pods.
	Crashing    int32  `json:"crashing"`
	CrashingPod string `json:"crashingPod,omitempty"`
	// Rejected is the number of replicas whose pods the API server rejects. Rejection names the object that causes the rejection, and contains
	// the API server's error text.
	Rejected  int32            `json:"rejected,omitempty"`
	Rejection engine.Rejection `json:"rejection,omitzero"`

	Mode     string `json:"mode"`
	Origin   string `json:"origin"` // where the policy is defined, for example chat.yaml@3f1c
	Active   bool   `json:"active"`
	Degraded bool   `json:"degraded,omitempty"` // inputs of the decision were missing
	Binding  string `json:"binding"`            // the rule that determined the target
	Why      string `json:"why"`                // the target and its cause in one line
	Served   string `json:"served"`             // "served", or the error that the HPA and KEDA receive instead of the target

	Signals []Signal  `json:"signals"`
	Rules   []Rule    `json:"rules"`
	Without []Without `json:"without,omitempty"`
	// EarliestScaleDown is the first time at which the target may decrease. ScaleDownRule is the rule that prevents an earlier decrease. If
	// ScaleDownRule is set and EarliestScaleDown is zero, the rule applies until its condition ends, at an unknown time.
	EarliestScaleDown time.Time `json:"earliestScaleDown,omitzero"`
	ScaleDownRule     string    `json:"scaleDownRule,omitempty"`
	ScaledBy          *ScaledBy `json:"scaledBy,omitempty"`
	Operator          *Operator `json:"operator,omitempty"`
	// CappedBy is the capacity group that caps the target, with the reason. nil: no capacity group caps the target.
	CappedBy *CappedBy `json:"cappedBy,omitempty"`
	// Surge is the reason why the capacity group adds a replica before Karpenter evicts a replica, or why the group stopped adding it. It is
	// "" if the group adds no replica.
	Surge string `json:"surge,omitempty"`
	// Objective is nil for a policy without an objective.
	Objective *Objective `json:"objective,omitempty"`
}

// Signal is one signal of the policy with its reading. In the text format, it is one row of the table SIGNAL.
type Signal struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Unit       string   `json:"unit"`                 // count, percent (as a fraction) or seconds
	Value      *float64 `json:"value,omitempty"`      // absent if the value is unknown
	Target     float64  `json:"target"`               // 0 if the policy has an objective instead of a target for the signal
	Measures   string   `json:"measures,omitempty"`   // quantity that the objective learns from the signal, for example arrivals
	Recommends *int32   `json:"recommends,omitempty"` // recommended replicas; absent if the signal recommends nothing
	Age        float64  `json:"ageSeconds"`
	Reported   int32    `json:"podsReported"` // number of pods that reported; -1 for a signal that is not read from pods
	Ready      int32    `json:"podsReady"`
	Note       string   `json:"note,omitempty"`
	Cause      string   `json:"cause,omitempty"`    // why the last poll returned no value, as in gpuscaler_signal_missing
	NextStep   string   `json:"nextStep,omitempty"` // what the user can do about the cause
}

// Rule is one rule that was applied. In the text format, it is one row of the table RULE.
type Rule struct {
	Name    string `json:"name"`
	From    int32  `json:"from"`
	To      int32  `json:"to"`
	Text    string `json:"text"`
	Binding bool   `json:"binding,omitempty"`
}

// Without is the target that the tick would have computed without one of the rules.
type Without struct {
	Rule     string `json:"rule"`
	Replicas int32  `json:"replicas"`
}

// ScaledBy is the object that scales the workload to the target: an HPA, a ScaledObject or gpuscaler itself.
type ScaledBy struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Desired int32  `json:"desired"`
	Exact   bool   `json:"exact"`         // the object applies every change of the target
	Why     string `json:"why,omitempty"` // why Exact is false
}

// Operator is a pause or an override that a user set with an annotation.
type Operator struct {
	Paused bool      `json:"paused,omitempty"`
	Min    *int32    `json:"min,omitempty"`
	Max    *int32    `json:"max,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	By     string    `json:"by,omitempty"`
}

// FromRecord explains a record of the engine's decision store or of its history, as of the time of the decision. For the newest record, use
// Current, whose result also contains whether gpuscaler serves the target at the present time.
func FromRecord(r engine.Record, cluster string) Explanation {
	d := &r.Decision
	e := Explanation{
		Policy: r.Workload.Key.String(), Cluster: cluster, At: r.At, Since: r.Since,
		From: r.Before, Target: d.Replicas, Current: r.View.Replicas, Ready: r.View.Ready, Loading: r.View.Loading, Pending: r.View.Pending,
		Crashing: r.View.Crashing, CrashingPod: r.View.CrashingPod, Rejected: r.View.Rejected, Rejection: r.View.Rejection,
		Mode: r.Workload.Mode.String(), Origin: r.Workload.Origin, Active: d.Active, Degraded: d.Degraded,
		Binding: RuleName(r.Workload.Policy, d.Binding, d.BindingIndex), Why: reasons.Decision(d, r.Workload.Policy),
		Served: served(r), EarliestScaleDown: d.EarliestScaleDown,
		ScaledBy: newScaledBy(r.View.ManagedHPA), Operator: NewOperator(r.View), NotDecided: notDecided(&r),
		Objective: newObjective(&r), CappedBy: newCappedBy(&r),
	}
	if r.At.IsZero() {
		e.Binding, e.Why, e.Rules = "", "", []Rule{}
	}
	if d.ScaleDownRule != scaling.RuleNone {
		e.ScaleDownRule = d.ScaleDownRule.String()
	}
	for i := range r.Workload.Policy.Signals {
		e.Signals = append(e.Signals, NewSignal(&r, i))
	}
	for _, reason := range d.Reasons.All() {
		e.Rules = append(e.Rules, Rule{
			Name: RuleName(r.Workload.Policy, reason.Rule, reason.Index), From: reason.From, To: reason.To,
			Text: reasons.ReasonIn(d, reason, r.Workload.Policy), Binding: reason.Rule == d.Binding && reason.Index == d.BindingIndex,
		})
	}
	for _, w := range r.Without {
		e.Without = append(e.Without, Without{Rule: RuleName(r.Workload.Policy, w.Rule, w.Index), Replicas: w.Replicas})
	}
	return e
}

// MarshalJSON encodes the explanation. It omits the numbers of replicas if there was never a decision.
func (e Explanation) MarshalJSON() ([]byte, error) {
	type plain Explanation
	if !e.At.IsZero() {
		return json.Marshal(plain(e))
	}
	return json.Marshal(struct { // the fields of this struct hide the fields of plain with the same JSON names
		plain
		From     *int32  `json:"from,omitempty"`
		Target   *int32  `json:"target,omitempty"`
		Current  *int32  `json:"current,omitempty"`
		Ready    *int32  `json:"ready,omitempty"`
		Loading  *int32  `json:"loading,omitempty"`
		Pending  *int32  `json:"pending,omitempty"`
		Crashing *int32  `json:"crashing,omitempty"`
		Active   *bool   `json:"active,omitempty"`
		Binding  *string `json:"binding,omitempty"`
		Why      *string `json:"why,omitempty"`
	}{plain: plain(e)})
}

func served(r engine.Record) string {
	switch {
	case r.At.IsZero():
		return engine.ErrUndecided.Error()
	case r.Workload.Mode == scaling.Hold:
		return engine.ErrHeld.Error()
	case r.Workload.Mode == scaling.Advisory:
		return engine.ErrAdvisory.Error()
	}
	return Served
}

// RuleName returns the name of a rule. If the rule belongs to a schedule or a signal, the result also contains the name of the schedule or
// signal at the given index.
func RuleName(p *scaling.Policy, rule scaling.Rule, index int8) string {
	name := rule.String()
	switch i := int(index); {
	case i < 0:
		return name
	case rule == scaling.RuleScheduleFloor || rule == scaling.RuleScheduleCeiling:
		if i < len(p.Schedules) {
			return name + " " + p.Schedules[i].Window.Name
		}
	case i < len(p.Signals):
		return name + " " + p.Signals[i].Name
	}
	return name
}

func newScaledBy(f engine.ManagedHPA) *ScaledBy {
	if f.Kind == "" {
		return nil
	}
	return &ScaledBy{Kind: f.Kind, Name: f.Name, Desired: f.Desired, Exact: f.Exact, Why: f.Why}
}

// NewOperator returns the pause or the override that a user set and that applies now, or nil.
func NewOperator(v engine.View) *Operator {
	o := v.Operator
	if !o.Paused && o.Min < 0 && o.Max < 0 {
		return nil
	}
	out := &Operator{Paused: o.Paused, By: v.OperatorBy}
	if o.Until.Year() < 9999 { // a pause by KEDA's annotations does not expire; its end is the year 9999
		out.Until = o.Until
	}
	if o.Min >= 0 {
		out.Min = &o.Min
	}
	if o.Max >= 0 {
		out.Max = &o.Max
	}
	return out
}

var units = [...]string{scaling.Count: "count", scaling.Percent: "percent", scaling.Seconds: "seconds"}

// NewSignal returns the row of the SIGNAL table for the signal at index i of the record's policy.
func NewSignal(r *engine.Record, i int) Signal {
	s := &r.Workload.Policy.Signals[i]
	out := Signal{Name: s.Name, Type: s.Type, Unit: units[s.Unit], Target: s.Target, Measures: s.Measures.String(), Reported: -1,
		Ready: r.View.Ready}
	if r.At.IsZero() {
		out.Note = "not read yet"
		return out
	}
	if i >= len(r.Readings) {
		out.Note = note(s, scaling.Reading{}, scaling.SignalMissing)
		return out
	}
	reading := r.Readings[i]
	if reading.Known {
		out.Value, out.Reported = &reading.Value, reading.Reported
		out.Age = r.At.Sub(reading.At).Seconds()
	}
	if replicas := r.Decision.Proposals[i]; replicas >= 0 {
		out.Recommends = &replicas
	}
	out.Note = note(s, reading, r.Decision.Status[i])
	if c := reading.Cause; c != scaling.CauseNone && r.Decision.Status[i].Unusable() {
		out.Cause, out.NextStep = c.Label(), nextStep(s, c, r.Workload.Key.Namespace)
	}
	return out
}

// failures returns the number of consecutive failed polls in parentheses, or "" if there are none.
func failures(n int32) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (1 poll failed)"
	}
	return fmt.Sprintf(" (%d polls failed in a row)", n)
}

// note returns a note about the reading of a signal in a decision, for example why the reading is missing.
func note(s *scaling.Signal, r scaling.Reading, status scaling.SignalStatus) string {
	switch status {
	case scaling.SignalMissing:
		text := "missing: " + r.Cause.String()
		if r.Known && r.Cause == scaling.CauseNone {
			text = "missing: the last sample is too old"
		}
		text += failures(r.Failures)
		if s.Optional {
			return text + "; optional, ignored"
		}
		return text + "; prevents a scale-down"
	case scaling.SignalStale:
		text := fmt.Sprintf("stale (older than %s)", s.MaxAge)
		if r.Cause != scaling.CauseNone {
			text += ", because of " + r.Cause.String() + failures(r.Failures)
		}
		return text + ": can raise the target, cannot lower it"
	case scaling.SignalLowCoverage:
		return fmt.Sprintf("samples from only %.0f%% of the ready pods: can raise the target, cannot lower it", 100*r.Coverage)
	case scaling.SignalUnmeasured:
		return "not measured: no replica is ready"
	}
	if r.Shared {
		return "shared GPU (time-slicing or MPS): can hold the target, cannot raise it"
	}
	if r.Value > s.Activation {
		return "active (above " + FormatValue(s.Activation, units[s.Unit]) + ")"
	}
	return "inactive (not above " + FormatValue(s.Activation, units[s.Unit]) + ")"
}
