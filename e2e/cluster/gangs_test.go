package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/definitions"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// A gang of four pods, one of which is created late, must be demand from its admission until its last pod has finished:
//
//  1. Kueue has not admitted the gang: the gang is no demand, and the NodePool has a zero limit.
//  2. Kueue removes the scheduling gate of one pod: all four pods are demand, and the owner's limit is restored. Only pods without a
//     gate are pending.
//  3. A node is added, and the pods run: each pod counts once, and gpuscaler writes nothing for twenty minutes.
//  4. Two pods finish: the other pods keep their node. After all pods are deleted, the NodePool has a zero limit.
func TestGangOfKueueIsDemandFromItsAdmissionToItsEnd(t *testing.T) {
	tr := newTraining(t, "kueue")
	pod := func(n int, gated bool) *corev1.Pod {
		return tr.pod(fmt.Sprintf("train-%d", n), func(p *corev1.Pod) {
			p.Labels = map[string]string{"kueue.x-k8s.io/pod-group-name": "train", "kueue.x-k8s.io/managed": "true"}
			p.Annotations = map[string]string{"kueue.x-k8s.io/pod-group-total-count": "4"}
			if gated {
				p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}}
			}
		})
	}
	pods := []*corev1.Pod{pod(0, true), pod(1, true), pod(2, true), pod(3, false)}
	create(t, pods[0], pods[1], pods[2])
	tr.eventually(t, "without admission there is no demand", 0, 0, "0")

	admit := func(p *corev1.Pod) {
		t.Helper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"schedulingGates":null}}`))
		if err := shared.Client.Patch(t.Context(), p, patch); err != nil {
			t.Fatal(err)
		}
	}
	admit(pods[0])
	tr.eventually(t, "the first admitted pod makes the gang demand", 4, 1, ownLimit)
	admit(pods[1])
	admit(pods[2])
	tr.eventually(t, "a pod that does not exist yet is demand and does not wait", 4, 3, ownLimit)
	create(t, pods[3])
	tr.eventually(t, "all pods wait", 4, 4, ownLimit)

	tr.node(t, 4)
	tr.eventually(t, "all pods run", 4, 0, ownLimit)
	tr.untouched(t)
	for _, p := range pods[:2] {
		// Wait until kwok has set the status of the started pod. Otherwise, kwok would overwrite the status that the test sets.
		stack.Eventually(t, time.Minute, "the pod runs", func(ctx context.Context) error {
			if err := shared.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil || p.Status.Phase == corev1.PodRunning {
				return err
			}
			return fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
		})
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
		if err := shared.Client.Status().Patch(t.Context(), p, patch); err != nil {
			t.Fatal(err)
		}
	}
	tr.eventually(t, "finished pods are no demand", 2, 0, ownLimit)
	tr.untouched(t)
	tr.remove(t)
	tr.eventually(t, "the gang has ended", 0, 0, "0")
}

// remove deletes all pods of the gang.
func (tr *training) remove(t *testing.T) {
	t.Helper()
	err := shared.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(tr.namespace), client.GracePeriodSeconds(0))
	if err != nil {
		t.Fatal(err)
	}
}

// framework describes how a project creates the pods of a gang: the parent object, and the fields and labels that its controller sets on
// the pods.
type framework struct {
	parent      string
	labels      map[string]string
	annotations map[string]string
	scheduler   string
	hostile     []string // merge patches that set impossible numbers in the parent and that its CRD accepts
}

// frameworks contains the tested projects, by the kind of the parent object. The CRD of PyTorchJob is from the Go module of its project.
// testdata/gangs.yaml contains the other CRDs.
var frameworks = map[string]framework{
	"JobSet": {
		parent: `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: [{name: w, template: {spec: {parallelism: 4}}}]}}`,
		labels: map[string]string{"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/job-index": "0"},
		hostile: []string{`{"spec":{"replicatedJobs":[{"name":"w","replicas":-1,"template":{}}]}}`,
			`{"spec":{"replicatedJobs":[{"name":"w","replicas":1000000000,"template":{}}]}}`},
	},
	"PyTorchJob": {
		parent: `{apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: {pytorchReplicaSpecs: {Worker: {replicas: 4, template: {spec: {
  containers: [{name: pytorch, image: pytorch}]}}}}}}`,
		labels:  map[string]string{"training.kubeflow.org/job-name": "train", "training.kubeflow.org/replica-type": "worker"},
		hostile: []string{`{"spec":{"pytorchReplicaSpecs":{"Worker":{"replicas":1000000000}}}}`}, // the CRD rejects negative numbers
	},
	"RayCluster": {
		parent: `{apiVersion: ray.io/v1, kind: RayCluster, spec: {workerGroupSpecs: [{groupName: gpu, replicas: 2, numOfHosts: 2}]}}`,
		labels: map[string]string{"ray.io/cluster": "train", "ray.io/group": "gpu", "ray.io/node-type": "worker"},
	},
	"Volcano": {
		parent: `{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minMember: 4, queue: default},
  status: {phase: Inqueue}}`,
		labels:      map[string]string{"volcano.sh/job-name": "train"},
		annotations: map[string]string{"scheduling.k8s.io/group-name": "train"},
		scheduler:   "volcano",
		hostile:     []string{`{"spec":{"minMember":-8}}`, `{"spec":{"minMember":1000000000}}`},
	},
}

// Two pods of a gang run on the only node, and two pods are pending. All four pods must be demand, and gpuscaler must write nothing.
// Impossible numbers in the parent object must not change the demand. If the parent is deleted before its pods, the demand must end with
// the pods.
func TestHalfStartedGangIsDemandAndKeepsItsNode(t *testing.T) {
	tr := newTraining(t, "gangs")
	tr.node(t, 2)
	definitions.Install(t, shared.Client, definitions.Read(t, "github.com/kubeflow/training-operator@v1.8.1",
		"manifests/base/crds/kubeflow.org_pytorchjobs.yaml")...)
	definitions.Install(t, shared.Client,
		definitions.ReadAll[apiextensionsv1.CustomResourceDefinition](t, filepath.Join("testdata", "gangs.yaml"))...)
	for name, f := range frameworks {
		t.Run(name, func(t *testing.T) {
			parent := f.create(t, tr)
			waiting := int64(2)
			if f.scheduler != "" {
				f.schedule(t, tr)
				waiting = 0 // Volcano's conditions on the pods report that the gang does not wait for a node
			}
			tr.eventually(t, "two pods run, two wait", 4, waiting, ownLimit)
			d := tr.untouched(t)
			held := strings.Contains(fmt.Sprint(d.Findings), "gangs/")
			if held != (waiting == 0) {
				t.Errorf("findings %+v; want one about pods that do not wait for a node: %t", d.Findings, waiting == 0)
			}
			for _, patch := range f.hostile {
				if err := shared.Client.Patch(t.Context(), parent, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
					t.Errorf("%s: %v", patch, err)
				}
				tr.eventually(t, patch, 4, waiting, ownLimit)
			}
			f.unmarked(t, tr)
			if err := shared.Client.Delete(t.Context(), parent); err != nil {
				t.Fatal(err)
			}
			tr.remove(t)
			tr.eventually(t, "the gang has ended", 0, 0, "0")
		})
	}
}

// create creates the parent object and four pods of the gang.
func (f framework) create(t *testing.T, tr *training) (parent *unstructured.Unstructured) {
	t.Helper()
	parent = &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(f.parent), &parent.Object); err != nil {
		t.Fatal(err)
	}
	parent.SetNamespace(tr.namespace)
	parent.SetName("train")
	create(t, parent)
	owner := metav1.OwnerReference{APIVersion: parent.GetAPIVersion(), Kind: parent.GetKind(), Name: "train", UID: parent.GetUID(),
		Controller: new(true)}
	for n := range 4 {
		create(t, tr.pod(fmt.Sprintf("train-%d", n), func(p *corev1.Pod) {
			p.Labels, p.Annotations, p.OwnerReferences = f.labels, f.annotations, []metav1.OwnerReference{owner}
			p.Spec.SchedulerName = f.scheduler
		}))
	}
	return parent
}

// schedule acts as Volcano's scheduler: it binds two pods to the node. On the other two pods, it sets the conditions with which Volcano
// reports that the gang does not wait for a node.
func (f framework) schedule(t *testing.T, tr *training) {
	t.Helper()
	for n, reason := range []string{"", "", "Schedulable", "Undetermined"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tr.namespace, Name: fmt.Sprintf("train-%d", n)}}
		var err error
		if reason == "" {
			err = shared.Client.SubResource("binding").Create(t.Context(), p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node",
				Name: tr.pool}})
		} else {
			patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":%q}]}}`, reason)
			err = shared.Client.Status().Patch(t.Context(), p, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// unmarked fails the test if gpuscaler owns a field of one of the pods.
func (f framework) unmarked(t *testing.T, tr *training) {
	t.Helper()
	var pods corev1.PodList
	if err := shared.Client.List(t.Context(), &pods, client.InNamespace(tr.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		for _, m := range p.ManagedFields {
			if strings.HasPrefix(m.Manager, "gpuscaler") {
				t.Errorf("gpuscaler wrote to pod %s: %s", p.Name, m.FieldsV1)
			}
		}
	}
}
