package cluster

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// An HPA or ScaledObject whose bounds are narrower than the policy's does not follow every target.
func TestAFollowerWithNarrowerBoundsIsNotExact(t *testing.T) {
	for _, c := range []struct {
		low, high int32 // of the policy
		min, max  int32 // of the HPA
		why       string
	}{
		{1, 40, 1, 40, ""},
		{0, 40, 1, 40, ""}, // the activator takes the step between 1 and 0
		{3, 40, 3, 40, ""},
		{5, 20, 1, 40, ""},
		{1, 41, 1, 40, "its maxReplicas 40 is below the policy's maxReplicas 41"},
		{1, 40, 4, 40, "its minReplicas 4 is above the policy's minReplicas 1: it never has fewer than 4 replicas"},
		{1, 20, 30, 40, "its minReplicas 30 is above the policy's maxReplicas 20: it never has fewer than 30 replicas"},
		{1, 20, 30, 10, "its minReplicas 30 is above the policy's maxReplicas 20: it never has fewer than 30 replicas"},
	} {
		h := exactHPA("chat", "chat", "chat")
		h.Spec.MinReplicas, h.Spec.MaxReplicas = ptr(c.min), c.max
		w := newWorld()
		w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
		w.putHPA(nil, must(trimHPA(h)).(*hpaFacts))
		p := workload("chat")
		p.Policy = &scaling.Policy{MinReplicas: c.low, MaxReplicas: c.high}
		if v, _ := w.view(p); v.ManagedHPA.Exact != (c.why == "") || v.ManagedHPA.Why != c.why {
			t.Errorf("policy %d to %d, HPA %d to %d: exact %v, %q, want %q", c.low, c.high, c.min, c.max, v.ManagedHPA.Exact, v.ManagedHPA.Why, c.why)
		}
	}
	if why := narrower(bounds{1, 40}, bounds{0, 40}, true); why != "its minReplicas 1 is above the policy's minReplicas 0: it never has fewer than 1 replicas" {
		t.Errorf("a ScaledObject takes the last replica itself: %q", why)
	}
}
