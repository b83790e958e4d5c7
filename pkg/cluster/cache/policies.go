package cache

import (
	"slices"
	"sync/atomic"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Policies finds the policy that applies to an HPA or a ScaledObject. It is safe for concurrent use.
type Policies struct {
	source engine.Policies
	index  atomic.Pointer[PolicyIndex]
}

// NewPolicies returns Policies that read from source. If source is nil, Known returns false and no policy is found.
func NewPolicies(source engine.Policies) *Policies { return &Policies{source: source} }

// Known reports whether there is a source of policies.
func (p *Policies) Known() bool { return p.source != nil }

// Current returns the current policies. It returns nil if there is no source.
func (p *Policies) Current() []scaling.Workload {
	if p.source == nil {
		return nil
	}
	return p.source.Current()
}

// PolicyIndex finds policies by key and by scale target. The methods of a nil PolicyIndex find nothing.
type PolicyIndex struct {
	from     []scaling.Workload // the policies from which the index was built
	byKey    map[scaling.Key]*scaling.Workload
	byTarget map[Ref][]string
}

// Index returns the index of the current policies. It returns nil if there is no source. The index is rebuilt only if the source returns
// another slice than before. This is sufficient, because a source never changes a slice that it has returned.
func (p *Policies) Index() *PolicyIndex {
	if p.source == nil {
		return nil
	}
	all := p.source.Current()
	x := p.index.Load()
	if x == nil || !sameSlice(all, x.from) {
		x = newPolicyIndex(all)
		p.index.Store(x)
	}
	return x
}

func newPolicyIndex(all []scaling.Workload) *PolicyIndex {
	x := &PolicyIndex{from: all, byKey: make(map[scaling.Key]*scaling.Workload, len(all)), byTarget: make(map[Ref][]string, len(all))}
	for i := range all {
		w := &all[i]
		x.byKey[w.Key] = w
		r := RefOfWorkload(w)
		x.byTarget[r] = append(x.byTarget[r], w.Key.Name)
	}
	for _, names := range x.byTarget {
		slices.Sort(names)
	}
	return x
}

// HPAFacts returns h.Facts with added data about policies: the policy that the HPA selects, and all policies for its scale target.
func (x *PolicyIndex) HPAFacts(h ReadingHPA) objects.HPAFacts {
	f := h.Facts
	if x == nil {
		return f
	}
	f.PoliciesKnown = true
	f.Deciders = x.byTarget[h.HPA.Target]
	name := h.HPA.policy
	if h.HPA.ScaledObject != "" && len(f.Deciders) > 0 {
		name = f.Deciders[0]
	}
	f.Policy = policyFacts(x.byKey[scaling.Key{Namespace: h.HPA.Namespace, Name: name}], h.HPA.Target)
	return f
}

// ScaledObjectFacts returns the data about the policy of a ScaledObject that its checks need. It returns nil if the ScaledObject has no
// policy.
func (x *PolicyIndex) ScaledObjectFacts(s *ScaledObject) *objects.PolicyFacts {
	return policyFacts(x.Decider(s), s.Target)
}

func policyFacts(w *scaling.Workload, target Ref) *objects.PolicyFacts {
	if w == nil {
		return nil
	}
	return &objects.PolicyFacts{
		Name: w.Key.Name, SameTarget: RefOfWorkload(w) == target, MinReplicas: w.Policy.MinReplicas, MaxReplicas: w.Policy.MaxReplicas,
		Advisory: w.Mode == scaling.Advisory, CooldownPeriod: w.Policy.CooldownPeriod,
		ReadsTriggers: slices.ContainsFunc(w.Policy.Signals, func(s scaling.Signal) bool { return s.Type == "keda" }),
	}
}

// Decider returns the policy whose target gpuscaler serves to the trigger of a ScaledObject. If the trigger's metadata contains a policy
// name, it is the policy with this name. Otherwise it is the policy with the name and the scale target of the ScaledObject. If no such
// policy exists, it is the first policy by name with that scale target. Decider returns nil if no policy is found.
func (x *PolicyIndex) Decider(s *ScaledObject) *scaling.Workload {
	if x == nil {
		return nil
	}
	if name := s.metadata["policy"]; name != "" {
		return x.byKey[scaling.Key{Namespace: s.Namespace, Name: name}]
	}
	if w := x.byKey[scaling.Key{Namespace: s.Namespace, Name: s.Name}]; w != nil && RefOfWorkload(w) == s.Target {
		return w
	}
	if names := x.byTarget[s.Target]; len(names) > 0 {
		return x.byKey[scaling.Key{Namespace: s.Namespace, Name: names[0]}]
	}
	return nil
}
