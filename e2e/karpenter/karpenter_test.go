package karpenter_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

func testSpotRunsOutAndOnDemandTakesOver(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_KARPENTER") == "" {
		t.Skip("set GPUSCALER_E2E_KARPENTER=1: building Karpenter takes minutes, and no other end-to-end test needs it yet")
	}
	s := stack.Start(t, stack.Options{})
	k, err := karpenter.Start(t.Context(), s, karpenter.Options{
		InstanceTypes:  []karpenter.InstanceType{{Name: "g6e.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.78, "on-demand": 1.861}}},
		UnavailableFor: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []func() error{
		func() error { return s.Client.Create(t.Context(), nodePool()) },
		func() error { return k.Scarce(karpenter.Shortage{CapacityType: "spot", Limit: 1}) },
		func() error { return s.Client.Create(t.Context(), gpuDeployment(1)) },
	} {
		if err := o(); err != nil {
			t.Fatal(err)
		}
	}
	stack.Eventually(t, time.Minute, "one spot node", nodes(s, 1, 0))

	if err := s.Client.Update(t.Context(), gpuDeployment(3)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "two on-demand nodes beside it", nodes(s, 1, 2))

	if err := k.Scarce(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second) // the failed offering is tried again after UnavailableFor
	if err := s.Client.Update(t.Context(), gpuDeployment(4)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "spot again", nodes(s, 2, 2))
}

// nodes returns a check on the Ready nodes by capacity type.
func nodes(s *stack.Stack, spot, onDemand int) func(context.Context) error {
	return func(ctx context.Context) error {
		var list corev1.NodeList
		if err := s.Client.List(ctx, &list); err != nil {
			return err
		}
		have := map[string]int{}
		for _, n := range list.Items {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
					have[n.Labels[v1.CapacityTypeLabelKey]]++
				}
			}
		}
		if have["spot"] != spot || have["on-demand"] != onDemand {
			return fmt.Errorf("nodes %v, want %d spot and %d on-demand", have, spot, onDemand)
		}
		return nil
	}
}

func nodePool() *v1.NodePool {
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: karpenter.NodeClass}
	pool.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{{
		Key: v1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot", "on-demand"},
	}}
	pool.Spec.Disruption.ConsolidateAfter = v1.MustParseNillableDuration("Never")
	return pool
}

func gpuDeployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "batch"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "batch"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "embed", Image: "embed",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{stack.GPU: resource.MustParse("1")}},
				}}},
			},
		},
	}
}
