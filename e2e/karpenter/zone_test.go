package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// A spot market loses the capacity of one zone after the other, until no zone has capacity. gpuscaler must not act while Karpenter can
// handle the loss alone, and must not request capacity that no NodePool can provide. With `fallback: hard` it must limit the spot
// NodePool to its current usage.
func TestLongMarketLosesZonesAndThenAllCapacity(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("three minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	spot := pool{name: "zone-spot", kind: "spot", weight: 80, nudge: allFields, by: updated, edit: atOnce}
	demand := pool{name: "zone-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide, limit: int64(64), edit: atOnce}
	pools, contents := []pool{spot, demand}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	chat(t, "zone", nil)
	for _, p := range pools {
		contents[p.name] = p.content(t)
	}
	platform := func(fallback string) string {
		return controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, fallback: " + fallback + ", nodePools: {spot: " +
			"zone-spot, on-demand: zone-od}}\n")
	}
	g := start(t, "zone", map[string]string{"platform.yaml": platform("soft"), "chat.yaml": chatPolicy("zone")})
	asks := func(n float64) { g.load(t, map[string]float64{"zone/chat": n}) }
	without := func(kind string, zones ...string) (out []karpenter.Shortage) {
		for _, zone := range zones {
			out = append(out, karpenter.Shortage{CapacityType: kind, InstanceType: spot.instance(), Zone: zone})
		}
		return out
	}
	noSpot, noDemand := without("spot", "zone-a", "zone-b"), without("on-demand", "zone-a", "zone-b")

	asks(2)
	g.group(t, time.Minute, "two spot nodes", on(2, 0))
	before := zones(t, spot)
	scarce(t, without("spot", "zone-a")...)
	asks(4)
	g.group(t, time.Minute, "the other zone provides spot", on(4, 0))
	if now := zones(t, spot); now["zone-b"] < before["zone-b"]+2 {
		t.Errorf("the new nodes are not in zone-b: %v, before %v", now, before)
	}
	expectNoCapacity(t, map[string]string{"pool": spot.name, corev1.LabelTopologyZone: "zone-a"})
	job := lonelyJob(t, "zone", map[string]string{"pool": demand.name})
	g.group(t, 10*time.Second, "the phase does not change", phase("prefer spot"))

	scarce(t, noSpot...)
	asks(7)
	g.group(t, time.Minute, "on-demand replaces spot in both zones", on(4, 4))
	g.group(t, 20*time.Second, "the group falls back", phase("fallback"))

	scarce(t, append(noSpot, noDemand...)...)
	asks(12)
	capped := func(s fastGroup) error {
		if !s.Capped || s.Pending == 0 {
			return errors.New("it requests more")
		}
		return nil
	}
	g.group(t, 40*time.Second, "no pool provides more", capped)
	asks(15)
	stack.Eventually(t, 20*time.Second, "the target does not increase", func(context.Context) error {
		s, err := g.status()
		if n := s.Numbers["zone/chat"]; err == nil && (n != 12 || s.Groups["gpu"].Demand != 16) {
			err = fmt.Errorf("%d of %d", n, s.Groups["gpu"].Demand)
		}
		return errors.Join(err, capped(s.Groups["gpu"]))
	})
	asks(12)
	scarce(t, noSpot...)
	g.group(t, time.Minute, "on-demand provides all requested nodes", on(4, 9))

	g.write(t, "platform.yaml", platform("hard"))
	closed := func(ctx context.Context) error {
		if limit := spot.limitNow(ctx); limit != "4" {
			return errors.New("limit " + limit)
		}
		return nil
	}
	stack.Eventually(t, 20*time.Second, "with fallback hard the limit of spot is its present usage", closed)
	scarce(t, noDemand...)
	asks(13)
	g.group(t, time.Minute, "without on-demand pending pods get spot nodes", on(5, 9))
	g.explained(t, "launches in NodePool zone-od failed for lack of capacity: gpuscaler does not limit spot NodePool zone-spot")
	g.write(t, "platform.yaml", platform("soft"))
	stack.Eventually(t, 20*time.Second, "with fallback soft spot has no limit", func(ctx context.Context) error {
		if limit := spot.limitNow(ctx); limit != "absent" {
			return errors.New("limit " + limit)
		}
		return nil
	})

	scarce(t)
	asks(12)
	g.group(t, 2*time.Minute, "spot is tried", phase("probing"))
	stack.Eventually(t, 30*time.Second, "the limit of spot is one node above its usage", func(ctx context.Context) error {
		s, err := g.status()
		if limit := spot.limitNow(ctx); limit != fmt.Sprint(s.Groups["gpu"].SpotNodes+1) && limit != fmt.Sprint(s.Groups["gpu"].SpotNodes) {
			return errors.Join(err, fmt.Errorf("limit %s with %d nodes", limit, s.Groups["gpu"].SpotNodes))
		}
		return err
	})
	asks(0)
	g.group(t, 2*time.Minute, "only the node of the Job is left", on(0, 1))
	stack.Eventually(t, time.Minute, "the NodePools are restored", func(context.Context) error {
		for _, p := range pools {
			if content := p.content(t); content != contents[p.name] {
				return fmt.Errorf("%s by %s differs:\n%s\nbefore:\n%s", p.name, p.by, content, contents[p.name])
			}
		}
		return nil
	})
	var now corev1.Pod
	if err := suite.Client.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil || now.UID != job.UID {
		t.Errorf("the Job's pod was replaced: %v", err)
	}
	g.explained(t, "spot fallback: launches in NodePool zone-spot failed for lack of capacity", "CapacityConstrained: ",
		`limits[nvidia.com/gpu]: (absent) -> \"4\"  (spot fallback)`,
		"spot probe: the fallback is over: NodePool zone-spot may grow by one node to ")
}

// atOnce sets a disruption budget that allows Karpenter to remove all empty nodes at the same time. With the default budget of 10%, it
// takes minutes to remove nine nodes.
func atOnce(spec map[string]any) {
	spec["disruption"].(map[string]any)["budgets"] = []any{map[string]any{"nodes": "100%"}}
}

// expectNoCapacity checks that Karpenter cannot launch a node in a zone: the launch for a pod that may run only in this zone fails.
func expectNoCapacity(t *testing.T, selector map[string]string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "zone", Name: "pinned"},
		Spec: workload.Deployment("zone", "pinned", 1).Spec.Template.Spec}
	p.Spec.NodeSelector = selector
	workload.Create(t, suite.Client, p)
	stack.Eventually(t, 40*time.Second, "a pod for the zone without capacity is rejected", func(ctx context.Context) error {
		if said := reported(ctx, "zone-spot"); !strings.Contains(fmt.Sprint(said), "InsufficientCapacityError") {
			return fmt.Errorf("Karpenter says %q", said)
		}
		return nil
	})
	if err := suite.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// zones returns the number of a pool's nodes by zone.
func zones(t *testing.T, p pool) map[string]int {
	t.Helper()
	var nodes corev1.NodeList
	if err := suite.Client.List(t.Context(), &nodes, client.MatchingLabels{"pool": p.name}); err != nil {
		t.Fatal(err)
	}
	in := map[string]int{}
	for _, n := range nodes.Items {
		in[n.Labels[corev1.LabelTopologyZone]]++
	}
	return in
}
