package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

func TestLongSpotWaitTimeoutIsPlannedSetAndRemovedWithoutSignals(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("a minute: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	spot := pool{name: "wait-spot", kind: "spot", weight: 80, nudge: allFields, by: serverSide}
	demand := pool{name: "wait-od", kind: "on-demand", weight: 20, nudge: allFields, by: clientSide}
	for _, p := range []pool{spot, demand} {
		p.create(t)
	}
	chat(t, "wait", nil)
	content := demand.content(t)
	platform := func(mode string) string {
		return controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, mode: " + mode + ", spotWaitTimeout: 4m, " +
			"nodePools: {spot: wait-spot, on-demand: wait-od}}\n")
	}
	g := start(t, "wait", map[string]string{"platform.yaml": platform("advisory"), "chat.yaml": chatPolicy("wait")})
	g.load(t, map[string]float64{"wait/chat": 0})
	limit := func(want string) func(context.Context) error {
		return func(ctx context.Context) error {
			if have := demand.limitNow(ctx); have != want {
				return fmt.Errorf("limit %s, want %s", have, want)
			}
			return nil
		}
	}

	g.group(t, 20*time.Second, "an advisory group plans a limit", func(s fastGroup) error {
		if len(s.Plan) != 1 || !strings.Contains(s.Plan[0], `wait-od spec.limits[nvidia.com/gpu]: (absent) -> "0"`) {
			return errors.New("no plan")
		}
		return nil
	})
	if now := demand.content(t); now != content {
		t.Errorf("an advisory group wrote:\n%s\nbefore:\n%s", now, content)
	}

	g.write(t, "platform.yaml", platform("auto"))
	stack.Eventually(t, 20*time.Second, "the limit of on-demand is the present usage of 0", limit("0"))
	g.load(t, map[string]float64{})
	stack.Eventually(t, 30*time.Second, "the limit is removed when signals are missing", limit("absent"))
	g.load(t, map[string]float64{"wait/chat": 0})
	stack.Eventually(t, 20*time.Second, "the limit is set again with signals", limit("0"))

	scarce(t, karpenter.Shortage{CapacityType: "spot"})
	asked := time.Now()
	g.load(t, map[string]float64{"wait/chat": 2})
	g.group(t, time.Minute, "on-demand nodes after the timeout", on(0, 2))
	if waited := time.Since(asked); waited < 4*time.Minute/speed {
		t.Errorf("on-demand nodes after %s, before the timeout of %s", waited, 4*time.Minute/speed)
	}
	g.group(t, 10*time.Second, "by a fallback", phase("fallback"))
	g.explained(t, "spot fallback: pods waited for NodePool wait-spot longer than spotWaitTimeout")
	g.load(t, map[string]float64{"wait/chat": 0})
}
