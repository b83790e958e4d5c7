package karpenter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The owner of a Deployment with one replica sets karpenter.sh/do-not-disrupt, so Karpenter does not replace its node when it drifts.
// gpuscaler adds a second replica, which gets a node of the new template, and deletes the first one when the second is ready. Karpenter
// then removes the drifted node because it is empty. A ready replica exists all the time.
func TestOnlyReplicaLeavesADriftedNodeWithoutAGap(t *testing.T) {
	t.Parallel()
	const ns = "drift"
	nodes := pool{name: ns + "-od", kind: "on-demand", weight: 20, nudge: allFields, by: clientSide}
	nodes.create(t)
	chat(t, ns, nil)
	edit(t, ns, `{"spec":{"template":{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"true"}}}}}`)
	g := start(t, ns, map[string]string{"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, " +
		"nodePools: {on-demand: " + nodes.name + "}}\n"), "chat.yaml": chatPolicy(ns)})
	g.load(t, map[string]float64{ns + "/chat": 1})
	stack.Eventually(t, 2*time.Minute, "one replica is ready", workload.HasReplicas(suite.Client, ns, "chat", 1))
	before, err := podsOf(t.Context(), ns)
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}

	least := watchReady(t, ns, "chat")
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
	if n := least.Load(); n < 1 {
		t.Error("no replica was ready for some time")
	}
	stack.Eventually(t, 30*time.Second, "no pod has a deletion cost", unmarked(ns))
	g.load(t, map[string]float64{ns + "/chat": 0})
}
