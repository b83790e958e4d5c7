package karpenter_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/policies"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// Three replicas use all GPUs that the owner's limit allows. The default strategy of a Deployment starts a new pod before it removes an old
// pod. The new pod therefore waits for a GPU, and the rollout does not proceed. `gpuscaler lint` must report this problem before the
// rollout. While the rollout waits, the target and the limit must not change. With the strategy that lint recommends, the rollout must
// complete without a fourth GPU. During the rollout, at least two replicas must be ready, and the target must be three.
func TestRolloutWithoutAFreeGPUIsForeseenAndCompletesWithTheAdvice(t *testing.T) {
	t.Parallel()
	const ns, gpus = "rollout", "3"
	nodes := pool{name: "rollout-od", kind: "on-demand", weight: 20, nudge: allFields, by: clientSide, limit: gpus}
	nodes.create(t)
	chat(t, ns, nil)
	g := start(t, ns, map[string]string{"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, " +
		"nodePools: {on-demand: " + nodes.name + "}}\n"), "chat.yaml": chatPolicy(ns)})
	g.load(t, map[string]float64{ns + "/chat": 3})
	stack.Eventually(t, 2*time.Minute, "three replicas are ready", rolledOut(ns, 3))

	const problem, advice = "at 3 replicas, Deployment chat has no room for a rollout", "set maxSurge: 0 and maxUnavailable: 1"
	if text := lint(t, g.config.Policies); !strings.Contains(text, problem) || !strings.Contains(text, advice) {
		t.Errorf("lint does not report that a rollout would wait:\n%s", text)
	}

	unchanged := func(least int32) func(context.Context) error {
		return func(ctx context.Context) error {
			s, err := g.status()
			if err != nil {
				return err
			}
			d := deployment(ctx, ns)
			if n := s.Numbers[ns+"/chat"]; n != 3 || d.Status.ReadyReplicas < least || nodes.limitNow(ctx) != gpus {
				return fmt.Errorf("target %d, limit %s, %+v", n, nodes.limitNow(ctx), d.Status)
			}
			return nil
		}
	}
	edit(t, ns, `{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)
	stack.Eventually(t, time.Minute, "the rollout starts a fourth pod", func(ctx context.Context) error {
		if d := deployment(ctx, ns); d.Status.Replicas != 4 || d.Status.UpdatedReplicas != 1 {
			return fmt.Errorf("%+v", d.Status)
		}
		return nil
	})
	stack.Always(t, 15*time.Second, "the fourth pod waits, and the target and the limit stay", unchanged(3))
	if d := deployment(t.Context(), ns); d.Status.Replicas != 4 || d.Status.ReadyReplicas != 3 {
		t.Fatalf("the rollout did not wait, so the test proves nothing: %+v", d.Status)
	}

	edit(t, ns, `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}`)
	stack.Eventually(t, 2*time.Minute, "the rollout completes", func(ctx context.Context) error {
		if err := unchanged(2)(ctx); err != nil {
			t.Error(err)
		}
		return rolledOut(ns, 3)(ctx)
	})
	if text := lint(t, g.config.Policies); strings.Contains(text, problem) {
		t.Errorf("lint reports a rollout that does not wait:\n%s", text)
	}
	g.load(t, map[string]float64{ns + "/chat": 0})
}

// rolledOut returns a check that all n pods of the Deployment chat are ready and have its current template.
func rolledOut(namespace string, n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		d := deployment(ctx, namespace)
		s := &d.Status
		if s.ObservedGeneration < d.Generation || s.Replicas != n || s.ReadyReplicas != n || s.UpdatedReplicas != n {
			return fmt.Errorf("%+v", *s)
		}
		return nil
	}
}

func deployment(ctx context.Context, namespace string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	// After an error, d is empty, so that the check of the caller fails.
	_ = suite.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "chat"}, d)
	return d
}

func edit(t *testing.T, namespace, patch string) {
	t.Helper()
	d := &appsv1.Deployment{}
	d.Namespace, d.Name = namespace, "chat"
	if err := suite.Client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// lint returns the output of gpuscaler lint for policies, with the objects of the cluster. Its exit code is ignored, because lint also
// reports problems of other tests' objects.
func lint(t *testing.T, paths string) string {
	t.Helper()
	for _, c := range policies.Commands() {
		if c.Name() != "lint" {
			continue
		}
		out := &bytes.Buffer{}
		c.SetOut(out)
		c.SetErr(out)
		c.SetArgs([]string{paths, "--kubeconfig", suite.Kubeconfig})
		_ = c.ExecuteContext(t.Context())
		return out.String()
	}
	t.Fatal("there is no command lint")
	return ""
}
