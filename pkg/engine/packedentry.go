package engine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// packedDecision is a scaling.Decision with its reasons in a slice. It needs a quarter of the memory, because the array in scaling.Decision
// has space for all possible reasons.
type packedDecision struct {
	Replicas, Requested     int32
	Uncapped, Extra, Room   int32
	Active, Degraded        bool
	Binding, Tied           scaling.Rule
	BindingIndex, TiedIndex int8
	ScaleDownRule           scaling.Rule
	Proposals               [scaling.MaxSignals]int32
	Status                  [scaling.MaxSignals]scaling.SignalStatus
	EarliestScaleDown       time.Time
	Plan                    *objective.Plan
	CapCause                *capcause.Cause
	Reasons                 []scaling.Reason
}

// set replaces the stored decision by d and reuses the memory of the stored reasons.
func (k *packedDecision) set(d *scaling.Decision) {
	*k = packedDecision{
		Replicas: d.Replicas, Requested: d.Requested, Uncapped: d.Uncapped, Extra: d.Extra, Room: d.Room,
		Active: d.Active, Degraded: d.Degraded, Binding: d.Binding, Tied: d.Tied, BindingIndex: d.BindingIndex, TiedIndex: d.TiedIndex,
		Proposals: d.Proposals, Status: d.Status, EarliestScaleDown: d.EarliestScaleDown, ScaleDownRule: d.ScaleDownRule, Plan: d.Plan,
		CapCause: d.CapCause, Reasons: append(k.Reasons[:0], d.Reasons.All()...),
	}
}

// unpack returns the decision that the method set has stored.
func (k *packedDecision) unpack() scaling.Decision {
	return scaling.Decision{
		Replicas: k.Replicas, Requested: k.Requested, Uncapped: k.Uncapped, Extra: k.Extra, Room: k.Room,
		Active: k.Active, Degraded: k.Degraded, Binding: k.Binding, Tied: k.Tied, BindingIndex: k.BindingIndex, TiedIndex: k.TiedIndex,
		Proposals: k.Proposals, Status: k.Status, EarliestScaleDown: k.EarliestScaleDown, ScaleDownRule: k.ScaleDownRule, Plan: k.Plan,
		CapCause: k.CapCause, Reasons: scaling.ReasonsOf(k.Reasons),
	}
}

// packedView contains the same values as a View in half of the memory. The fields that few workloads use are in seldom.
type packedView struct {
	UID                               string
	Replicas, Ready, Loading, Pending int32
	GPUs                              int32
	MinReplicas, MaxReplicas          int32
	HPADesired                        int32
	Version                           uint64
	Started                           *planner.ReplicaStarts
	HPAKind, HPAName                  string
	HPAExact                          bool
	seldom                            *seldomView // nil: the fields of a seldomView have the values of noSeldomView
}

// seldomView contains the fields of a View that few workloads use: problems of pods, the settings that a user made by annotations, and the
// limits and additions of a capacity group or a team.
type seldomView struct {
	Crashing    int32
	CrashingPod string
	Rejected    int32
	Rejection   Rejection
	Operator    scaling.Operator
	OperatorBy  string
	HPAWhy      string
	Advice      Advice
	Limit       scaling.TeamLimit
}

var noSeldomView = seldomView{Operator: scaling.NoOperator}

// set replaces the stored view by v and reuses the memory of the stored view.
func (k *packedView) set(v *View) {
	seldom := seldomView{
		Crashing: v.Crashing, CrashingPod: v.CrashingPod, Rejected: v.Rejected, Rejection: v.Rejection, Operator: v.Operator,
		OperatorBy: v.OperatorBy, HPAWhy: v.ManagedHPA.Why, Advice: v.Advice, Limit: v.Limit,
	}
	stored := k.seldom
	if seldom == noSeldomView {
		stored = nil
	} else {
		if stored == nil {
			stored = new(seldomView)
		}
		*stored = seldom
	}
	*k = packedView{
		UID: v.UID, Replicas: v.Replicas, Ready: v.Ready, Loading: v.Loading, Pending: v.Pending, GPUs: v.GPUs,
		MinReplicas: v.MinReplicas, MaxReplicas: v.MaxReplicas, Version: v.Version, Started: v.Started,
		HPAKind: v.ManagedHPA.Kind, HPAName: v.ManagedHPA.Name, HPADesired: v.ManagedHPA.Desired, HPAExact: v.ManagedHPA.Exact,
		seldom: stored,
	}
}

// unpack returns the view that the method set has stored.
func (k *packedView) unpack() View {
	seldom := k.seldom
	if seldom == nil {
		seldom = &noSeldomView
	}
	return View{
		UID: k.UID, Replicas: k.Replicas, Ready: k.Ready, Loading: k.Loading, Pending: k.Pending, GPUs: k.GPUs,
		MinReplicas: k.MinReplicas, MaxReplicas: k.MaxReplicas, Version: k.Version, Started: k.Started,
		ManagedHPA: ManagedHPA{Kind: k.HPAKind, Name: k.HPAName, Desired: k.HPADesired, Exact: k.HPAExact, Why: seldom.HPAWhy},
		Crashing:   seldom.Crashing, CrashingPod: seldom.CrashingPod, Rejected: seldom.Rejected, Rejection: seldom.Rejection,
		Operator: seldom.Operator, OperatorBy: seldom.OperatorBy, Advice: seldom.Advice, Limit: seldom.Limit,
	}
}

func (k *packedView) operator() scaling.Operator {
	if k.seldom == nil {
		return scaling.NoOperator
	}
	return k.seldom.Operator
}
