package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
)

// Nodes that the cloud provider interrupts must count as spot losses. Nodes that Karpenter removes must not count as spot losses.
func TestLongInterruptionsAreDistinguishedFromConsolidation(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("two minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	spot := pool{name: "storm-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide}
	demand := pool{name: "storm-od", kind: "on-demand", weight: 20, nudge: allFields, by: clientSide}
	for _, p := range []pool{spot, demand} {
		p.create(t)
	}
	chat(t, "storm", nil)
	g := start(t, "storm", map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, nodePools: {spot: storm-spot, " +
			"on-demand: storm-od}}\n"),
		"chat.yaml": chatPolicy("storm"),
	})
	g.load(t, map[string]float64{"storm/chat": 4})
	g.group(t, time.Minute, "four spot nodes", on(4, 0))
	g.load(t, map[string]float64{"storm/chat": 0})
	g.group(t, 90*time.Second, "Karpenter removes four empty nodes", on(0, 0))
	g.group(t, 10*time.Second, "the phase does not change", phase("prefer spot"))

	g.load(t, map[string]float64{"storm/chat": 4})
	g.group(t, time.Minute, "four spot nodes again", on(4, 0))
	var claims v1.NodeClaimList
	if err := suite.Client.List(t.Context(), &claims, client.MatchingLabels{"karpenter.sh/nodepool": spot.name}); err != nil {
		t.Fatal(err)
	}
	for i := range claims.Items {
		interrupt(t, &claims.Items[i])
	}
	g.group(t, 20*time.Second, "the group falls back", func(s fastGroup) error {
		if s.Phase != "fallback" {
			return errors.New("phase " + s.Phase)
		}
		return nil
	})
	g.group(t, time.Minute, "on-demand replaces spot", func(s fastGroup) error {
		if s.SpotNodes != 0 || s.OnDemandNodes != 4 {
			return fmt.Errorf("%d on spot, %d on demand", s.SpotNodes, s.OnDemandNodes)
		}
		return nil
	})
	g.explained(t, "spot fallback: the provider took nodes of NodePool storm-spot")
}

// interrupt simulates an interruption as a cloud provider's controller reports it: it writes an Event for the NodeClaim and deletes the
// NodeClaim.
func interrupt(t *testing.T, c *v1.NodeClaim) {
	t.Helper()
	if err := notice(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := suite.Client.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// notice writes the Event with which AWS's provider announces the interruption of a NodeClaim.
func notice(ctx context.Context, c *v1.NodeClaim) error {
	now := metav1.Now()
	return suite.Client.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: c.Name + ".interrupted"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: c.Name, UID: c.UID},
		Reason:         "SpotInterrupted", Message: "the provider takes " +
			"it", Type: corev1.EventTypeWarning, FirstTimestamp: now, LastTimestamp: now,
	})
}
