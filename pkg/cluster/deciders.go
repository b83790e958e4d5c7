package cluster

import (
	"cmp"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// deciders is what the policies in force say about targets; nil where no policies were given.
type deciders struct {
	byKey    map[scaling.Key]*scaling.Workload
	byTarget map[ref][]string
}

// deciders is made anew only when the policies changed, which shows in the slice itself.
func (c *Cluster) deciders() *deciders {
	if c.options.Policies == nil {
		return nil
	}
	all := c.options.Policies.Current()
	c.decidersMu.Lock()
	defer c.decidersMu.Unlock()
	if c.decidersNow != nil && sameSlice(all, c.decidersOf) {
		return c.decidersNow
	}
	d := &deciders{byKey: make(map[scaling.Key]*scaling.Workload, len(all)), byTarget: make(map[ref][]string, len(all))}
	for i := range all {
		w := &all[i]
		d.byKey[w.Key] = w
		r := refOfWorkload(w)
		d.byTarget[r] = append(d.byTarget[r], w.Key.Name)
	}
	for _, names := range d.byTarget {
		slices.SortFunc(names, cmp.Compare)
	}
	c.decidersOf, c.decidersNow = all, d
	return d
}

func sameSlice(a, b []scaling.Workload) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func withPolicies(h reader, d *deciders) Facts {
	f := h.facts
	if d == nil {
		return f
	}
	f.PoliciesKnown = true
	f.Deciders = d.byTarget[h.hpa.target]
	w := d.byKey[scaling.Key{Namespace: h.hpa.Namespace, Name: h.hpa.policy}]
	if h.hpa.scaledObject != "" && len(f.Deciders) > 0 {
		w = d.byKey[scaling.Key{Namespace: h.hpa.Namespace, Name: f.Deciders[0]}]
	}
	if w != nil {
		f.Policy = factsOf(w, h.hpa.target)
	}
	return f
}

func factsOf(w *scaling.Workload, target ref) *PolicyFacts {
	return &PolicyFacts{
		Name: w.Key.Name, SameTarget: refOfWorkload(w) == target, MinReplicas: w.Policy.MinReplicas, MaxReplicas: w.Policy.MaxReplicas,
		Advisory: w.Mode == scaling.Advisory, CooldownPeriod: w.Policy.CooldownPeriod,
		ReadsTriggers: slices.ContainsFunc(w.Policy.Signals, func(s scaling.Signal) bool { return s.Type == "keda" }),
	}
}

// decider is the policy whose number a ScaledObject's trigger asks for: the one that its metadata names, else that of its name, else
// whichever decides for its target; nil where there is none.
func (d *deciders) decider(s *scaledObjectFacts) *scaling.Workload {
	if name := s.metadata["policy"]; name != "" {
		return d.byKey[scaling.Key{Namespace: s.Namespace, Name: name}]
	}
	if w := d.byKey[scaling.Key{Namespace: s.Namespace, Name: s.Name}]; w != nil && refOfWorkload(w) == s.target {
		return w
	}
	if names := d.byTarget[s.target]; len(names) > 0 {
		return d.byKey[scaling.Key{Namespace: s.Namespace, Name: names[0]}]
	}
	return nil
}
