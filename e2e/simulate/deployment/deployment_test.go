package deployment

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

// TestScaleInDeletesThePodsThatServeLeast checks the order of deletion: first a pod without a node, then a pod that is not ready, then the
// pod with the lowest deletion cost.
func TestScaleInDeletesThePodsThatServeLeast(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	api := apiserver.New(func() time.Time { return now })
	c := New(api, "team")
	c.Create("chat", 4, &corev1.PodSpec{})
	c.Run()
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, p := range c.PodsOf("chat") {
		next := p.DeepCopy()
		switch p.Name {
		case "chat-0001", "chat-0003":
			next.Spec.NodeName, next.Status.Conditions = "node", ready
		case "chat-0002":
			next.Spec.NodeName = "node"
		}
		if p.Name == "chat-0003" {
			next.Annotations = map[string]string{corev1.PodDeletionCost: "-10"}
		}
		api.Put(apiserver.KindPod, next)
	}
	for _, step := range []struct {
		replicas int32
		left     []string
	}{{3, []string{"chat-0001", "chat-0002", "chat-0003"}}, {2, []string{"chat-0001", "chat-0003"}}, {1, []string{"chat-0001"}}, {0, nil}} {
		c.Scale("chat", step.replicas)
		c.Run()
		var left []string
		for _, p := range c.PodsOf("chat") {
			left = append(left, p.Name)
		}
		if !slices.Equal(left, step.left) {
			t.Errorf("with %d replicas %v are left, want %v", step.replicas, left, step.left)
		}
	}
	c.Replace("chat", 1)
	c.Run()
	if pods := c.PodsOf("chat"); len(pods) != 1 || pods[0].Name != "chat-0005" {
		t.Errorf("the new Deployment has the pods %v", pods)
	}
}
