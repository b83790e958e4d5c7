package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// Four pods run on-demand because spot has no capacity: pods of a Deployment, of a StatefulSet and of a LeaderWorkerSet, and a notebook
// without a policy. A return to spot needs a second pod before the old pod is deleted, and only a ReplicaSet can create this second pod.
// The pods without a ReplicaSet must therefore stay on-demand, and the group must report them.
func TestUnmovablePodsStayOnDemandAndAreReported(t *testing.T) {
	t.Parallel()
	spot := pool{name: "stuck-spot", kind: "spot", weight: 80, nudge: allFields, by: clientSide}
	demand := pool{name: "stuck-od", kind: "on-demand", weight: 20, nudge: allFields, by: serverSide}
	spot.create(t)
	demand.create(t)
	content := demand.content(t)
	chat(t, "stuck", nil)
	scarce(t, karpenter.Shortage{CapacityType: "spot", InstanceType: spot.instance()})
	statefulSet(t, "stuck", "db")
	leaderWorkerSet(t, "stuck", "llm")
	follows := func(kind, api, name string) string {
		return fmt.Sprintf("\n---\napiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: %s, namespace: stuck}\nspec:\n"+
			"  scaleTargetRef: {apiVersion: %s, kind: %s, name: %s}\n  minReplicas: 1\n  maxReplicas: 4\n  capacityGroup: gpu\n"+
			"  signals:\n  - {name: queue, type: external, metric: queue, target: 1, maxAge: 10m}\n", name, api, kind, name)
	}
	g := start(t, "stuck", map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, returnNodesPerHour: 60, nodePools: " +
			"{spot: stuck-spot, on-demand: stuck-od}}\n"),
		"chat.yaml": chatPolicy("stuck") + follows("StatefulSet", "apps/v1", "db") + follows("LeaderWorkerSet",
			"leaderworkerset.x-k8s.io/v1", "llm"),
	})
	g.load(t, map[string]float64{"stuck/chat": 1, "stuck/db": 1, "stuck/llm": 1})
	lonelyJob(t, "stuck", map[string]string{"suite": "stuck"})
	g.group(t, 2*time.Minute, "four on-demand nodes without spot", on(0, 4))
	// Karpenter tries to launch spot once for all pods or once for each pod, depending on how it batches the pods. The group falls back only
	// after several failed launches, although its nodes are on-demand even after one failed launch. The phases fallback and returning are
	// therefore both correct.
	g.group(t, 30*time.Second, "the group falls back, or returns", func(s fastGroup) error {
		if phase("fallback")(s) != nil {
			return phase("returning")(s)
		}
		return nil
	})
	stuck := []string{"db-0", "llm-0", "job"}
	were := podUIDs(t, "stuck", stuck)
	least := watchReady(t, "stuck", "chat")

	scarce(t)
	g.group(t, 4*time.Minute, "the Deployment's replica returns to spot, the three others stay", on(1, 3))
	reported := func(s fastGroup) error {
		for _, name := range []string{"stuck/db", "stuck/llm"} {
			if want := "NodePool stuck-od: a StatefulSet or LeaderWorkerSet starts no new pod before it deletes one: 1 pod of " + name +
				" stays on demand; restart it when spot has capacity"; !slices.Contains(s.Findings, want) {
				return fmt.Errorf("no finding %q", want)
			}
		}
		if s.Phase != "prefer spot" || len(s.Overrides) > 0 {
			return errors.New("an override exists although no pod can move")
		}
		return nil
	}
	g.group(t, time.Minute, "the group reports the pods that stay and has no override", reported)
	stack.Always(t, 10*time.Second, "the pods stay", func(context.Context) error {
		s, err := g.status()
		return errors.Join(err, on(1, 3)(s.Groups["gpu"]))
	})
	if now := podUIDs(t, "stuck", stuck); !slices.Equal(now, were) {
		t.Errorf("pods %v were replaced: %v", now, were)
	}
	if n := least.Load(); n < 1 {
		t.Error("the Deployment's replica was missing for some time")
	}
	stack.Eventually(t, 30*time.Second, "no pod has an annotation of gpuscaler", unmarked("stuck"))
	if now := demand.content(t); now != content {
		t.Errorf("the NodePool differs:\n%s\nbefore:\n%s", now, content)
	}
	g.load(t, map[string]float64{"stuck/chat": 0, "stuck/db": 1, "stuck/llm": 1})
}

// podUIDs returns the UIDs of pods. It fails the test if a pod does not exist.
func podUIDs(t *testing.T, namespace string, names []string) (uids []types.UID) {
	t.Helper()
	for _, name := range names {
		var p corev1.Pod
		if err := suite.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name},
			&p); err != nil || p.DeletionTimestamp != nil {
			t.Fatalf("%s: %v, deleted at %v", name, err, p.DeletionTimestamp)
		}
		uids = append(uids, p.UID)
	}
	return uids
}

// statefulSet creates a StatefulSet whose only pod requests a GPU and can run only on nodes of the test.
func statefulSet(t *testing.T, namespace, name string) {
	t.Helper()
	of := workload.Deployment(namespace, name, 1)
	of.Spec.Template.Spec.NodeSelector = map[string]string{"suite": namespace}
	set := &appsv1.StatefulSet{ObjectMeta: of.ObjectMeta, Spec: appsv1.StatefulSetSpec{
		Replicas: of.Spec.Replicas, Selector: of.Spec.Selector, Template: of.Spec.Template, ServiceName: name,
	}}
	workload.Create(t, suite.Client, set)
	t.Cleanup(func() {
		_ = suite.Client.Delete(context.Background(), set, client.PropagationPolicy(metav1.DeletePropagationForeground))
	})
}

// leaderWorkerSet creates a LeaderWorkerSet whose group has one pod. It also creates the pod, because the controller of LeaderWorkerSets
// does not run here.
func leaderWorkerSet(t *testing.T, namespace, name string) {
	t.Helper()
	of := workload.Deployment(namespace, name, 1).Spec.Template
	of.Spec.NodeSelector = map[string]string{"suite": namespace}
	of.Labels = map[string]string{
		"leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/group-index": "0", "leaderworkerset.sigs.k8s.io/worker-index": "0",
	}
	anything := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "leaderworkersets.leaderworkerset.x-k8s.io"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "leaderworkerset.x-k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "leaderworkersets", Kind: "LeaderWorkerSet"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
					XPreserveUnknownFields: &anything}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{
						SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas",
					},
				},
			}},
		},
	}
	if err := client.IgnoreAlreadyExists(suite.Client.Create(t.Context(),
		crd)); err != nil { // the CRD is not deleted, because other tests watch it
		t.Fatal(err)
	}
	resources := map[string]any{"limits": map[string]any{string(stack.GPU): "1"}}
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(1),
		"leaderWorkerTemplate": map[string]any{"size": int64(1), "workerTemplate": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "vllm", "image": "vllm/vllm-openai", "resources": resources}},
		}}},
	}}}
	set.SetAPIVersion("leaderworkerset.x-k8s.io/v1")
	set.SetKind("LeaderWorkerSet")
	set.SetNamespace(namespace)
	set.SetName(name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-0", Labels: of.Labels}, Spec: of.Spec}
	stack.Eventually(t, 20*time.Second, "LeaderWorkerSets are served",
		func(ctx context.Context) error { return suite.Client.Create(ctx, set.DeepCopy()) })
	workload.Create(t, suite.Client, pod)
	t.Cleanup(func() {
		_ = suite.Client.Delete(context.Background(), set)
		_ = suite.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0))
	})
}
