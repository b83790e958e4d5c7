package cluster

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Annotated takes the policies that HPAs and ScaledObjects carry in their annotations; policy's Store.
type Annotated interface {
	SetObject(store.Object) []policy.Problem
	DeleteObject(kind, namespace, name string)
	ObjectProblems(kind, namespace, name string) []policy.Problem
}

// carryHPA hands an HPA's annotations on. One that a ScaledObject made carries a copy of that object's, which would count twice.
func (c *Cluster) carryHPA(h *hpaFacts) {
	if c.options.Annotated == nil || h.scaledObject != "" {
		return
	}
	c.options.Annotated.SetObject(store.Object{
		Kind: kindHPA, Namespace: h.Namespace, Name: h.Name, Target: h.scales, Annotations: h.annotations,
		MinReplicas: h.min, MaxReplicas: h.max,
	})
}

func (c *Cluster) carryScaledObject(s *scaledObjectFacts) {
	if c.options.Annotated == nil {
		return
	}
	o := store.Object{
		Kind: kindScaledObject, Namespace: s.Namespace, Name: s.Name, Target: s.scales, Annotations: s.annotations,
		Metadata: s.metadata, MinReplicas: s.min, MaxReplicas: s.max, Triggers: s.triggers,
	}
	if s.cooldown >= 0 {
		cooldown := time.Duration(s.cooldown) * time.Second
		o.CooldownPeriod = &cooldown
	}
	c.options.Annotated.SetObject(o)
}

func (c *Cluster) dropCarrier(kind, namespace, name string) {
	if c.options.Annotated != nil {
		c.options.Annotated.DeleteObject(kind, namespace, name)
	}
}

// policyProblems lists what is wrong with the policies that objects carry.
func (c *Cluster) policyProblems() (all []problem) {
	if c.options.Annotated == nil {
		return nil
	}
	for _, about := range c.world.carriers() {
		for _, p := range c.options.Annotated.ObjectProblems(about.Kind, about.Namespace, about.Name) {
			all = append(all, problem{about, p.String()})
		}
	}
	return all
}

// targetOr fills in what KEDA and policies leave out: a Deployment.
func targetOr(apiVersion, kind, name string) scaling.Target {
	if kind == "" {
		kind = "Deployment"
	}
	if apiVersion == "" {
		apiVersion = "apps/v1"
	}
	return scaling.Target{APIVersion: apiVersion, Kind: kind, Name: name}
}
