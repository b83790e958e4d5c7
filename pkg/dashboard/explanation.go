// Package dashboard shows what the engine decided and why: the JSON behind `explain`, its text, and the page. Read-only.
package dashboard

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Explanation is one workload's number with everything that made it. It is what `explain -o json` prints, what the page shows, and
// what a log line of a transition holds, so that each can be rebuilt from the other.
type Explanation struct {
	Policy  string `json:"policy"` // namespace/name
	Cluster string `json:"cluster,omitempty"`
	// NotDecided says why there is no decision, or no current one: the numbers are then those of the last decision, of the time At. Where
	// there never was one, At is zero and the numbers mean nothing: they are left out of the JSON, because a 0 would be read as a target.
	NotDecided string `json:"notDecided,omitempty"`

	At      time.Time `json:"at,omitzero"`    // when it was decided
	Since   time.Time `json:"since,omitzero"` // since when the number stands
	From    int32     `json:"from"`           // the number before
	Target  int32     `json:"target"`
	Current int32     `json:"current"` // spec.replicas when it was decided
	Ready   int32     `json:"ready"`
	Loading int32     `json:"loading"`
	Pending int32     `json:"pending"`
	// Crashing replicas restart in a loop: neither ready nor loading. CrashingPod is one of their pods.
	Crashing    int32  `json:"crashing"`
	CrashingPod string `json:"crashingPod,omitempty"`

	Mode     string `json:"mode"`
	Origin   string `json:"origin"`
	Active   bool   `json:"active"`
	Degraded bool   `json:"degraded,omitempty"` // decided on missing inputs
	Binding  string `json:"binding"`            // the rule that made the number
	Served   string `json:"served"`             // "served", or why an entrance answers with an error

	Signals           []Signal  `json:"signals"`
	Rules             []Rule    `json:"rules"`
	Without           []Without `json:"without,omitempty"`
	EarliestScaleDown time.Time `json:"earliestScaleDown,omitzero"` // the earliest instant at which the number could fall
	ScaleDownRule     string    `json:"scaleDownRule,omitempty"`    // what EarliestScaleDown waits for; without a EarliestScaleDown it holds for a time that nobody knows
	Follower          *Follower `json:"follower,omitempty"`
	Operator          *Operator `json:"operator,omitempty"`
}

// Signal is one line of the SIGNAL table.
type Signal struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Unit     string   `json:"unit"`            // count, percent (a fraction here), seconds
	Value    *float64 `json:"value,omitempty"` // absent: not known
	Target   float64  `json:"target"`
	Asks     *int32   `json:"asks,omitempty"` // absent: asks for nothing
	Age      float64  `json:"ageSeconds"`
	Reported int32    `json:"podsReported"` // -1 where pods play no part
	Ready    int32    `json:"podsReady"`
	Note     string   `json:"note,omitempty"`
}

// Rule is one line of the RULE table.
type Rule struct {
	Name    string `json:"name"`
	From    int32  `json:"from"`
	To      int32  `json:"to"`
	Text    string `json:"text"`
	Binding bool   `json:"binding,omitempty"`
}

// Without is the number that the same tick would have given without a rule.
type Without struct {
	Rule     string `json:"rule"`
	Replicas int32  `json:"replicas"`
}

// Follower is who moves the replicas after our number.
type Follower struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Desired int32  `json:"desired"`
	Exact   bool   `json:"exact"`
	Why     string `json:"why,omitempty"`
}

// Operator is what a person said by annotation.
type Operator struct {
	Paused bool      `json:"paused,omitempty"`
	Min    *int32    `json:"min,omitempty"`
	Max    *int32    `json:"max,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	By     string    `json:"by,omitempty"`
}

// Explain turns a record of the board or the history into words and numbers for people and machines.
func Explain(r engine.Record, cluster string) Explanation {
	d := &r.Decision
	e := Explanation{
		Policy: r.Workload.Key.String(), Cluster: cluster, At: r.At, Since: r.Since,
		From: r.Before, Target: d.Replicas, Current: r.View.Replicas, Ready: r.View.Ready, Loading: r.View.Loading, Pending: r.View.Pending,
		Crashing: r.View.Crashing, CrashingPod: r.View.CrashingPod,
		Mode: r.Workload.Mode.String(), Origin: r.Workload.Origin, Active: d.Active, Degraded: d.Degraded,
		Binding: ruleName(r.Workload.Policy, d.Binding, d.BindingIndex), Served: served(r), EarliestScaleDown: d.EarliestScaleDown,
		Follower: follower(r.View.ManagedHPA), Operator: operator(r.View), NotDecided: notDecided(&r),
	}
	if r.At.IsZero() {
		e.Binding, e.Rules = "", []Rule{}
	}
	if d.ScaleDownRule != scaling.RuleNone {
		e.ScaleDownRule = d.ScaleDownRule.String()
	}
	for i := range r.Workload.Policy.Signals {
		e.Signals = append(e.Signals, signal(r, i))
	}
	for _, reason := range d.Reasons.All() {
		e.Rules = append(e.Rules, Rule{
			Name: ruleName(r.Workload.Policy, reason.Rule, reason.Index), From: reason.From, To: reason.To,
			Text: reason.Text(r.Workload.Policy), Binding: reason.Rule == d.Binding && reason.Index == d.BindingIndex,
		})
	}
	for _, w := range r.Without {
		e.Without = append(e.Without, Without{Rule: ruleName(r.Workload.Policy, w.Rule, w.Index), Replicas: w.Replicas})
	}
	return e
}

// MarshalJSON leaves the numbers out where there is no decision.
func (e Explanation) MarshalJSON() ([]byte, error) {
	type plain Explanation
	if !e.At.IsZero() {
		return json.Marshal(plain(e))
	}
	return json.Marshal(struct { // fields of the same names hide those of plain
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
	return "served"
}

// ruleName is the rule in HPA words with the schedule or signal that it speaks of.
func ruleName(p *scaling.Policy, rule scaling.Rule, index int8) string {
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

func follower(f engine.ManagedHPA) *Follower {
	if f.Kind == "" {
		return nil
	}
	return &Follower{Kind: f.Kind, Name: f.Name, Desired: f.Desired, Exact: f.Exact, Why: f.Why}
}

func operator(v engine.View) *Operator {
	o := v.Operator
	if !o.Paused && o.Min < 0 && o.Max < 0 {
		return nil
	}
	out := &Operator{Paused: o.Paused, By: v.OperatorBy}
	if o.Until.Year() < 9999 { // what lasts as long as an annotation of KEDA's stands has no end to show
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

func signal(r engine.Record, i int) Signal {
	s := &r.Workload.Policy.Signals[i]
	out := Signal{Name: s.Name, Type: s.Type, Unit: units[s.Unit], Target: s.Target, Reported: -1, Ready: r.View.Ready}
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
	if asks := r.Decision.Proposals[i]; asks >= 0 {
		out.Asks = &asks
	}
	out.Note = note(s, reading, r.Decision.Status[i])
	return out
}

// note says in a few words how the signal took part.
func note(s *scaling.Signal, r scaling.Reading, status scaling.SignalStatus) string {
	switch status {
	case scaling.SignalMissing:
		text := "missing: " + r.Cause.String()
		if r.Known && r.Cause == scaling.CauseNone {
			text = "missing: far too old"
		}
		if r.Failures > 0 {
			text += fmt.Sprintf(" (%d polls in a row)", r.Failures)
		}
		if s.Optional {
			return text + "; optional, left out"
		}
		return text + "; may rise, cannot fall"
	case scaling.SignalStale:
		return fmt.Sprintf("stale (older than %s): may raise, cannot lower", s.MaxAge)
	case scaling.SignalLowCoverage:
		return fmt.Sprintf("%.0f%% of the ready pods: may raise, cannot lower", 100*r.Coverage)
	case scaling.SignalUnmeasured:
		return "not measured: no replica is ready"
	}
	if r.Shared {
		return "shared GPU (time-slicing or MPS): may hold, cannot raise"
	}
	if r.Value > s.Activation {
		return "active (> " + format(s.Activation, units[s.Unit]) + ")"
	}
	return "inactive"
}
