package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

func TestSpotIsDeniedAndReplicasComeBackOneByOneWithoutOneMissing(t *testing.T) {
	spot := pool{name: "back-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide, limit: int64(32)}
	demand := pool{name: "back-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide}
	faces, hashes := map[string]string{}, map[string]string{}
	for _, p := range []pool{spot, demand} {
		p.create(t)
	}
	chat(t, "back", nil)
	job := lonelyJob(t, "back", map[string]string{"pool": demand.name})
	for _, p := range []pool{spot, demand} {
		faces[p.name], hashes[p.name] = p.face(t), p.hash(t.Context())
	}
	g := start(t, map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, returnNodesPerHour: 120, nodePools: {spot: back-spot, on-demand: back-od}}\n"),
		"chat.yaml":     chatPolicy("back"),
	})
	g.load(t, map[string]float64{"back/chat": 2})
	on := func(spot, onDemand int) func(fastGroup) error {
		return func(s fastGroup) error {
			if s.SpotNodes != spot || s.OnDemandNodes != onDemand {
				return fmt.Errorf("%d on spot and %d on demand, want %d and %d", s.SpotNodes, s.OnDemandNodes, spot, onDemand)
			}
			return nil
		}
	}
	g.group(t, time.Minute, "two on spot, and the Job's node", on(2, 1))

	scarce(t, karpenter.Shortage{CapacityType: "spot", Limit: 2})
	g.load(t, map[string]float64{"back/chat": 5})
	g.group(t, time.Minute, "on-demand takes over", on(2, 4))
	g.group(t, 20*time.Second, "the group falls back", phase("fallback"))
	stack.Eventually(t, 10*time.Second, "on-demand comes first by weight", func(ctx context.Context) error {
		w, _, _ := unstructured.NestedInt64(demand.get(ctx).Object, "spec", "weight")
		if w != 81 {
			return fmt.Errorf("weight %d", w)
		}
		return nil
	})
	g.end(syscall.SIGKILL) // a crash in a fallback loses nothing
	g.run(t)
	g.group(t, 10*time.Second, "the next leader goes on with it", phase("fallback"))

	stack.Eventually(t, 30*time.Second, "five replicas serve", workload.Has(scene.Client, "back", "chat", 5))
	least := watchReady(t, "back", "chat")
	scarce(t)
	g.group(t, time.Minute, "spot is tried", phase("probing", "returning"))
	g.group(t, 2*time.Minute, "every replica is back on spot, the Job where it was", on(5, 1))
	g.group(t, 30*time.Second, "and all is as it was written", func(s fastGroup) error {
		if s.Phase != "prefer spot" || len(s.Nudges) > 0 {
			return errors.New("something is held")
		}
		return nil
	})
	if n := least.Load(); n < 5 {
		t.Errorf("at one moment only %d replicas were ready, of 5 that are needed", n)
	}
	for _, p := range []pool{spot, demand} {
		stack.Eventually(t, 10*time.Second, p.name+" is as before", func(context.Context) error {
			if face := p.face(t); face != faces[p.name] {
				return fmt.Errorf("%s is not as before:\n%s\nbefore:\n%s", p.name, face, faces[p.name])
			}
			return nil
		})
		if h := p.hash(t.Context()); h != hashes[p.name] {
			t.Errorf("%s drifted: %s -> %s", p.name, hashes[p.name], h)
		}
	}
	undrifted(t)
	var now corev1.Pod
	if err := scene.Client.Get(t.Context(), client.ObjectKeyFromObject(job), &now); err != nil || now.UID != job.UID || now.Annotations["controller.kubernetes.io/pod-deletion-cost"] != "" {
		t.Errorf("the Job's pod: %v, annotations %v", err, now.Annotations)
	}
	stack.Eventually(t, 10*time.Second, "no pod carries a mark of ours", func(ctx context.Context) error {
		var pods corev1.PodList
		if err := scene.Client.List(ctx, &pods, client.InNamespace("back")); err != nil {
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

// scarce says what the cloud is short of, for the time of the test.
func scarce(t *testing.T, shortages ...karpenter.Shortage) {
	t.Helper()
	if err := scene.karpenter.Scarce(shortages...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scene.karpenter.Scarce() })
}

// lonelyJob is a pod with a GPU and without a policy, that runs.
func lonelyJob(t *testing.T, namespace string, selector map[string]string) *corev1.Pod {
	t.Helper()
	d := workload.Deployment(namespace, "job", 1)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "job", Labels: map[string]string{"job": "train"}}, Spec: d.Spec.Template.Spec}
	p.Spec.NodeSelector = selector
	if err := scene.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = scene.Client.Delete(context.Background(), p) })
	stack.Eventually(t, time.Minute, "the Job runs", func(ctx context.Context) error {
		if err := scene.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return nil
	})
	return p
}

// watchReady keeps the fewest ready pods that a Deployment had from now on.
func watchReady(t *testing.T, namespace, name string) *atomic.Int64 {
	t.Helper()
	least := &atomic.Int64{}
	least.Store(1 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		for ctx.Err() == nil {
			var pods corev1.PodList
			if scene.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"app": name}) == nil {
				least.Store(min(least.Load(), ready(pods.Items)))
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return least
}

func ready(pods []corev1.Pod) (n int64) {
	for i := range pods {
		for _, c := range pods[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pods[i].DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n
}

// undrifted fails if Karpenter thinks that any node is not what its NodePool says.
func undrifted(t *testing.T) {
	t.Helper()
	var claims v1.NodeClaimList
	if err := scene.Client.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	for _, c := range claims.Items {
		if drifted := c.StatusConditions().Get(v1.ConditionTypeDrifted); drifted != nil && drifted.IsTrue() {
			t.Errorf("%s drifted: %s", c.Name, drifted.Reason)
		}
	}
}
