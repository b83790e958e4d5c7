package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// This test simulates a day with a clock that is thirty times as fast as real time. At night the group has no capacity. The nodes that a
// schedule needs must be ready before it begins. When spot has no capacity, the group must fall back to on-demand, and must later return
// to spot at a limited rate. There must be no consolidation before a scheduled peak.
func TestDayOfOneGroupFromZeroToZero(t *testing.T) {
	t.Parallel()
	spot := pool{name: "day-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide, limit: int64(32)}
	demand := pool{name: "day-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide}
	pools, contents, hashes := []pool{spot, demand}, map[string]string{}, map[string]string{}
	for _, p := range pools {
		p.create(t)
	}
	chat(t, "day", nil)
	for _, p := range pools {
		contents[p.name], hashes[p.name] = p.content(t), p.hash(t.Context())
	}
	restored := func(context.Context) error {
		for _, p := range pools {
			if content := p.content(t); content != contents[p.name] {
				return fmt.Errorf("%s differs:\n%s\nbefore:\n%s", p.name, content, contents[p.name])
			}
		}
		return nil
	}
	g := start(t, "day", map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, zeroLimit: true, returnNodesPerHour: " +
			"60, nodePools: {spot: day-spot, on-demand: day-od}}\n"),
		"chat.yaml": chatPolicy("day"),
	})
	g.load(t, map[string]float64{"day/chat": 0})
	limited := func(ctx context.Context) error {
		if spot.limitNow(ctx) != "0" || demand.limitNow(ctx) != "0" {
			return fmt.Errorf("limits %s and %s", spot.limitNow(ctx), demand.limitNow(ctx))
		}
		return nil
	}
	stack.Eventually(t, 40*time.Second, "night: a zero limit without demand", limited)
	g.group(t, 10*time.Second, "zero GPU nodes", on(0, 0))

	// The schedule begins in at least 12 minutes of the fast clock, which are 24 seconds of real time, and lasts half an hour. The lead
	// time of 7 minutes is 14 seconds of real time: a node and a pod need five seconds, and a slow machine up to three more.
	opens := g.config.now().Add(13 * time.Minute).UTC().Truncate(time.Minute)
	closes := opens.Add(30 * time.Minute)
	window := fmt.Sprintf("schedules:\n- {name: office, timezone: UTC, from: %q, until: %q, minReplicas: 2, leadTime: 7m}\n",
		opens.Format("2006-01-02T15:04"), closes.Format("2006-01-02T15:04"))
	g.write(t, "chat.yaml", chatPolicy("day")+"  "+strings.ReplaceAll(strings.TrimSpace(window), "\n", "\n  ")+"\n")
	stack.Eventually(t, 25*time.Second, "before the window: no zero limit, and consolidation is frozen", func(ctx context.Context) error {
		budgets, _, _ := unstructured.NestedSlice(spot.get(ctx).Object, "spec", "disruption", "budgets")
		if spot.limitNow(ctx) != "32" || len(budgets) != 3 {
			return fmt.Errorf("limit %s, budgets %v", spot.limitNow(ctx), budgets)
		}
		return nil
	})
	stack.Eventually(t, 40*time.Second, "two ready replicas", workload.HasReplicas(suite.Client, "day", "chat", 2))
	if late := g.config.now().Sub(opens); late > 0 {
		t.Errorf("the replicas are ready %s after the window opened", late)
	}

	g.load(t, map[string]float64{"day/chat": 3})
	g.group(t, time.Minute, "spot nodes for a burst", on(3, 0))
	job := lonelyJob(t, "day", map[string]string{"pool": demand.name})
	scarce(t, karpenter.Shortage{CapacityType: "spot", InstanceType: spot.instance(), Limit: 3})
	g.load(t, map[string]float64{"day/chat": 6})
	g.group(t, time.Minute, "on-demand replaces rejected spot", on(3, 4))
	g.group(t, 20*time.Second, "the group falls back", phase("fallback"))
	stack.Eventually(t, 30*time.Second, "on-demand has the higher weight", func(ctx context.Context) error {
		w, _, _ := unstructured.NestedInt64(demand.get(ctx).Object, "spec", "weight")
		if w != 81 {
			return fmt.Errorf("weight %d", w)
		}
		return nil
	})
	g.end(syscall.SIGKILL)
	g.run(t)
	g.group(t, 10*time.Second, "after a crash the next leader continues the fallback", phase("fallback"))

	stack.Eventually(t, 30*time.Second, "six ready replicas", workload.HasReplicas(suite.Client, "day", "chat", 6))
	least := watchReady(t, "day", "chat")
	scarce(t)
	g.group(t, 2*time.Minute, "a probe of spot", phase("probing", "returning"))
	g.end(syscall.SIGKILL)
	g.run(t)
	g.group(t, 10*time.Second, "the probe continues after a crash", phase("probing", "returning"))
	g.group(t, 3*time.Minute, "every replica is back on spot, and the Job was not moved", on(6, 1))
	g.group(t, 30*time.Second, "no override is left", func(s fastGroup) error {
		if s.Phase != "prefer spot" || len(s.Overrides) > 0 {
			return errors.New("an override is left")
		}
		return nil
	})
	if n := least.Load(); n < 6 {
		t.Errorf("at one time only %d of 6 required replicas were ready", n)
	}
	stack.Eventually(t, 30*time.Second, "the NodePools are restored", restored)
	stack.Eventually(t, 30*time.Second, "no pod has an annotation of gpuscaler", unmarked("day"))
	var now corev1.Pod
	if err := suite.Client.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil || now.UID != job.UID {
		t.Errorf("the Job's pod was replaced: %v", err)
	}
	for _, p := range pools {
		if h := p.hash(t.Context()); h != hashes[p.name] || h == "" {
			t.Errorf("%s drifted: %s -> %s", p.name, hashes[p.name], h)
		}
	}
	undrifted(t, pools...)
	driftIsSeen(t, spot)

	if err := suite.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	g.load(t, map[string]float64{"day/chat": 0})
	g.group(t, 2*time.Minute, "evening: consolidation removes every node", on(0, 0))
	stack.Eventually(t, 40*time.Second, "the zero limit is set again", limited)
	g.explained(t, "zero limit: no pod or policy requests", "no zero limit: known demand for nvidia.com/gpu starts soon",
		"consolidation freeze:", "spot fallback: launches in NodePool day-spot failed for lack of capacity", "spot probe:",
		"return to spot:", "move: replicas of day/chat", "zero limit: no pod or policy requests")
	g.end(syscall.SIGTERM)
	sameAsSimulated(t, g.agrees(t).Phases["gpu"])
}

// explained fails the test unless the logs of the process contain the given texts in the given order.
func (g *fastProcess) explained(t *testing.T, reasons ...string) {
	t.Helper()
	text := ""
	for i := 1; i <= g.n; i++ {
		log, err := os.ReadFile(filepath.Join(g.dir, fmt.Sprintf("gpuscaler-%d.log", i)))
		if err != nil {
			t.Fatal(err)
		}
		text += string(log)
	}
	for _, reason := range reasons {
		_, after, found := strings.Cut(text, reason)
		if !found {
			t.Errorf("%q is missing at its position in %q", reason, reasons)
			return
		}
		text = after
	}
}

func on(spot, onDemand int) func(fastGroup) error {
	return func(s fastGroup) error {
		if s.SpotNodes != spot || s.OnDemandNodes != onDemand {
			return fmt.Errorf("%d on spot and %d on demand, want %d and %d", s.SpotNodes, s.OnDemandNodes, spot, onDemand)
		}
		return nil
	}
}

// unmarked returns a check that no pod of a namespace has an annotation of gpuscaler.
func unmarked(namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := suite.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			for _, m := range p.ManagedFields {
				if strings.HasPrefix(m.Manager, "gpuscaler") {
					return fmt.Errorf("%s: %s owns %s", p.Name, m.Manager, m.FieldsV1)
				}
			}
		}
		return nil
	}
}

// driftIsSeen checks that undrifted fails if nodes are drifted: after a label in the NodePool's template changes, Karpenter must report
// the nodes as drifted.
func driftIsSeen(t *testing.T, p pool) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"labels":{"touched":"yes"}}}}}`))
	if err := suite.Client.Patch(t.Context(), p.object(), patch); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 40*time.Second, "a changed template causes drift", func(ctx context.Context) error {
		var claims v1.NodeClaimList
		if err := suite.Client.List(ctx, &claims, client.MatchingLabels{"karpenter.sh/nodepool": p.name}); err != nil {
			return err
		}
		for _, c := range claims.Items {
			if drifted := c.StatusConditions().Get(v1.ConditionTypeDrifted); drifted != nil && drifted.IsTrue() {
				return nil
			}
		}
		return fmt.Errorf("none of %d NodeClaims drifted", len(claims.Items))
	})
}

func phase(any ...string) func(fastGroup) error {
	return func(s fastGroup) error {
		if !slices.Contains(any, s.Phase) {
			return errors.New("phase " + s.Phase)
		}
		return nil
	}
}

// lonelyJob creates a pod that requests a GPU and has no policy, and waits until it runs.
func lonelyJob(t *testing.T, namespace string, selector map[string]string) *corev1.Pod {
	t.Helper()
	d := workload.Deployment(namespace, "job", 1)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job", Labels: map[string]string{"job": "train"}},
		Spec: d.Spec.Template.Spec}
	p.Spec.NodeSelector = selector
	if err := suite.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), p) })
	stack.Eventually(t, time.Minute, "the Job runs", func(ctx context.Context) error {
		if err := suite.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return nil
	})
	return p
}

// watchReady returns a counter of the minimum number of ready pods of a Deployment since the call of watchReady. The counter is updated
// until the test ends.
func watchReady(t *testing.T, namespace, name string) *atomic.Int64 {
	t.Helper()
	least := &atomic.Int64{}
	least.Store(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			if n, err := readyNow(ctx, namespace, name); err == nil {
				least.Store(min(least.Load(), n))
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return least
}

func readyNow(ctx context.Context, namespace, name string) (n int64, err error) {
	var pods corev1.PodList
	if err := suite.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": name}); err != nil {
		return 0, err
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pods.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n, nil
}

// undrifted fails if Karpenter reports a node of the given NodePools as drifted. It ignores other NodePools, because other tests of this
// package run in parallel and cause drift of their own nodes.
func undrifted(t *testing.T, pools ...pool) {
	t.Helper()
	for _, p := range pools {
		var claims v1.NodeClaimList
		if err := suite.Client.List(t.Context(), &claims, client.MatchingLabels{"karpenter.sh/nodepool": p.name}); err != nil {
			t.Fatal(err)
		}
		for _, c := range claims.Items {
			if drifted := c.StatusConditions().Get(v1.ConditionTypeDrifted); drifted != nil && drifted.IsTrue() {
				t.Errorf("%s drifted: %s", c.Name, drifted.Reason)
			}
		}
	}
}
