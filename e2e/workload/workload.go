// Package workload creates the objects of the end-to-end tests: Deployments whose pods request one GPU, and HPAs that set exactly the
// number of replicas that gpuscaler computes.
package workload

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// Deployment returns a Deployment whose pods request one GPU each.
func Deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "vllm", Image: "vllm/vllm-openai",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{stack.GPU: resource.MustParse("1")}},
				}}},
			},
		},
	}
}

// Metrics returns a description of the metrics of a Deployment's pods, with which package exporter serves them. load determines the values.
func Metrics(namespace, name string, load exporter.Load) *exporter.Workload {
	return &exporter.Workload{
		Namespace: namespace, Name: name, Selector: map[string]string{"app": name},
		Container: "vllm", Model: "llama", GPUs: 1, Load: load,
	}
}

// HPA returns an HPA for the Deployment named target. Its metric is the target of the policy with the same name. It has no tolerance and no
// stabilization windows, so the replicas equal the policy's target.
func HPA(namespace, target string, maxReplicas int32) *autoscalingv2.HorizontalPodAutoscaler {
	zero, one, none := int32(0), resource.MustParse("1"), resource.MustParse("0")
	rule := func(kind autoscalingv2.HPAScalingPolicyType, value int32) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &zero, Tolerance: &none,
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: kind, Value: value, PeriodSeconds: 15}},
		}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"gpuscaler.io/policy": target}}
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: target},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target},
			MaxReplicas:    maxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ExternalMetricSourceType,
				External: &autoscalingv2.ExternalMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "gpuscaler-desired-replicas", Selector: selector},
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &one},
				},
			}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp: rule(autoscalingv2.PodsScalingPolicy, 1000), ScaleDown: rule(autoscalingv2.PercentScalingPolicy, 100),
			},
		},
	}
}

// Create creates objects. After an error, it fails the test.
func Create(t testing.TB, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// Scale sets the field spec.replicas of an object with a merge patch. After an error, it fails the test.
func Scale(t testing.TB, c client.Client, o client.Object, replicas int32) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if err := c.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// HasReplicas returns a check that a Deployment has the given number of replicas and all of them are ready.
func HasReplicas(c client.Client, namespace, name string, replicas int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var d appsv1.Deployment
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
			return err
		}
		if *d.Spec.Replicas != replicas || d.Status.ReadyReplicas != replicas {
			return fmt.Errorf("%s has %d desired and %d ready replicas, want %d", name, *d.Spec.Replicas, d.Status.ReadyReplicas, replicas)
		}
		return nil
	}
}
