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

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

// serve makes the fake API server serve the given resources while on is true.
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

func TestLeaderWorkerSetsAreReadWhileTheirCRDIsInstalled(t *testing.T) {
	client := fake.NewClientset(fixture.GroupPod("big", 0, 0, "ready"))
	on := serve(client, map[string][]metav1.APIResource{"leaderworkerset.x-k8s.io/v1": {
		{Name: "leaderworkersets", Kind: "LeaderWorkerSet"}, {Name: "leaderworkersets/scale", Kind: "Scale"},
	}})
	on.Store(false)
	c := begin(t, client, fixture.LeaderWorkerSet("big", 2))
	if _, ok := c.View(fixture.GroupWorkload("big")); ok {
		t.Fatal("a view before its kind is served")
	}
	on.Store(true)
	eventually(t, "it has a view, its pod is loading", func() bool {
		v, ok := c.View(fixture.GroupWorkload("big"))
		return ok && v.Replicas == 2 && v.Loading == 1
	})
	on.Store(false)
	eventually(t, "it has no view", func() bool { _, ok := c.View(fixture.GroupWorkload("big")); return !ok })
}

// KEDA can be installed after gpuscaler and removed later. ScaledObjects must be read only while the API server serves them.
func TestScaledObjectsAreReadWhileKEDAIsInstalled(t *testing.T) {
	client := fake.NewClientset(fixture.Deployment("chat", 1, "1"))
	on := serve(client, map[string][]metav1.APIResource{"keda.sh/v1alpha1": {{Name: "scaledobjects", Kind: "ScaledObject"}}})
	on.Store(false)
	c := begin(t, client, fixture.ScaledObject("chat", "chat"))
	if v, _ := c.View(fixture.Workload("chat")); v.MaxReplicas != -1 {
		t.Fatalf("bounds %d..%d of an object whose kind is not served", v.MinReplicas, v.MaxReplicas)
	}
	on.Store(true)
	eventually(t, "its bounds are used", func() bool {
		v, _ := c.View(fixture.Workload("chat"))
		return v.MinReplicas == 0 && v.MaxReplicas == 100
	})
	on.Store(false)
	eventually(t, "it has no view", func() bool { v, _ := c.View(fixture.Workload("chat")); return v.MaxReplicas == -1 })
}

var rollouts = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}

// A kind in the configuration must be read through its /scale, as an HPA reads it.
func TestConfiguredKindIsReadThroughScale(t *testing.T) {
	scale := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": "chat", "namespace": "team"},
		"spec": map[string]any{"replicas": int64(5)}, "status": map[string]any{"selector": "app=chat"},
	}}
	client := fake.NewClientset(fixture.Pod("chat", 1, "ready"))
	serve(client, map[string][]metav1.APIResource{"argoproj.io/v1alpha1": {{Name: "rollouts", Kind: "Rollout"}}})
	resource := rollouts.GroupVersion().WithResource("rollouts")
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{resource: "RolloutList"}, fixture.Rollout(3))
	objects.PrependReactor("get", "rollouts", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "scale", scale.DeepCopy(), nil
	})
	kinds := []cache.ScaleKind{{GroupVersionKind: rollouts}, {GroupVersionKind: cache.LeaderWorkerSetKind}}
	c := beginWith(t, client, objects, Options{Kinds: kinds})
	eventually(t, "its view has the values of /scale", func() bool {
		v, ok := c.View(fixture.RolloutWorkload())
		return ok && v.Replicas == 5 && v.Ready == 1 && v.GPUs == 2
	})
	if err := objects.Resource(resource).Namespace("team").Delete(t.Context(), "chat", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has no view", func() bool { _, ok := c.View(fixture.RolloutWorkload()); return !ok })
}

func TestKindThatCannotBeListedDelaysNoOtherKind(t *testing.T) {
	client := fake.NewClientset(fixture.Deployment("chat", 3, "1"))
	serve(client, map[string][]metav1.APIResource{"argoproj.io/v1alpha1": {{Name: "rollouts", Kind: "Rollout"}}})
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{rollouts.GroupVersion().WithResource("rollouts"): "RolloutList"})
	objects.PrependReactor("list", "rollouts", refuse)
	c := beginWith(t, client, objects, Options{Kinds: []cache.ScaleKind{{GroupVersionKind: rollouts}}})
	if _, ok := c.View(fixture.Workload("chat")); !ok {
		t.Error("the Deployment has no view")
	}
	if _, ok := c.View(fixture.RolloutWorkload()); ok {
		t.Error("a Rollout has a view although it cannot be listed")
	}
}
