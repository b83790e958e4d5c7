package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/activation"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// start runs a cluster.Cluster with the permissions of gpuscaler's ServiceAccount, and waits until its caches are synced.
func start(t *testing.T, o cluster.Options, numbers activation.Served) *cluster.Cluster {
	t.Helper()
	o.Log, o.DiscoveryPeriod, o.Instance = logger(t), 500*time.Millisecond, "gpuscaler-0"
	c, err := cluster.New(account, o)
	if err != nil {
		t.Fatal(err)
	}
	if numbers != nil {
		c.Activate(numbers)
	}
	background(t, c.Run)
	stack.Eventually(t, time.Minute, "the caches are synced", func(context.Context) error {
		if !c.Synced() {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	return c
}

// seen waits until gpuscaler's observed state of a workload satisfies a condition.
func seen(t *testing.T, c *cluster.Cluster, w scaling.Workload, what string, want func(v engine.View) bool) {
	t.Helper()
	stack.Eventually(t, time.Minute, what, func(context.Context) error {
		if v, ok := c.View(&w); !ok || !want(v) {
			return fmt.Errorf("view %+v, %v", v, ok)
		}
		return nil
	})
}

func TestPodsAreCountedAndAPauseHasItsAuthor(t *testing.T) {
	ns := namespace(t, "views")
	d := deployment(ns, "chat", 3)
	create(t, d)
	c := start(t, cluster.Options{}, nil)
	chat := workload(ns, "chat")
	seen(t, c, chat, "three ready pods of one GPU", func(v engine.View) bool {
		return v.Replicas == 3 && v.Ready == 3 && v.Loading == 0 && v.Pending == 0 && v.GPUs == 1
	})
	if pods := c.Pods(&chat); len(pods) != 3 || pods[0].IP == "" || pods[0].Node == "" {
		t.Errorf("pods %+v", pods)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":20}}`))
	if err := shared.Client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
	seen(t, c, chat, "16 GPUs for 20 pods: the rest is pending",
		func(v engine.View) bool { return v.Replicas == 20 && v.Ready == 16 && v.Pending == 4 })

	patch = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"gpuscaler.io/paused":"true"}}}`))
	if err := shared.Client.Patch(t.Context(), d, patch, client.FieldOwner("kubectl-annotate")); err != nil {
		t.Fatal(err)
	}
	seen(t, c, chat, "paused, with the author", func(v engine.View) bool {
		return v.Operator.Paused && strings.HasPrefix(v.OperatorBy, "kubectl-annotate, 20")
	})
	if err := shared.Client.Delete(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the workload is deleted", func(context.Context) error {
		if _, ok := c.View(&chat); ok {
			return fmt.Errorf("still seen")
		}
		return nil
	})
}

func TestActivatorScalesFromZeroAndToZero(t *testing.T) {
	ns := namespace(t, "activator")
	create(t, deployment(ns, "chat", 0))
	numbers := &servedTarget{}
	numbers.set(4)
	c := start(t, cluster.Options{Policies: fixed{workload(ns, "chat")}, ActivateIn: []string{ns}}, numbers)
	chat := workload(ns, "chat")
	seen(t, c, chat, "one ready replica", func(v engine.View) bool { return v.Replicas == 1 && v.Ready == 1 })

	var d appsv1.Deployment
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat"}, &d); err != nil {
		t.Fatal(err)
	}
	owned := ""
	for _, m := range d.ManagedFields {
		if m.Manager == "gpuscaler" && m.Subresource == "scale" {
			owned = string(m.FieldsV1.GetRawBytes())
		}
	}
	if owned != `{"f:spec":{"f:replicas":{}}}` {
		t.Errorf("gpuscaler owns %q, want only spec.replicas through /scale", owned)
	}
	numbers.set(0)
	seen(t, c, chat, "scaled to zero", func(v engine.View) bool { return v.Replicas == 0 && v.Ready == 0 })
	for _, reason := range []string{events.Activated, events.Deactivated} {
		stack.Eventually(t, time.Minute, "an Event "+reason+" on the Deployment", reported(ns, "Deployment", "chat", reason))
	}
}

// reported returns a check that gpuscaler wrote an Event about an object.
func reported(ns, kind, name, reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		var events eventsv1.EventList
		if err := shared.Client.List(ctx, &events, client.InNamespace(ns)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason && e.ReportingController == "gpuscaler.io/gpuscaler" {
				return nil
			}
		}
		return fmt.Errorf("not found in %d Events", len(events.Items))
	}
}

// crd returns a CRD with a scale subresource, whose replicas and selector are at the given paths.
func crd(kind schema.GroupVersionKind, plural, replicasPath, selectorPath string) *unstructured.Unstructured {
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"%[4]s.%[1]s"},
"spec":{"group":"%[1]s","scope":"Namespaced","names":{"kind":"%[3]s","plural":"%[4]s","singular":"%[5]s","listKind":"%[3]sList"},
"versions":[{"name":"%[2]s","served":true,"storage":true,
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
"subresources":{"status":{},"scale":{"specReplicasPath":"%[6]s","statusReplicasPath":".status.replicas","labelSelectorPath":"%[7]s"}}}]}}`,
		kind.Group, kind.Version, kind.Kind, plural, strings.TrimSuffix(plural, "s"), replicasPath, selectorPath)
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		panic(err)
	}
	return u
}

func TestScaleKindIsReadThroughItsScaleSubresourceAlsoIfInstalledLater(t *testing.T) {
	ns := namespace(t, "fleets")
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fleet"}
	c := start(t, cluster.Options{Kinds: []cache.ScaleKind{{GroupVersionKind: kind}}}, nil)
	create(t, crd(kind, "fleets", ".spec.size", ".status.pods"))
	fleet := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Fleet", "metadata": map[string]any{"namespace": ns, "name": "f"},
		"spec": map[string]any{"size": int64(2)},
	}}
	stack.Eventually(t, time.Minute, "the kind is served", func(ctx context.Context) error { return shared.Client.Create(ctx, fleet) })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "f-0", Labels: map[string]string{"fleet": "f"}}, Spec: gpuPod()}
	create(t, pod)
	w := workload(ns, "f")
	w.Target = scaling.Target{APIVersion: "example.com/v1", Kind: "Fleet", Name: "f"}
	if _, ok := c.View(&w); ok {
		t.Error("the workload is reported before its status has a selector")
	}
	fleet.Object["status"] = map[string]any{"pods": "fleet=f", "replicas": int64(1)}
	if err := shared.Client.Status().Update(t.Context(), fleet); err != nil {
		t.Fatal(err)
	}
	seen(t, c, w, "two desired replicas, one ready", func(v engine.View) bool { return v.Replicas == 2 && v.Ready == 1 })
}

func TestLeaderWorkerSetIsReadOnceItsCRDIsInstalledAndIsActivated(t *testing.T) {
	ns := namespace(t, "groups")
	w := workload(ns, "big")
	w.Target = scaling.Target{APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: "LeaderWorkerSet", Name: "big"}
	numbers := &servedTarget{}
	numbers.set(2)
	c := start(t, cluster.Options{Policies: fixed{w}, ActivateIn: []string{ns}}, numbers)
	create(t, crd(schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"},
		"leaderworkersets", ".spec.replicas", ".status.hpaPodSelector"))
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": map[string]any{"namespace": ns, "name": "big"},
		"spec": map[string]any{"replicas": int64(0), "leaderWorkerTemplate": map[string]any{"size": int64(2), "workerTemplate": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "x",
				"resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": int64(4)}}}}},
		}}},
	}}
	stack.Eventually(t, time.Minute, "the kind is served", func(ctx context.Context) error { return shared.Client.Create(ctx, set) })
	seen(t, c, w, "activated through its scale subresource", func(v engine.View) bool { return v.Replicas == 1 && v.GPUs == 8 })
	for worker := range 2 {
		create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("big-0-%d", worker), Labels: map[string]string{
			"leaderworkerset.sigs.k8s.io/name": "big", "leaderworkerset.sigs.k8s.io/group-index": "0",
			"leaderworkerset.sigs.k8s.io/worker-index": fmt.Sprint(worker),
		}}, Spec: gpuPod()})
	}
	seen(t, c, w, "one replica of two pods is ready", func(v engine.View) bool { return v.Ready == 1 && v.Loading == 0 })
}
