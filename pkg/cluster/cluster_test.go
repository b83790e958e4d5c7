package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func ptr[T any](v T) *T { return &v }

func deployment(name string, replicas int32, gpus string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: "uid"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "server", Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)},
				}}}},
			},
		},
	}
}

// podOf makes a pod in a state: "pending", "loading", "ready", "crashing", "terminating".
func podOf(app string, n int, state string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%d", app, n), Namespace: "team", Labels: map[string]string{"app": app},
	}}
	if state == "pending" {
		return p
	}
	p.Spec.NodeName, p.Status.PodIP = "node", fmt.Sprintf("10.0.0.%d", n)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	switch state {
	case "ready":
		p.Status.Conditions[0].Status = corev1.ConditionTrue
	case "crashing":
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	case "terminating":
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		p.Finalizers = []string{"test/keep"}
	}
	return p
}

// exactHPA is the manifest that the README recommends.
func exactHPA(name, target, policy string) *autoscalingv2.HorizontalPodAutoscaler {
	rules := func(p autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
		return &autoscalingv2.HPAScalingRules{
			Tolerance: ptr(resource.MustParse("0")), StabilizationWindowSeconds: ptr(int32(0)),
			Policies: []autoscalingv2.HPAScalingPolicy{p},
		}
	}
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: "hpa-uid"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target},
			MinReplicas:    ptr(int32(1)), MaxReplicas: 40,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{
					Name: DesiredReplicasMetric, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{PolicyLabel: policy}},
				},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr(resource.MustParse("1"))},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp:   rules(autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 1000, PeriodSeconds: 15}),
				ScaleDown: rules(autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}),
			},
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: 3},
	}
}

func workload(name string) *scaling.Workload {
	return &scaling.Workload{
		Key:    scaling.Key{Namespace: "team", Name: name},
		Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
		Policy: &scaling.Policy{MinReplicas: 1, MaxReplicas: 40},
	}
}

// begin runs a Cluster over fake clients and waits until it has read everything.
func begin(t *testing.T, client *fake.Clientset, objects ...runtime.Object) *Cluster {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{
		leaderWorkerSetKind.GroupVersion().WithResource("leaderworkersets"): "LeaderWorkerSetList",
		scaledObjectKind.GroupVersion().WithResource("scaledobjects"):       "ScaledObjectList",
	}
	return beginWith(t, client, dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...), Options{})
}

func beginWith(t *testing.T, client *fake.Clientset, objects *dynamicfake.FakeDynamicClient, o Options) *Cluster {
	t.Helper()
	o.DiscoveryPeriod = 20 * time.Millisecond
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := newCluster(client, objects, o)
	c.late.patience = 2 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	eventually(t, "the caches are synced", c.Synced)
	return c
}

func TestPodsComeUpOneByOneAndAreCountedWhereTheyStand(t *testing.T) {
	client := fake.NewClientset(deployment("chat", 6, "2"), exactHPA("chat", "chat", "chat"),
		podOf("chat", 1, "ready"), podOf("chat", 2, "loading"), podOf("chat", 3, "pending"),
		podOf("chat", 4, "crashing"), podOf("chat", 5, "terminating"), podOf("other", 6, "ready"))
	c := begin(t, client)
	v, ok := c.View(workload("chat"))
	if !ok {
		t.Fatal("not seen")
	}
	want := engine.View{
		UID:      "uid",
		Replicas: 6, Ready: 1, Loading: 1, Pending: 1, Crashing: 1, CrashingPod: "chat-4", GPUs: 2, MinReplicas: 1, MaxReplicas: 40, Operator: scaling.NoOperator,
		ManagedHPA: engine.ManagedHPA{Kind: kindHPA, Name: "chat", Desired: 3, Exact: true},
	}
	if v != want {
		t.Errorf("view\n%+v, want\n%+v", v, want)
	}
	if pods := c.Pods(workload("chat")); len(pods) != 4 || pods[0].IP != "10.0.0.1" || !pods[0].Ready || pods[1].Ready {
		t.Errorf("pods %+v: all but the terminating one may be asked", pods)
	}

	if _, err := client.CoreV1().Pods("team").UpdateStatus(t.Context(), podOf("chat", 2, "ready"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loading pod is ready", func() bool { v, _ := c.View(workload("chat")); return v.Ready == 2 && v.Loading == 0 })
}

func TestADeploymentThatIsDeletedIsNoLongerSeenAndComesBack(t *testing.T) {
	client := fake.NewClientset(deployment("chat", 1, "1"), podOf("chat", 1, "ready"))
	c := begin(t, client)
	if err := client.AppsV1().Deployments("team").Delete(t.Context(), "chat", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() bool { _, ok := c.View(workload("chat")); return !ok })
	if _, err := client.AppsV1().Deployments("team").Create(t.Context(), deployment("chat", 4, "1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is back with its pod", func() bool { v, ok := c.View(workload("chat")); return ok && v.Replicas == 4 && v.Ready == 1 })
}

func TestNothingIsSeenBeforeTheCachesAreSynced(t *testing.T) {
	c := newCluster(fake.NewClientset(deployment("chat", 1, "1")), dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), Options{})
	c.world.putTarget(must(trimDeployment(deployment("chat", 1, "1"))).(*targetFacts))
	if _, ok := c.View(workload("chat")); ok {
		t.Error("a view before the pods were read would count none of them")
	}
}

func must(obj any, err error) any {
	if err != nil {
		panic(err)
	}
	return obj
}
