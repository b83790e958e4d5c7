package karpenter_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The node of the only replica of a Deployment drifts, and the replica needs ten seconds to load its model. With maxReplicas 1, gpuscaler
// may add no second replica: Karpenter launches a node, evicts the replica, and no replica is ready until its successor has loaded the
// model. With maxReplicas 2, a second replica must be ready on a node of the new template before the old replica is deleted. The old
// replica is protected by karpenter.sh/do-not-disrupt in the pod template, or by the startupShield of the group.
func TestOnlyReplicaLeavesADriftedNodeWithoutAGap(t *testing.T) {
	t.Parallel()
	for ns, c := range map[string]struct {
		most                int
		protected, shielded bool
		gap                 bool // whether no replica is ready for some time
	}{
		"evicted":   {most: 1, gap: true},
		"protected": {most: 2, protected: true},
		"shielded":  {most: 2, shielded: true},
	} {
		t.Run(ns, func(t *testing.T) {
			t.Parallel()
			nodes := pool{name: ns + "-od", kind: "on-demand", weight: 20, nudge: allFields, by: clientSide}
			nodes.create(t)
			chat(t, ns, nil)
			loading(t, ns, 10*time.Second)
			if c.protected {
				edit(t, ns, `{"spec":{"template":{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"true"}}}}}`)
			}
			g := start(t, ns, map[string]string{
				"platform.yaml": controller.Platform(fmt.Sprintf("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, leadTime: 30m, "+
					"startupShield: %t, nodePools: {on-demand: %s}}\n", c.shielded, nodes.name)),
				"chat.yaml": strings.Replace(chatPolicy(ns), "maxReplicas: 20", fmt.Sprintf("maxReplicas: %d", c.most), 1),
			})
			g.load(t, map[string]float64{ns + "/chat": 1})
			stack.Eventually(t, 2*time.Minute, "one replica is ready", workload.HasReplicas(suite.Client, ns, "chat", 1))
			before, err := podsOf(t.Context(), ns)
			if err != nil || len(before) != 1 {
				t.Fatal(before, err)
			}

			gap := watchGap(t, ns)
			newLabel := []byte(`{"spec":{"template":{"metadata":{"labels":{"generation":"2"}}}}}`)
			if err := suite.Client.Patch(t.Context(), nodes.object(), client.RawPatch(types.MergePatchType, newLabel)); err != nil {
				t.Fatal(err)
			}
			stack.Eventually(t, 3*time.Minute, "one other replica is ready, on another node", func(ctx context.Context) error {
				pods, err := podsOf(ctx, ns)
				if err != nil || len(pods) != 1 || pods[0].UID == before[0].UID || pods[0].Spec.NodeName == before[0].Spec.NodeName {
					return fmt.Errorf("%d pods, %v", len(pods), err)
				}
				return workload.HasReplicas(suite.Client, ns, "chat", 1)(ctx)
			})
			g.group(t, time.Minute, "Karpenter removes the drifted node", on(0, 1))
			if !c.gap {
				g.explained(t, "surge before eviction: Karpenter replaces node "+before[0].Spec.NodeName)
			}
			lasted := time.Duration(gap.Load())
			t.Logf("no replica was ready for %v", lasted.Round(100*time.Millisecond))
			if (lasted > 0) != c.gap {
				t.Errorf("no replica was ready for %v", lasted)
			}
			stack.Eventually(t, 30*time.Second, "no pod has an annotation of gpuscaler", unmarked(ns))
			g.load(t, map[string]float64{ns + "/chat": 0})
		})
	}
}

// watchGap returns a counter of the time, in nanoseconds, in which no pod of the Deployment chat was ready. The counter is updated until
// the test ends.
func watchGap(t *testing.T, namespace string) *atomic.Int64 {
	t.Helper()
	total := &atomic.Int64{}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for last := time.Now(); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			n, err := readyNow(ctx, namespace, "chat")
			now := time.Now()
			if err == nil && n == 0 {
				total.Add(int64(now.Sub(last)))
			}
			last = now
		}
	}()
	return total
}
