package karpenter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// One group has six NodePools: prepaid instances, spot in three zones, and on-demand in two zones. The owner's weights define the order
// in which Karpenter uses them. One zone refuses spot nodes and the spot nodes of another zone are lost, so the group falls back to
// on-demand. Karpenter must still use the prepaid instances first. When spot has capacity again, all replicas must leave on-demand.
// Without demand all six NodePools must have a zero limit, and at the end each of them must have its owner's values. The NodePool of the
// prepaid instances has the capacity type on-demand and a limit equal to the number of prepaid instances. The group lists it under
// reserved.
func TestLongGroupOfSixNodePoolsFromPrepaidOverSpotToOnDemandAndBack(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("three minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	prepaid := pool{name: "six-prepaid", kind: "on-demand", weight: 81, limit: int64(2), nudge: allFields, by: clientSide, edit: in("zone-a")}
	a := pool{name: "six-spot-a", kind: "spot", weight: 80, nudge: allFields, by: serverSide, edit: in("zone-a")}
	b := pool{name: "six-spot-b", kind: "spot", weight: 70, limit: int64(3), nudge: allFields, by: updated, edit: in("zone-b")}
	c := pool{name: "six-spot-c", kind: "spot", weight: 60, limit: "1", nudge: allFields, by: clientSide, edit: in("zone-c")}
	first := pool{name: "six-od-a", kind: "on-demand", weight: 20, limit: int64(1), nudge: allFields, by: serverSide, edit: in("zone-a")}
	second := pool{name: "six-od-b", kind: "on-demand", weight: 10, limit: int64(64), nudge: allFields, by: updated, edit: in("zone-b")}
	s := &six{pools: []pool{prepaid, a, b, c, first, second}, contents: map[string]string{}}
	for _, p := range s.pools {
		p.create(t)
	}
	chat(t, "six", nil)
	for _, p := range s.pools {
		s.contents[p.name] = p.content(t)
	}
	platform := func(zeroLimit bool) string {
		return controller.Platform(fmt.Sprintf("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, zeroLimit: %t, returnNodesPerHour: "+
			"60, nodePools: {reserved: six-prepaid, spot: [six-spot-a, six-spot-b, six-spot-c], on-demand: [six-od-a, six-od-b]}}\n", zeroLimit))
	}
	g := start(t, "six", map[string]string{"platform.yaml": platform(true), "chat.yaml": chatPolicy("six")})
	retryOften(t, "six")
	asks := func(n float64) { g.load(t, map[string]float64{"six/chat": n}) }
	asks(0)

	// The Job can run only on a prepaid instance. If zero limits are already set, the Job makes gpuscaler remove them before the test
	// creates pods that can run on any node.
	job := lonelyJob(t, "six", map[string]string{"pool": prepaid.name})
	stack.Eventually(t, time.Minute, "the Job removes the zero limits", s.restored(t))
	asks(2)
	stack.Eventually(t, 2*time.Minute, "prepaid instances are used first, and then zone-a", s.has(t, 2, 1, 0, 0, 0, 0))
	short := func(zone string, limit int) karpenter.Shortage {
		return karpenter.Shortage{CapacityType: "spot", InstanceType: a.instance(), Zone: zone, Limit: limit}
	}
	scarce(t, short("zone-a", 1))
	asks(5)
	stack.Eventually(t, 2*time.Minute, "zone-a refuses, and zone-b is next", s.has(t, 2, 1, 3, 0, 0, 0))
	asks(6)
	stack.Eventually(t, 2*time.Minute, "the NodePool of zone-b is at its owner's limit, and zone-c is next", s.has(t, 2, 1, 3, 1, 0, 0))
	g.group(t, 10*time.Second, "spot is used as long as one zone has capacity", phase("prefer spot"))
	if err := s.restored(t)(t.Context()); err != nil {
		t.Errorf("nothing had to be overridden: %v", err)
	}

	// From now on, zone-a rejects launches, zone-b interrupts all of its nodes and rejects launches, and zone-c is at its owner's limit.
	// gpuscaler may add reserve replicas because of the interruptions. These replicas also run on on-demand nodes.
	scarce(t, short("zone-a", 1), short("zone-b", 0))
	for _, claim := range s.claims(t, b) {
		interrupt(t, &claim)
	}
	g.group(t, time.Minute, "the group falls back", phase("fallback"))
	stack.Eventually(t, time.Minute, "on-demand is used before spot, and prepaid instances before on-demand", s.ordered)
	stack.Eventually(t, 2*time.Minute, "both on-demand NodePools replace the lost nodes", func(ctx context.Context) error {
		n, err := s.nodes(ctx)
		if err == nil && (n[a.name] != 1 || n[b.name] != 0 || n[c.name] != 1 || n[first.name] != 1 || n[second.name] < 2) {
			err = fmt.Errorf("nodes %v", n)
		}
		return err
	})
	if err := suite.Client.Delete(t.Context(), job, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	asks(7)
	stack.Eventually(t, 2*time.Minute, "the prepaid instance that the Job leaves is used before on-demand", func(ctx context.Context) error {
		ready, err := readyNow(ctx, "six", "chat")
		if n := s.chatOn(t, prepaid); err == nil && (ready < 7 || n != 2) {
			err = fmt.Errorf("%d ready, %d on prepaid instances", ready, n)
		}
		return err
	})
	least := watchReady(t, "six", "chat")
	scarce(t)
	s.returns(t, g, least)

	asks(0)
	stack.Eventually(t, 3*time.Minute, "all nodes are removed", s.has(t, 0, 0, 0, 0, 0, 0))
	stack.Eventually(t, 2*time.Minute, "all six NodePools have a zero limit", func(ctx context.Context) error {
		var all error
		for _, p := range s.pools {
			if limit := p.limitNow(ctx); limit != "0" {
				all = errors.Join(all, fmt.Errorf("%s: limit %s", p.name, limit))
			}
		}
		return all
	})
	g.explained(t, "no zero limit: ", "spot fallback: ", "Karpenter uses NodePools six-od-a and six-od-b first", "spot probe: ",
		"return to spot: ", "zero limit: no pod or policy requests nvidia.com/gpu")
	g.write(t, "platform.yaml", platform(false))
	stack.Eventually(t, time.Minute, "without the zero limit all six NodePools are restored", s.restored(t))
	undrifted(t, s.pools...)
}

// six contains the NodePools of the test in the order of their weights, and their content before the test.
type six struct {
	pools    []pool
	contents map[string]string
}

// returns waits until all replicas run on spot or prepaid instances and no override is left. The replicas move in batches. The number of
// ready replicas must never be below the demand.
func (s *six) returns(t *testing.T, g *fastProcess, least *atomic.Int64) {
	t.Helper()
	g.group(t, 3*time.Minute, "a probe of spot", phase("probing", "returning"))
	stack.Eventually(t, 5*time.Minute, "no replica is left on demand", func(ctx context.Context) error {
		n, err := s.nodes(ctx)
		if err == nil && n["six-od-a"]+n["six-od-b"] > 0 {
			err = fmt.Errorf("nodes %v", n)
		}
		return err
	})
	if n := least.Load(); n < 7 {
		t.Errorf("at one time only %d of 7 required replicas were ready", n)
	}
	g.group(t, time.Minute, "no override is left", func(s fastGroup) error {
		if s.Phase != "prefer spot" || len(s.Overrides) > 0 {
			return errors.New("an override is left")
		}
		return nil
	})
	stack.Eventually(t, time.Minute, "the NodePools are restored", s.restored(t))
}

// restored returns a check that each NodePool has its owner's values and no annotation of gpuscaler.
func (s *six) restored(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		var all error
		for _, p := range s.pools {
			if content := p.content(t); content != s.contents[p.name] {
				all = errors.Join(all, fmt.Errorf("%s differs:\n%s\nbefore:\n%s", p.name, content, s.contents[p.name]))
			}
		}
		return all
	}
}

// has returns a check of the number of initialized NodeClaims of each NodePool, in the order of the NodePools.
func (s *six) has(t *testing.T, numbers ...int) func(context.Context) error {
	t.Helper()
	want := map[string]int{}
	for i, p := range s.pools {
		if want[p.name] = numbers[i]; numbers[i] == 0 {
			delete(want, p.name)
		}
	}
	return func(ctx context.Context) error {
		n, err := s.nodes(ctx)
		if err == nil && !maps.Equal(n, want) {
			err = fmt.Errorf("nodes %v, want %v; Karpenter: %q", n, want, reported(ctx, "six-"))
		}
		return err
	}
}

// nodes returns the number of NodeClaims of each NodePool. It returns an error while a NodeClaim is not initialized or is being deleted.
func (s *six) nodes(ctx context.Context) (map[string]int, error) {
	var claims v1.NodeClaimList
	if err := suite.Client.List(ctx, &claims, client.MatchingLabels{"suite": "six"}); err != nil {
		return nil, err
	}
	n := map[string]int{}
	for _, c := range claims.Items {
		if !c.StatusConditions().Get(v1.ConditionTypeInitialized).IsTrue() || c.DeletionTimestamp != nil {
			return nil, fmt.Errorf("%s of %s starts or ends", c.Name, c.Labels[v1.NodePoolLabelKey])
		}
		n[c.Labels[v1.NodePoolLabelKey]]++
	}
	return n, nil
}

func (s *six) claims(t *testing.T, p pool) []v1.NodeClaim {
	t.Helper()
	var claims v1.NodeClaimList
	if err := suite.Client.List(t.Context(), &claims, client.MatchingLabels{v1.NodePoolLabelKey: p.name}); err != nil {
		t.Fatal(err)
	}
	return claims.Items
}

// ordered returns an error unless the weights have the order of a fallback: prepaid instances before on-demand, and on-demand before spot.
func (s *six) ordered(ctx context.Context) error {
	var w []int64
	for _, p := range s.pools {
		weight, _, _ := unstructured.NestedInt64(p.get(ctx).Object, "spec", "weight")
		w = append(w, weight)
	}
	if prepaid, spot, demand := w[0], w[1:4], w[4:]; prepaid <= slices.Max(demand) || slices.Min(demand) <= slices.Max(spot) {
		return fmt.Errorf("weights %v", w)
	}
	return nil
}

// chatOn returns the number of pods of the Deployment chat on the nodes of a NodePool.
func (s *six) chatOn(t *testing.T, p pool) (n int) {
	t.Helper()
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := errors.Join(suite.Client.List(t.Context(), &nodes, client.MatchingLabels{"pool": p.name}),
		suite.Client.List(t.Context(), &pods, client.InNamespace("six"), client.MatchingLabels{"app": "chat"})); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName == node.Name {
				n++
			}
		}
	}
	return n
}

// in returns an edit of a NodePool that restricts it to a zone and allows the disruption of all nodes at once.
func in(zone string) func(spec map[string]any) {
	return func(spec map[string]any) {
		atOnce(spec)
		template := spec["template"].(map[string]any)["spec"].(map[string]any)
		template["requirements"] = append(template["requirements"].([]any),
			map[string]any{"key": corev1.LabelTopologyZone, "operator": "In", "values": []any{zone}})
	}
}

// retryOften changes an annotation of the pending pods of a namespace repeatedly. A change of a pod makes Karpenter try again to launch a
// node for it. Without a change, Karpenter tries again only every ten seconds of real time, which are five minutes of the fast clock.
func retryOften(t *testing.T, namespace string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			var pods corev1.PodList
			_ = suite.Client.List(ctx, &pods, client.InNamespace(namespace)) // after an error the list is empty
			for i := range pods.Items {
				if p := &pods.Items[i]; p.Spec.NodeName == "" {
					text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"retry": fmt.Sprint(n)}}})
					_ = suite.Client.Patch(ctx, p, client.RawPatch(types.MergePatchType, text)) // ignored, because the pod may have been deleted
				}
			}
			time.Sleep(500 * time.Millisecond)
		}
	}()
}
