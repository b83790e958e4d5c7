package cluster

import (
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// serve makes the API server serve these resources of kinds that come with a CRD, while on is true.
func serve(client *fake.Clientset, resources map[string][]metav1.APIResource) (on *atomic.Bool) {
	discovery, on := client.Discovery().(*fakediscovery.FakeDiscovery), &atomic.Bool{}
	on.Store(true)
	for version, list := range resources {
		discovery.Resources = append(discovery.Resources, &metav1.APIResourceList{GroupVersion: version, APIResources: list})
	}
	client.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		if on.Load() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	return on
}

func TestLeaderWorkerSetsAreSeenOnceTheirCRDComesAndForgottenWhenItGoes(t *testing.T) {
	client := fake.NewClientset(groupPod("big", 0, 0, "ready"))
	on := serve(client, map[string][]metav1.APIResource{"leaderworkerset.x-k8s.io/v1": {
		{Name: "leaderworkersets", Kind: "LeaderWorkerSet"}, {Name: "leaderworkersets/scale", Kind: "Scale"},
	}})
	on.Store(false)
	c := begin(t, client, leaderWorkerSet("big", 2))
	if _, ok := c.View(groupWorkload("big")); ok {
		t.Fatal("seen before its kind was served")
	}
	on.Store(true)
	eventually(t, "it is seen, its pod loading", func() bool { v, ok := c.View(groupWorkload("big")); return ok && v.Replicas == 2 && v.Loading == 1 })
	on.Store(false)
	eventually(t, "it is forgotten", func() bool { _, ok := c.View(groupWorkload("big")); return !ok })
}

// KEDA may be installed after us, and removed.
func TestScaledObjectsAreSeenOnceKEDAComesAndForgottenWhenItGoes(t *testing.T) {
	client := fake.NewClientset(deployment("chat", 1, "1"))
	on := serve(client, map[string][]metav1.APIResource{"keda.sh/v1alpha1": {{Name: "scaledobjects", Kind: "ScaledObject"}}})
	on.Store(false)
	c := begin(t, client, scaledObject("chat", "chat"))
	if v, _ := c.View(workload("chat")); v.MaxReplicas != -1 {
		t.Fatalf("bounds %d..%d of an object whose kind is not served", v.MinReplicas, v.MaxReplicas)
	}
	on.Store(true)
	eventually(t, "its bounds count", func() bool { v, _ := c.View(workload("chat")); return v.MinReplicas == 0 && v.MaxReplicas == 100 })
	on.Store(false)
	eventually(t, "it is forgotten", func() bool { v, _ := c.View(workload("chat")); return v.MaxReplicas == -1 })
}

var rollouts = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}

func rollout(replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": map[string]any{"name": "chat", "namespace": "team"},
		"spec": map[string]any{"replicas": replicas, "template": gpuTemplate("2")},
	}}
}

func rolloutWorkload() *scaling.Workload {
	w := workload("chat")
	w.Target = scaling.Target{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "chat"}
	return w
}

// A kind that the configuration lists is read through its /scale, as an HPA reads it.
func TestAnyKindWithScaleIsSeenThroughItsScale(t *testing.T) {
	scale := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": "chat", "namespace": "team"},
		"spec": map[string]any{"replicas": int64(5)}, "status": map[string]any{"selector": "app=chat"},
	}}
	client := fake.NewClientset(podOf("chat", 1, "ready"))
	serve(client, map[string][]metav1.APIResource{"argoproj.io/v1alpha1": {{Name: "rollouts", Kind: "Rollout"}}})
	resource := rollouts.GroupVersion().WithResource("rollouts")
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "RolloutList"}, rollout(3))
	objects.PrependReactor("get", "rollouts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "scale", scale.DeepCopy(), nil
	})
	c := beginWith(t, client, objects, Options{Kinds: []schema.GroupVersionKind{rollouts, leaderWorkerSetKind}})
	eventually(t, "it is seen as /scale says", func() bool {
		v, ok := c.View(rolloutWorkload())
		return ok && v.Replicas == 5 && v.Ready == 1 && v.GPUs == 2
	})
	if err := objects.Resource(resource).Namespace("team").Delete(t.Context(), "chat", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() bool { _, ok := c.View(rolloutWorkload()); return !ok })
}

func TestAScaleThatSaysTooLittleIsRefusedSoThatNobodysPodsAreCounted(t *testing.T) {
	f := must(trimScalable(rollout(3))).(*targetFacts)
	for name, scale := range map[string]map[string]any{
		"no selector":         {"spec": map[string]any{"replicas": int64(1)}},
		"an empty selector":   {"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"selector": ""}},
		"a broken selector":   {"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"selector": "a in ("}},
		"negative replicas":   {"spec": map[string]any{"replicas": int64(-1)}, "status": map[string]any{"selector": "a=b"}},
		"replicas of a float": {"spec": map[string]any{"replicas": 1.5}, "status": map[string]any{"selector": "a=b"}},
	} {
		if full, err := withScale(f, &unstructured.Unstructured{Object: scale}); err == nil {
			t.Errorf("%s: %+v", name, full)
		}
	}
}

func TestAKindThatCannotBeListedHoldsBackOnlyItself(t *testing.T) {
	client := fake.NewClientset(deployment("chat", 3, "1"))
	serve(client, map[string][]metav1.APIResource{"argoproj.io/v1alpha1": {{Name: "rollouts", Kind: "Rollout"}}})
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{rollouts.GroupVersion().WithResource("rollouts"): "RolloutList"})
	objects.PrependReactor("list", "rollouts", refuse)
	c := beginWith(t, client, objects, Options{Kinds: []schema.GroupVersionKind{rollouts}})
	if _, ok := c.View(workload("chat")); !ok {
		t.Error("the Deployment is not seen")
	}
	if _, ok := c.View(rolloutWorkload()); ok {
		t.Error("a Rollout was seen that cannot be")
	}
}
