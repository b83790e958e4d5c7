package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// source is the kind of document that contains a policy.
type source uint8

// Values of source, in the order of precedence.
const (
	fromFile      source = iota // a file of the platform team
	fromConfigMap               // a ConfigMap of a team
	fromObject                  // only the annotations of an HPA or ScaledObject
)

// rank determines which of several policies with the same scale target takes precedence. Annotations that extend a policy do not change the
// rank of this policy. The rank does not depend on the order in which the documents were read, so it is the same after a restart.
type rank struct {
	source  source
	created time.Time // created and name belong to the ConfigMap; they are zero for other sources
	name    string
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(r.source, o.source), r.created.Compare(o.created), cmp.Compare(r.name, o.name))
}

// rankOf returns the rank of the policy in a document. If d is nil, only annotations define the policy.
func (s *Store) rankOf(d *document) rank {
	switch {
	case d == nil:
		return rank{source: fromObject}
	case !d.path.configMap:
		return rank{}
	}
	r := rank{source: fromConfigMap}
	if c := s.owner(d.File); c != nil {
		r.created, r.name = c.created, c.name
	}
	return r
}

// claim is a valid policy before resolve has checked whether another policy scales the same target.
type claim struct {
	compiled *policy.Compiled
	conflict *string // resolve sets it to the name of the policy that scales the target instead; empty: no other policy does
	rank     rank
}

// claims returns the valid policies, sorted by rank, namespace and name. The policy of an object (HPA or ScaledObject) replaces the policy
// of the same name in a file or ConfigMap.
func (s *Store) claims() []claim {
	for _, id := range s.blocked() {
		s.compileObject(s.objects[id])
	}
	all := make([]claim, 0, len(s.policies)+len(s.objects))
	for _, h := range s.policies {
		if h.conflict = ""; h.compiled == nil {
			continue
		}
		if s.carrier(h.compiled) == nil {
			all = append(all, claim{h.compiled, &h.conflict, s.rankOf(h.lastValid)})
		}
	}
	for _, o := range s.objects {
		if o.conflict = ""; o.compiled != nil && s.carriers[o.compiled.Workload.Key] == o.key() {
			all = append(all, claim{o.compiled, &o.conflict, s.rankOf(o.base)})
		}
	}
	slices.SortFunc(all, func(a, b claim) int { return cmp.Or(a.rank.compare(b.rank), byKey(a.compiled, b.compiled)) })
	return all
}

// carrier returns the object whose valid policy replaces the given policy of a document, because both have the same name. It returns nil if
// no object does.
func (s *Store) carrier(c *policy.Compiled) *object {
	if o := s.objects[s.carriers[c.Workload.Key]]; o != nil && o.compiled != nil {
		return o
	}
	return nil
}

// resolve returns the policies that the engine will use, sorted by namespace and name. If several policies have the same scale target, only
// one of them takes effect:
//
//   - the policy that already scales the target. It loses the target only if it is in a ConfigMap (or extends a policy in a ConfigMap) and
//     another policy is in a file of the platform team or in an older ConfigMap
//   - otherwise the first policy in the order of the method claims
//
// For each of the other policies, resolve stores the name of the policy that takes effect as the conflict.
func (s *Store) resolve() []*policy.Compiled {
	all := s.claims()
	first := map[targetKey]rank{} // rank of the first policy in all with the target; only set if there are ConfigMaps
	if slices.ContainsFunc(all, func(c claim) bool { return c.rank.source == fromConfigMap }) {
		for _, c := range slices.Backward(all) {
			first[targetOf(c.compiled)] = c.rank
		}
	}
	isNew := func(c claim) bool {
		target := targetOf(c.compiled)
		return s.owners[target] != c.compiled.Workload.Key.Name || c.rank.yieldsTo(first[target])
	}
	slices.SortStableFunc(all, func(a, b claim) int { return order(isNew(a), isNew(b)) })
	owners := make(map[targetKey]string, len(all))
	out := make([]*policy.Compiled, 0, len(all))
	for _, c := range all {
		target := targetOf(c.compiled)
		if other, taken := owners[target]; taken {
			*c.conflict = other
			continue
		}
		owners[target] = c.compiled.Workload.Key.Name
		out = append(out, c.compiled)
	}
	s.owners = owners
	slices.SortFunc(out, byKey)
	return out
}

// yieldsTo reports whether a policy of rank r that scales a target must leave the target to a policy of rank other. Only a policy in a
// ConfigMap must, so that a team cannot block a file of the platform team.
func (r rank) yieldsTo(other rank) bool { return r.source == fromConfigMap && other.compare(r) < 0 }

// yields reports whether the policy `owner`, which scales the target of an object, must leave the target to the object's policy.
func (s *Store) yields(owner string, o *object) bool {
	h := s.policies[spec.KindScalingPolicy+" "+o.Namespace+"/"+owner]
	return h != nil && h.compiled != nil && s.rankOf(h.lastValid).yieldsTo(s.rankOf(o.base))
}

// order compares two booleans for slices.SortFunc. false is sorted before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
