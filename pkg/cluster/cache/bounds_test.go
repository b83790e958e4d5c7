package cache

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The bounds of an HPA or ScaledObject can be narrower than the bounds of the policy. The HPA then does not follow every target, and the
// view of the workload must contain the reason.
func TestHPAWithNarrowerBoundsIsNotExact(t *testing.T) {
	for _, c := range []struct {
		low, high int32 // bounds of the policy
		min, max  int32 // bounds of the HPA
		why       string
	}{
		{1, 40, 1, 40, ""},
		{0, 40, 1, 40, ""}, // below minReplicas of the HPA, gpuscaler itself scales between 1 and 0
		{3, 40, 3, 40, ""},
		{5, 20, 1, 40, ""},
		{1, 41, 1, 40, "its maxReplicas 40 is below the policy's maxReplicas 41"},
		{1, 40, 4, 40, "its minReplicas 4 is above the policy's minReplicas 1: it never has fewer than 4 replicas"},
		{1, 20, 30, 40, "its minReplicas 30 is above the policy's maxReplicas 20: it never has fewer than 30 replicas"},
		{1, 20, 30, 10, "its minReplicas 30 is above the policy's maxReplicas 20: it never has fewer than 30 replicas"},
	} {
		h := fixture.HPA("chat", "chat", "chat")
		h.Spec.MinReplicas, h.Spec.MaxReplicas = fixture.Ptr(c.min), c.max
		w := New(0)
		w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
		w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(h)))
		p := fixture.Workload("chat")
		p.Policy = &scaling.Policy{MinReplicas: c.low, MaxReplicas: c.high}
		if v, _ := w.View(p); v.ManagedHPA.Exact != (c.why == "") || v.ManagedHPA.Why != c.why {
			t.Errorf("policy %d to %d, HPA %d to %d: exact %v, %q, want %q", c.low, c.high, c.min, c.max, v.ManagedHPA.Exact,
				v.ManagedHPA.Why, c.why)
		}
	}
	why := objects.Narrower(objects.Range{Min: 1, Max: 40}, objects.Range{Min: 0, Max: 40}, true)
	if why != "its minReplicas 1 is above the policy's minReplicas 0: it never has fewer than 1 replicas" {
		t.Errorf("a ScaledObject scales to zero itself: %q", why)
	}
}
