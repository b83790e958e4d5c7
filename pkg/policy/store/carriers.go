package store

import (
	"cmp"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// CarrierStatus is the status of the policies in one HPA, ScaledObject or ConfigMap: which of them the store accepted and which it refused.
// It is written to an annotation of that object.
type CarrierStatus struct {
	Kind, Namespace, Name string
	// State is InForce if the engine uses the policies as written. If a policy has an error, State is LastValid if the engine uses the last
	// valid version of an object's policy, and otherwise Refused. It is empty if the result is not known yet.
	State    State
	Workload *scaling.Workload // the policy of an HPA or a ScaledObject that the engine uses; nil: it uses none
	InForce  []string          // the policies of a ConfigMap that the engine uses as written, as in ConfigMapStatus
	Problems []policy.Problem
}

// StatusRevision returns a number that increases each time the result of CarrierStatuses may have changed.
func (s *Store) StatusRevision() uint64 { return s.statusRevision.Load() }

// CarrierStatuses returns the status of each object that contains a policy of a team with policyStatus: true, sorted by kind, namespace and
// name. known is false while a change waits for Publish. It is also false while the PlatformConfig cannot be read, because it is then
// unknown which teams have policyStatus.
func (s *Store) CarrierStatuses() (all []CarrierStatus, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded || s.dirty.Load() || s.configMapsChanged.Load() || s.platform.Unreadable {
		return nil, false
	}
	reported := map[string]bool{}
	for i := range s.platform.Teams {
		for _, namespace := range s.platform.Teams[i].Namespaces {
			reported[namespace] = s.platform.Teams[i].PolicyStatus
		}
	}
	for _, o := range s.objects {
		if reported[o.Namespace] {
			all = append(all, o.carrierStatus())
		}
	}
	for _, c := range s.configMaps {
		if reported[c.namespace] {
			all = append(all, s.carrierStatus(c))
		}
	}
	slices.SortFunc(all, func(a, b CarrierStatus) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, true
}

func (o *object) carrierStatus() CarrierStatus {
	st := o.status()
	out := CarrierStatus{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, State: st.State, Problems: st.Problems}
	if o.compiled != nil && st.State != Refused {
		out.Workload = &o.compiled.Workload
	}
	if out.State != InForce && policy.Errors(out.Problems) == 0 {
		out.State = ""
	}
	return out
}

func (s *Store) carrierStatus(c *configMap) CarrierStatus {
	st := s.configMapStatus(c)
	out := CarrierStatus{Kind: "ConfigMap", Namespace: c.namespace, Name: c.name, InForce: st.InForce, Problems: st.Problems}
	switch {
	case policy.Errors(st.Problems) > 0:
		out.State = Refused
	case len(st.InForce) > 0 || len(st.Problems) > 0:
		out.State = InForce
	}
	return out
}
