package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// This test uses real time, because Karpenter evaluates the budget with its own clock.
func TestLongConsolidationFreezeEndsWithoutGpuscaler(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("this test takes minutes, because Karpenter evaluates budgets in real time: set GPUSCALER_E2E_LONG=1 or run make test-long")
	}
	frozen := pool{name: "freeze-on", kind: "spot", weight: 80, nudge: allFields, by: clientSide}
	free := pool{name: "freeze-off", kind: "spot", weight: 10, by: clientSide}
	for _, p := range []pool{frozen, free} {
		p.create(t)
	}
	chat(t, "freeze", map[string]string{"pool": frozen.name})
	content := frozen.content(t)

	// The schedule begins within two minutes and sets a minimum of one replica for one minute. gpuscaler must therefore freeze consolidation
	// at once.
	opens := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Minute)
	ends := opens.Add(time.Minute)
	window := fmt.Sprintf("  schedules:\n  - {name: minute, timezone: UTC, from: %q, until: %q, minReplicas: 1}\n",
		opens.Format("2006-01-02T15:04"), ends.Format("2006-01-02T15:04"))
	g := startAt(t, 1, "freeze", map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, nodePools: {spot: freeze-on}}\n"),
		"chat.yaml":     chatPolicy("freeze") + window,
	})
	g.load(t, map[string]float64{"freeze/chat": 0})
	stack.Eventually(t, time.Minute, "consolidation is frozen", func(ctx context.Context) error {
		if budgets, _, _ := unstructured.NestedSlice(frozen.get(ctx).Object, "spec", "disruption", "budgets"); len(budgets) < 3 {
			return fmt.Errorf("budgets %v", budgets)
		}
		return nil
	})
	g.end(syscall.SIGKILL)

	nodesOf := func(ctx context.Context, p pool) int {
		var nodes corev1.NodeList
		if suite.Client.List(ctx, &nodes, client.MatchingLabels{"karpenter.sh/nodepool": p.name}) != nil {
			return -1
		}
		return len(nodes.Items)
	}
	for _, p := range []pool{frozen, free} {
		job := lonelyJob(t, "freeze", map[string]string{"pool": p.name})
		if err := suite.Client.Delete(t.Context(), job, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		stack.Eventually(t, 20*time.Second, "the pod is deleted", func(ctx context.Context) error {
			if err := suite.Client.Get(ctx, client.ObjectKeyFromObject(job), &corev1.Pod{}); client.IgnoreNotFound(err) != nil || err == nil {
				return errors.New("the pod exists")
			}
			return nil
		})
	}
	stack.Eventually(t, time.Minute, "an empty node without a freeze is removed", func(ctx context.Context) error {
		if n := nodesOf(ctx, free); n != 0 {
			return fmt.Errorf("%d nodes", n)
		}
		return nil
	})
	for time.Now().Before(ends.Add(-5 * time.Second)) {
		if n := nodesOf(t.Context(), frozen); n != 1 {
			t.Fatalf("%s before the end of the freeze there are %d nodes", time.Until(ends).Round(time.Second), n)
		}
		time.Sleep(time.Second)
	}
	stack.Eventually(t, 2*time.Minute, "the node is removed after the end of the freeze", func(ctx context.Context) error {
		if n := nodesOf(ctx, frozen); n != 0 {
			return fmt.Errorf("%d nodes", n)
		}
		return nil
	})
	g.run(t)
	stack.Eventually(t, 30*time.Second, "the next leader removes the override", func(context.Context) error {
		if now := frozen.content(t); now != content {
			return fmt.Errorf("%s\nbefore:\n%s", now, content)
		}
		return nil
	})
}
