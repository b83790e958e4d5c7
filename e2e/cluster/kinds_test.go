package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/cluster"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// documentedKinds returns the example entries of scaleKinds in the comments of the chart's values.yaml.
func documentedKinds() (kinds []any, err error) {
	directory, err := chart.Directory()
	if err != nil {
		return nil, err
	}
	values, err := os.ReadFile(filepath.Join(directory, "values.yaml"))
	if err != nil {
		return nil, err
	}
	_, after, _ := strings.Cut(string(values), "# - group: ")
	block, _, found := strings.Cut("# - group: "+after, "\nscaleKinds: []")
	if !found {
		return nil, fmt.Errorf("values.yaml has no examples before scaleKinds")
	}
	err = yaml.Unmarshal([]byte(strings.ReplaceAll("\n"+block, "\n# ", "\n")), &kinds)
	return kinds, err
}

// kindsOf returns the kinds that a release passes to gpuscaler as flags, by the name of the kind.
func kindsOf(r chart.Release) (kinds map[string]cache.ScaleKind, err error) {
	objects, err := chart.Render(r, "deployment.yaml")
	if err != nil {
		return nil, err
	}
	kinds = map[string]cache.ScaleKind{}
	for _, o := range objects {
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		for _, c := range containers {
			args, _, _ := unstructured.NestedStringSlice(c.(map[string]any), "args")
			for _, arg := range args {
				text, is := strings.CutPrefix(arg, "--scale-kind=")
				if !is {
					continue
				}
				k, err := cache.ParseScaleKind(text)
				if err != nil {
					return nil, err
				}
				kinds[k.Kind] = k
			}
		}
	}
	return kinds, nil
}

// describedKind is a kind of another project whose replicas can have several pods. The test creates one object of the kind with two desired
// replicas. The schema and the labels are from the project's source code, at the commit in the field source.
type describedKind struct {
	source           string // repository and commit
	group, plural    string
	kind             string
	selectorPath     string // labelSelectorPath of /scale in the CRD
	selector         string // the selector that the project's controller writes into the status
	spec             map[string]any
	labels           map[string]string // labels of each pod, in which REPLICA is replaced by the name of its replica
	variables        map[string]string // environment variables of each pod
	pods             int               // pods of a replica
	withoutNextSteps []string          // texts of the refusal if scaleKinds lists the kind without a description of its replicas
}

var describedKinds = []describedKind{
	{
		source: "vllm-project/aibrix at 0066fbd", group: "orchestration.aibrix.ai", kind: "StormService", plural: "stormservices",
		selectorPath: ".status.scalingTargetSelector", selector: "storm-service-name=pd",
		spec: map[string]any{"template": map[string]any{"spec": map[string]any{"roles": []any{
			map[string]any{"name": "prefill", "replicas": int64(1)}, map[string]any{"name": "decode", "replicas": int64(2)}}}}},
		labels: map[string]string{"storm-service-name": "pd", "roleset-name": "REPLICA"}, pods: 3,
		withoutNextSteps: []string{"pd has 4 pods for 2 replicas", "podsPerReplica"},
	},
	{
		// Grove writes a selector only if the PodCliqueSet has a scaleConfig for the group.
		source: "ai-dynamo/grove at 8337d54 (API), 0833e81 (labels and variables of pods) and dda5c2f (selector)",
		group:  "grove.io", kind: "PodCliqueScalingGroup", plural: "podcliquescalinggroups", selectorPath: ".status.selector",
		spec: map[string]any{"minAvailable": int64(1), "cliqueNames": []any{"leader", "worker"}},
		labels: map[string]string{"app.kubernetes.io/part-of": "chat", "grove.io/podcliquescalinggroup": "pd",
			"grove.io/podcliquescalinggroup-replica-index": "REPLICA"},
		variables: map[string]string{"GROVE_PCSG_TEMPLATE_NUM_PODS": "4"}, pods: 4,
		withoutNextSteps: []string{"/scale of PodCliqueScalingGroup", "has no selector", "nameLabel"},
	},
	{
		source: "ai-dynamo/grove at 4d416a5", group: "grove.io", kind: "PodClique", plural: "podcliques", selectorPath: ".status.hpaPodSelector",
		spec:   map[string]any{"roleName": "decode", "podSpec": map[string]any{}},
		labels: map[string]string{"grove.io/podclique": "pd", "grove.io/podclique-pod-index": "REPLICA"}, pods: 1,
		withoutNextSteps: []string{"has no selector"},
	},
	{
		// A serving group of two prefill pods and a decode leader with two workers.
		source: "volcano-sh/kthena at e3c9ee2 and 177c774 (API), 38f62db (labels)", group: "workload.serving.volcano.sh", kind: "ModelServing",
		plural: "modelservings", selectorPath: ".status.labelSelector",
		selector: "modelserving.volcano.sh/entry=true,modelserving.volcano.sh/name=pd,modelserving.volcano.sh/role=prefill," +
			"modelserving.volcano.sh/role-id=prefill-0",
		spec: map[string]any{"template": map[string]any{"roles": []any{
			map[string]any{"name": "prefill", "replicas": int64(2), "workerReplicas": int64(0)},
			map[string]any{"name": "decode", "replicas": int64(1), "workerReplicas": int64(2)}}}},
		labels: map[string]string{"modelserving.volcano.sh/name": "pd", "modelserving.volcano.sh/group-name": "REPLICA"}, pods: 5,
	},
	{
		source: "volcano-sh/kthena at 139a48f", group: "workload.serving.volcano.sh", kind: "ModelServingRoleReplica",
		plural: "modelservingrolereplicas", selectorPath: ".status.labelSelector",
		selector: "modelserving.volcano.sh/name=chat,modelserving.volcano.sh/role=decode",
		spec:     map[string]any{"modelServingRef": map[string]any{"name": "chat"}, "roleName": "decode"},
		labels: map[string]string{"modelserving.volcano.sh/name": "chat", "modelserving.volcano.sh/role": "decode",
			"modelserving.volcano.sh/role-id": "REPLICA"},
		variables: map[string]string{"GROUP_SIZE": "2"}, pods: 2,
	},
}

func (d describedKind) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: d.group, Version: "v1alpha1", Kind: d.kind}
}

// install creates the CRD and, until the test ends, one object with two desired replicas. One replica has all its pods, and the other has
// only one pod.
func (d describedKind) install(t *testing.T, ns string) {
	t.Helper()
	err := shared.Client.Create(t.Context(), crd(d.gvk(), d.plural, ".spec.replicas", d.selectorPath))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	d.spec["replicas"] = int64(2)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": d.group + "/v1alpha1", "kind": d.kind, "metadata": map[string]any{"namespace": ns, "name": "pd"}, "spec": d.spec}}
	stack.Eventually(t, time.Minute, "the kind is served", func(ctx context.Context) error { return shared.Client.Create(ctx, object) })
	status := map[string]any{"replicas": int64(2)}
	if d.selector != "" {
		status[strings.TrimPrefix(d.selectorPath, ".status.")] = d.selector
	}
	object.Object["status"] = status
	if err := shared.Client.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // releases the GPUs for other tests
		err := shared.Client.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(ns), client.GracePeriodSeconds(0))
		if err != nil {
			t.Error(err)
		}
	})
	for n := range d.pods {
		d.pod(t, ns, "a", n)
	}
	if d.pods > 1 {
		d.pod(t, ns, "b", 0)
	}
}

func (d describedKind) pod(t *testing.T, ns, replica string, n int) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("pd-%s-%d", replica, n), Labels: map[string]string{}},
		Spec: gpuPod()}
	for key, value := range d.labels {
		p.Labels[key] = strings.ReplaceAll(value, "REPLICA", replica)
	}
	for name, value := range d.variables {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: name, Value: value})
	}
	create(t, p)
}

// For these kinds, neither /scale nor a pod template shows how many pods a replica has. With the description of the replicas in scaleKinds,
// as in the examples of the chart's values.yaml, gpuscaler must count replicas. Without the description, gpuscaler must refuse the kind and
// print the next step.
func TestDescribedKindWithSeveralPodsPerReplicaIsCountedByReplica(t *testing.T) {
	for _, d := range describedKinds {
		t.Run(d.kind, func(t *testing.T) {
			ns := namespace(t, strings.ToLower(d.kind))
			d.install(t, ns)
			w := workload(ns, "pd")
			w.Target = scaling.Target{APIVersion: d.group + "/v1alpha1", Kind: d.kind, Name: "pd"}
			c := start(t, cluster.Options{Kinds: []cache.ScaleKind{scaleKinds[d.kind]}}, nil)
			loading := int32(min(d.pods-1, 1))
			seen(t, c, w, "the replica with all its pods is ready, and another one lacks pods", func(v engine.View) bool {
				return v.Replicas == 2 && v.Ready == 1 && v.Loading == loading && v.GPUs == int32(d.pods)
			})

			if len(d.withoutNextSteps) == 0 {
				return
			}
			c = start(t, cluster.Options{Kinds: []cache.ScaleKind{{GroupVersionKind: d.gvk()}}}, nil)
			stack.Eventually(t, time.Minute, "without the description it is refused", func(context.Context) error {
				for _, text := range d.withoutNextSteps {
					if why := c.Refusal(&w); !strings.Contains(why, text) {
						return fmt.Errorf("refusal %q, want %q", why, text)
					}
				}
				return nil
			})
		})
	}
}

// In a ModelServing with two serving groups, a role has twice as many pods as replicas. An HPA of the role would scale both groups, so
// gpuscaler must refuse the role.
func TestRoleOfSeveralServingGroupsIsRefused(t *testing.T) {
	ns := namespace(t, "serving-groups")
	role := describedKinds[len(describedKinds)-1]
	role.install(t, ns)
	for n := range 6 {
		role.pod(t, ns, fmt.Sprintf("c%d", n/2), n)
	}
	w := workload(ns, "pd")
	w.Target = scaling.Target{APIVersion: role.group + "/v1alpha1", Kind: role.kind, Name: "pd"}
	c := start(t, cluster.Options{Kinds: []cache.ScaleKind{scaleKinds[role.kind]}}, nil)
	stack.Eventually(t, time.Minute, "the role is refused", func(context.Context) error {
		if why := c.Refusal(&w); !strings.Contains(why, "has 9 pods for 2 replicas, and scaleKinds describes 2 pods per replica") {
			return fmt.Errorf("refusal %q", why)
		}
		return nil
	})
}

// The CRDs of KubeRay (ray-project/kuberay at 026f143) and of KServe's LLMInferenceService (kserve/kserve at 01b1241) have no scale
// subresource. gpuscaler must refuse a policy for these kinds, whether or not scaleKinds lists the kind, and the error must say what the
// user can do instead.
func TestKindsWithoutAScaleSubresourceAreRefused(t *testing.T) {
	ns := namespace(t, "no-scale")
	ray := schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayCluster"}
	definition := crd(ray, "rayclusters", ".spec.replicas", ".status.selector")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	unstructured.RemoveNestedField(versions[0].(map[string]any), "subresources", "scale")
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if err := client.IgnoreAlreadyExists(shared.Client.Create(t.Context(), definition)); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": map[string]any{"namespace": ns, "name": "ray"},
		"spec": map[string]any{"workerGroupSpecs": []any{map[string]any{"groupName": "gpu", "replicas": int64(2), "numOfHosts": int64(2)}}}}}
	stack.Eventually(t, time.Minute, "the kind is served", func(ctx context.Context) error { return shared.Client.Create(ctx, object) })

	w := workload(ns, "ray")
	w.Target = scaling.Target{APIVersion: "ray.io/v1", Kind: "RayCluster", Name: "ray"}
	model := workload(ns, "llama")
	model.Target = scaling.Target{APIVersion: "serving.kserve.io/v1alpha2", Kind: "LLMInferenceService", Name: "llama"}
	for name, kinds := range map[string][]cache.ScaleKind{"listed": {scaleKinds["RayCluster"]}, "not listed": nil} {
		c := start(t, cluster.Options{Kinds: kinds}, nil)
		stack.Eventually(t, time.Minute, name+": the RayCluster is refused", func(context.Context) error {
			if why := c.Refusal(&w); !strings.Contains(why, "no scale subresource") || !strings.Contains(why, "enableInTreeAutoscaling") {
				return fmt.Errorf("refusal %q", why)
			}
			return nil
		})
		if why := c.Refusal(&model); !strings.Contains(why, "name the Deployment llama-kserve, or with worker pods the LeaderWorkerSet") {
			t.Errorf("LLMInferenceService: %q", why)
		}
	}
}
