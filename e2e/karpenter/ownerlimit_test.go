package karpenter_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// The spot NodePool has reached its owner's limit of GPUs, so Karpenter launches further nodes as on-demand. In the next test, the limit is
// a number of nodes. gpuscaler must report the limit. It must not add replicas for a return to spot that the limit prevents, and must not
// freeze consolidation. After the owner raises the limit, the replicas must return to spot.
func TestSpotPoolAtItsOwnersLimitIsReportedAndReturnsAfterTheLimitIsRaised(t *testing.T) {
	t.Parallel()
	atOwnersLimit(t, "fullgpus", "nvidia.com/gpu", `{"spec":{"limits":{"nvidia.com/gpu":4}}}`)
}

func TestLongSpotPoolAtItsOwnersLimitOfNodesReturnsAfterTheLimitIsRaised(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("four minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	atOwnersLimit(t, "fullnodes", "nodes", `{"spec":{"limits":{"nodes":4}}}`)
}

func atOwnersLimit(t *testing.T, name, resource, raised string) {
	t.Helper()
	spot := pool{name: name + "-spot", kind: "spot", weight: 80, nudge: allFields, by: serverSide, edit: func(spec map[string]any) {
		spec["limits"] = map[string]any{resource: int64(2)}
	}}
	demand := pool{name: name + "-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide}
	spot.create(t)
	demand.create(t)
	chat(t, name, nil)
	g := start(t, name, map[string]string{"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, " +
		"nodePools: {spot: " + spot.name + ", on-demand: " + demand.name + "}}\n"), "chat.yaml": chatPolicy(name)})
	// The test starts with two replicas, because Karpenter can exceed a limit on the number of nodes if it launches several nodes at once:
	// it counts only nodes that already exist.
	g.load(t, map[string]float64{name + "/chat": 2})
	g.group(t, time.Minute, "two nodes on spot", on(2, 0))
	g.load(t, map[string]float64{name + "/chat": 4})
	g.group(t, time.Minute, "two nodes on spot, which is its limit, and two on demand", on(2, 2))

	// 30 seconds of real time are 15 minutes of the fast clock. Without the limit the return to spot would begin within this time.
	most := int32(0)
	stack.Always(t, 30*time.Second, "no replica surges and no node moves", func(context.Context) error {
		s, err := g.status()
		if err != nil {
			return err
		}
		now := s.Groups["gpu"]
		if most = max(most, now.Surge); most > 0 || now.SpotNodes != 2 || now.OnDemandNodes != 2 {
			return fmt.Errorf("surge %d, %d nodes on spot, %d on demand", most, now.SpotNodes, now.OnDemandNodes)
		}
		return nil
	})
	g.explained(t, "NodePool "+spot.name+" has reached limits["+resource+"]")

	touch(t, spot, raised)
	g.group(t, 2*time.Minute, "after the owner raised the limit, all replicas return to spot", on(4, 0))
	g.load(t, map[string]float64{name + "/chat": 0})
}
