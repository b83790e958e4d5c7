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

// A market closes zone by zone, then altogether: what Karpenter can do alone is
// left to it, what nobody brings is not asked for, and spot that was closed by
// `fallback: hard` is closed.
func TestLongAMarketClosesZoneByZoneAndThenAltogether(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("three minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	spot := pool{name: "zone-spot", kind: "spot", weight: 80, nudge: allFields, by: updated, edit: atOnce}
	demand := pool{name: "zone-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide, limit: int64(64), edit: atOnce}
	pools, whole := []pool{spot, demand}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	chat(t, "zone", nil)
	for _, p := range pools {
		whole[p.name] = p.face(t)
	}
	platform := func(fallback string) string {
		return controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, fallback: " + fallback + ", nodePools: {spot: zone-spot, on-demand: zone-od}}\n")
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
	g.group(t, time.Minute, "two on spot", on(2, 0))
	before := zones(t, spot)
	scarce(t, without("spot", "zone-a")...)
	asks(4)
	g.group(t, time.Minute, "spot is gone from one zone: the other serves", on(4, 0))
	if now := zones(t, spot); now["zone-b"] < before["zone-b"]+2 {
		t.Errorf("the new ones are not in zone-b: %v, before %v", now, before)
	}
	pinned(t, map[string]string{"pool": spot.name, corev1.LabelTopologyZone: "zone-a"})
	job := lonelyJob(t, "zone", map[string]string{"pool": demand.name})
	g.group(t, 10*time.Second, "which is no reason to leave spot", phase("prefer spot"))

	scarce(t, noSpot...)
	asks(7)
	g.group(t, time.Minute, "spot is gone from both: on-demand takes over", on(4, 4))
	g.group(t, 20*time.Second, "the group falls back", phase("fallback"))

	scarce(t, append(noSpot, noDemand...)...)
	asks(12)
	capped := func(s fastGroup) error {
		if !s.Capped || s.Pending == 0 {
			return errors.New("it asks on")
		}
		return nil
	}
	g.group(t, 40*time.Second, "nobody brings more", capped)
	asks(15)
	stack.Eventually(t, 20*time.Second, "the target stops at what it has asked for", func(context.Context) error {
		s, err := g.status()
		if n := s.Numbers["zone/chat"]; err == nil && (n != 12 || s.Groups["gpu"].Demand != 16) {
			err = fmt.Errorf("%d of %d", n, s.Groups["gpu"].Demand)
		}
		return errors.Join(err, capped(s.Groups["gpu"]))
	})
	asks(12)
	scarce(t, noSpot...)
	g.group(t, time.Minute, "on-demand is there again, and all that is wanted comes", on(4, 9))

	g.write(t, "platform.yaml", platform("hard"))
	closed := func(ctx context.Context) error {
		if limit := spot.limitNow(ctx); limit != "4" {
			return errors.New("limit " + limit)
		}
		return nil
	}
	stack.Eventually(t, 20*time.Second, "hard: spot is closed at what runs", closed)
	scarce(t, noDemand...)
	asks(13)
	g.group(t, time.Minute, "on-demand is refused as well, and what waits comes on spot", on(5, 9))
	g.explained(t, "on demand: launches refused: zone-spot is not limited")
	g.write(t, "platform.yaml", platform("soft"))
	stack.Eventually(t, 20*time.Second, "soft: spot is open", func(ctx context.Context) error {
		if limit := spot.limitNow(ctx); limit != "absent" {
			return errors.New("limit " + limit)
		}
		return nil
	})

	scarce(t)
	asks(12)
	g.group(t, 2*time.Minute, "spot is tried", phase("probing"))
	stack.Eventually(t, 30*time.Second, "by a limit of one node more than runs there", func(ctx context.Context) error {
		s, err := g.status()
		if limit := spot.limitNow(ctx); limit != fmt.Sprint(s.Groups["gpu"].SpotNodes+1) && limit != fmt.Sprint(s.Groups["gpu"].SpotNodes) {
			return errors.Join(err, fmt.Errorf("limit %s with %d nodes", limit, s.Groups["gpu"].SpotNodes))
		}
		return err
	})
	asks(0)
	g.group(t, 2*time.Minute, "everybody goes home but the Job", on(0, 1))
	stack.Eventually(t, time.Minute, "the NodePools are as before", func(context.Context) error {
		for _, p := range pools {
			if face := p.face(t); face != whole[p.name] {
				return fmt.Errorf("%s by %s is not as before:\n%s\nbefore:\n%s", p.name, p.by, face, whole[p.name])
			}
		}
		return nil
	})
	var now corev1.Pod
	if err := suite.Client.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil || now.UID != job.UID {
		t.Errorf("the Job's pod is not the one that it was: %v", err)
	}
	g.explained(t, "spot fallback: launches refused", "CapacityConstrained: ", `limits[nvidia.com/gpu]: (absent) -> \"4\"  (spot fallback)`, "spot probe: the wait after the fallback is over: zone-spot may grow to ")
}

// atOnce lets all empty nodes go together: with the default of 10% nine of them
// take Karpenter minutes.
func atOnce(spec map[string]any) {
	spec["disruption"].(map[string]any)["budgets"] = []any{map[string]any{"nodes": "100%"}}
}

// pinned shows that the zone is closed: a pod that must be there is refused.
func pinned(t *testing.T, selector map[string]string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "zone", Name: "pinned"}, Spec: workload.Deployment("zone", "pinned", 1).Spec.Template.Spec}
	p.Spec.NodeSelector = selector
	workload.Create(t, suite.Client, p)
	stack.Eventually(t, 40*time.Second, "who must be in the closed zone is refused", func(ctx context.Context) error {
		if said := told(ctx, "zone-spot"); !strings.Contains(fmt.Sprint(said), "InsufficientCapacityError") {
			return fmt.Errorf("Karpenter says %q", said)
		}
		return nil
	})
	if err := suite.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// zones counts a pool's nodes by zone.
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
