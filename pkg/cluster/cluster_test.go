package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// begin runs a Cluster with fake clients and waits until its caches are synced.
func begin(t *testing.T, client *fake.Clientset, objects ...runtime.Object) *Cluster {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{
		cache.LeaderWorkerSetKind.GroupVersion().WithResource("leaderworkersets"): "LeaderWorkerSetList",
		cache.ScaledObjects.GroupVersion().WithResource("scaledobjects"):          "ScaledObjectList",
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
	c.crds.SetSyncTimeout(2 * time.Second)
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

func TestPodsAreCountedByState(t *testing.T) {
	client := fake.NewClientset(fixture.Deployment("chat", 6, "2"), fixture.HPA("chat", "chat", "chat"),
		fixture.Pod("chat", 1, "ready"), fixture.Pod("chat", 2, "loading"), fixture.Pod("chat", 3, "pending"),
		fixture.Pod("chat", 4, "crashing"), fixture.Pod("chat", 5, "terminating"), fixture.Pod("other", 6, "ready"))
	c := begin(t, client)
	v, ok := c.View(fixture.Workload("chat"))
	if !ok {
		t.Fatal("no view")
	}
	want := engine.View{
		UID:      "uid",
		Replicas: 6, Ready: 1, Loading: 1, Pending: 1, Crashing: 1, CrashingPod: "chat-4", GPUs: 2, MinReplicas: 1, MaxReplicas: 40,
		Operator:   scaling.NoOperator,
		ManagedHPA: engine.ManagedHPA{Kind: cache.HPAKind, Name: "chat", Desired: 3, Exact: true},
	}
	if v.Version == 0 {
		t.Error("the version of the ready pod is not known")
	}
	v.Version = 0 // not compared here: the tests of package cache check this hash of the pod template
	if v != want {
		t.Errorf("view\n%+v, want\n%+v", v, want)
	}
	if pods := c.Pods(fixture.Workload("chat")); len(pods) != 4 || pods[0].IP != "10.0.0.1" || !pods[0].Ready || pods[1].Ready {
		t.Errorf("pods %+v: want all but the terminating one", pods)
	}

	if _, err := client.CoreV1().Pods("team").UpdateStatus(t.Context(), fixture.Pod("chat", 2, "ready"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loading pod is ready", func() bool { v, _ := c.View(fixture.Workload("chat")); return v.Ready == 2 && v.Loading == 0 })
}

func TestDeletedDeploymentHasNoViewUntilItIsCreatedAgain(t *testing.T) {
	client := fake.NewClientset(fixture.Deployment("chat", 1, "1"), fixture.Pod("chat", 1, "ready"))
	c := begin(t, client)
	if err := client.AppsV1().Deployments("team").Delete(t.Context(), "chat", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func() bool { _, ok := c.View(fixture.Workload("chat")); return !ok })
	if _, err := client.AppsV1().Deployments("team").Create(t.Context(), fixture.Deployment("chat", 4, "1"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is back with its pod", func() bool {
		v, ok := c.View(fixture.Workload("chat"))
		return ok && v.Replicas == 4 && v.Ready == 1
	})
}

func TestNoViewBeforeTheCachesAreSynced(t *testing.T) {
	c := newCluster(fake.NewClientset(fixture.Deployment("chat", 1, "1")), dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), Options{})
	c.cache.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(fixture.Deployment("chat", 1, "1"))))
	if _, ok := c.View(fixture.Workload("chat")); ok {
		t.Error("a view before the pods are read counts none of them")
	}
}

func TestExportersAreFoundByLabels(t *testing.T) {
	loading, ready := fixture.Pod("dcgm", 2, "loading"), fixture.Pod("dcgm", 1, "ready")
	unaddressed := fixture.Pod("dcgm", 5, "loading")
	unaddressed.Status.PodIP = ""
	elsewhere := fixture.Pod("dcgm", 6, "ready")
	elsewhere.Namespace = "other-team"
	c := begin(t, fake.NewClientset(loading, ready, unaddressed, elsewhere,
		fixture.Pod("dcgm", 3, "terminating"), fixture.Pod("dcgm", 4, "pending"), fixture.Pod("chat", 1, "ready")))
	found := c.Exporters("team", map[string]string{"app": "dcgm"})
	if len(found) != 2 || found[0].Name != "dcgm-1" || found[1].Name != "dcgm-2" {
		t.Fatalf("found %+v", found)
	}
	if found[0].Node != "node" || found[0].IP != "10.0.0.1" {
		t.Errorf("%+v", found[0])
	}
	for name, none := range map[string]int{
		"no label":                      len(c.Exporters("team", nil)),
		"no namespace":                  len(c.Exporters("", map[string]string{"app": "dcgm"})),
		"one label that does not match": len(c.Exporters("team", map[string]string{"app": "dcgm", "tier": "gpu"})),
	} {
		if none != 0 {
			t.Errorf("%s: %d pods", name, none)
		}
	}
}
