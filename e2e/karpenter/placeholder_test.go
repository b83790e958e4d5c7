package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The output of `gpuscaler manifests placeholder` must keep a node that Karpenter would otherwise remove as empty, and must free this
// node for the first replica of the workload. A copy of the placeholder with the lowest priority must not keep its node.
func TestPlaceholderKeepsItsNodeUntilARealReplicaStarts(t *testing.T) {
	t.Parallel()
	// The NodePool held is for the placeholder and the workload. The NodePool lost is for the copy with the lowest priority, so that the
	// copy and the placeholder do not share a node.
	held := pool{name: "place-held", kind: "spot", weight: 10, by: serverSide}
	lost := pool{name: "place-lost", kind: "spot", weight: 10, by: serverSide}
	held.create(t)
	lost.create(t)
	binary, err := controller.Build(t.Context(), os.Stderr, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	deployment := chat(t, "place", map[string]string{"pool": held.name})
	class, placeholder := workload.Placeholder(t, binary, deployment)
	for _, o := range []client.Object{class, placeholder} {
		if err := suite.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), o) })
	}
	lowest := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "place-lowest"}, Value: -2147483648}
	twin := &appsv1.Deployment{}
	if err := suite.Client.Get(t.Context(), client.ObjectKeyFromObject(placeholder), twin); err != nil {
		t.Fatal(err)
	}
	twin.ResourceVersion, twin.UID, twin.Name = "", "", "twin"
	twin.Spec.Selector.MatchLabels, twin.Spec.Template.Labels = map[string]string{"app": "twin"}, map[string]string{"app": "twin"}
	twin.Spec.Template.Spec.PriorityClassName = lowest.Name
	twin.Spec.Template.Spec.NodeSelector = map[string]string{"pool": lost.name}
	for _, o := range []client.Object{lowest, twin} {
		if err := suite.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), o) })
	}
	claims := watchClaims(t, "place")
	workload.Scale(t, suite.Client, placeholder, 1)
	workload.Scale(t, suite.Client, twin, 1)

	var holder *corev1.Pod
	stack.Eventually(t, time.Minute, "the placeholder has its node", func(ctx context.Context) (err error) {
		holder, err = running(ctx, "place", "app.kubernetes.io/name", "chat-placeholder")
		return err
	})
	empty := func(of pool) error {
		for name, why := range claims.ended() {
			if strings.HasPrefix(name, of.name) && why == "Empty" {
				return nil
			}
		}
		return fmt.Errorf("none: %v", claims.ended())
	}
	stack.Eventually(t, 2*time.Minute, "Karpenter treats the other pod's node as empty", func(context.Context) error { return empty(lost) })
	stack.Always(t, 5*time.Second, "Karpenter keeps the placeholder's node", func(ctx context.Context) error {
		if empty(held) == nil {
			return errors.New("it is")
		}
		now, err := running(ctx, "place", "app.kubernetes.io/name", "chat-placeholder")
		if err == nil && now.UID != holder.UID {
			err = errors.New("another node")
		}
		return err
	})

	workload.Scale(t, suite.Client, deployment, 1)
	stack.Eventually(t, 30*time.Second, "a real replica uses that node at once", func(ctx context.Context) error {
		pod, err := running(ctx, "place", "app", "chat")
		if err == nil && pod.Spec.NodeName != holder.Spec.NodeName {
			err = fmt.Errorf("the replica runs on %s, want %s", pod.Spec.NodeName, holder.Spec.NodeName)
		}
		return err
	})
}

// running returns the only running pod with the given label.
func running(ctx context.Context, namespace, label, value string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := suite.Client.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{label: value}); err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.Phase != corev1.PodRunning {
		return nil, fmt.Errorf("%d pods of %s, want one running pod", len(pods.Items), value)
	}
	return &pods.Items[0], nil
}
