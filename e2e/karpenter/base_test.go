package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// hasWeight returns a check that a NodePool has the given weight.
func (p pool) hasWeight(want int64) func(context.Context) error {
	return func(ctx context.Context) error {
		if w, _, _ := unstructured.NestedInt64(p.get(ctx).Object, "spec", "weight"); w != want {
			return fmt.Errorf("weight %d, not %d", w, want)
		}
		return nil
	}
}

// With onDemandBaseCapacity 1 the first replica must be on-demand and all others on spot. Karpenter's consolidation of both NodePools
// must not change this. Karpenter launches nodes within half a minute of real time, so this test does not use the usual fast clock.
func TestLongOnDemandBaseStaysOnDemand(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("two minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	busy := func(spec map[string]any) {
		atOnce(spec)
		spec["disruption"].(map[string]any)["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
	}
	spot := pool{name: "base-spot", kind: "spot", weight: 80, nudge: allFields, by: serverSide, edit: busy}
	demand := pool{name: "base-od", kind: "on-demand", weight: 20, nudge: allFields, by: clientSide, edit: busy}
	pools, contents := []pool{spot, demand}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	chat(t, "base", nil)
	for _, p := range pools {
		contents[p.name] = p.content(t)
	}
	platform := func(base string) string {
		return controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, " + base + "nodePools: {spot: base-spot, " +
			"on-demand: base-od}}\n")
	}
	g := startAt(t, 2, "base", map[string]string{"platform.yaml": platform("onDemandBaseCapacity: 1, "), "chat.yaml": chatPolicy("base")})
	g.load(t, map[string]float64{"base/chat": 0})
	stack.Eventually(t, 2*time.Minute, "on-demand has the higher weight", demand.hasWeight(81))
	stack.Eventually(t, 30*time.Second, "the limit of on-demand is one", func(ctx context.Context) error {
		if limit := demand.limitNow(ctx); limit != "1" {
			return errors.New("limit " + limit)
		}
		return nil
	})
	g.load(t, map[string]float64{"base/chat": 3})
	g.group(t, time.Minute, "one on-demand node, two spot nodes", on(2, 1))
	claims := watchClaims(t, "base")
	initial := claims.alive()
	stack.Always(t, 45*time.Second, "all three nodes stay", func(context.Context) error {
		if now := claims.alive(); !maps.Equal(now, initial) {
			return fmt.Errorf("%v, of %v: %v", now, initial, claims.ended())
		}
		return nil
	})
	g.explained(t, "on-demand base: ")
	g.write(t, "platform.yaml", platform(""))
	// The demand is set to 0 before the restore, so that no replica must return to spot. gpuscaler would wait 15 minutes before a return,
	// unless spot has failed before.
	g.load(t, map[string]float64{"base/chat": 0})
	stack.Eventually(t, 2*time.Minute, "without a base the NodePools are restored", func(context.Context) error {
		for _, p := range pools {
			if content := p.content(t); content != contents[p.name] {
				return fmt.Errorf("%s by %s differs:\n%s\nbefore:\n%s", p.name, p.by, content, contents[p.name])
			}
		}
		return nil
	})
}

// Another writer changes an overridden field. gpuscaler must keep the new value. After the third change by another writer, it must not
// override the field again for a long time.
func TestFieldThatIsOverwrittenThreeTimesIsNotOverridden(t *testing.T) {
	t.Parallel()
	p := pool{name: "fight-od", kind: "on-demand", weight: 20, nudge: allFields, by: clientSide}
	p.create(t)
	g := start(t, "fight", map[string]string{"platform.yaml": controller.Platform(`capacityGroups:
- name: gpu
  resource: nvidia.com/gpu
  nodePools: {on-demand: fight-od}
  schedules: [{name: always, timezone: UTC, from: "2020-01-01", until: "2099-12-31", weight: 33}]
`)})
	for range 3 {
		stack.Eventually(t, time.Minute, "the schedule's weight is set", p.hasWeight(33))
		touch(t, p, `{"spec":{"weight":20}}`)
		stack.Eventually(t, 20*time.Second, "gpuscaler yields to an edit", func(context.Context) error {
			s, err := g.status()
			if err == nil && len(s.Groups["gpu"].Overrides) > 0 {
				err = fmt.Errorf("still ours: %q", s.Groups["gpu"].Overrides)
			}
			return err
		})
		if err := p.hasWeight(20)(t.Context()); err != nil {
			t.Errorf("the edit was reverted: %v", err)
		}
	}
	g.group(t, 10*time.Second, "the group reports the third conflict", func(s fastGroup) error {
		if !strings.Contains(fmt.Sprint(s.Findings), "another field manager changed weight 3 times: gpuscaler does not change it before") {
			return fmt.Errorf("findings %q", s.Findings)
		}
		return nil
	})
	stack.Always(t, 25*time.Second, "the field is not overridden", p.hasWeight(20))
}
