package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/definitions"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The API server must accept the output of `gpuscaler manifests provisioningrequest`. A provisioner that reads this ProvisioningRequest
// must add exactly the nodes that the replicas use:
//
//  1. Nine replicas need more nodes than the provisioner may add: it adds no node, and the request fails.
//  2. Two replicas: two nodes are added. While the request reserves these nodes, they stay although they are empty. gpuscaler counts
//     them.
//  3. The replicas run on these nodes.
//  4. A request cannot be changed. When the reservation has expired, the empty nodes are removed.
func TestProvisioningRequestAddsTheNodesOfItsReplicas(t *testing.T) {
	definitions.Install(t, suite.Stack.Client,
		definitions.ReadAll[apiextensionsv1.CustomResourceDefinition](t, filepath.Join("testdata", "provisioningrequests.yaml"))...)
	h100 := map[string]string{"accelerator": "h100"}
	ns := suite.Namespace(t, "provisioning")
	nodes := &autoscaler{client: suite.Stack.Client, group: nodeGroup{name: "h100", labels: h100, gpus: 1, max: 4}}
	go nodes.run(t.Context())
	chat := workload.Deployment(ns, "chat", 0)
	pod := &chat.Spec.Template.Spec
	pod.NodeSelector = h100
	pod.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	pod.Containers = append(pod.Containers, corev1.Container{Name: "sidecar", Image: "sidecar",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}})
	workload.Create(t, suite.Stack.Client, chat)

	tooMany, err := request(t, chat, "peak", 9)
	if err != nil {
		t.Fatal(err)
	}
	if got := nodes.provision(t, tooMany); got != "Failed" || nodes.greatest() != 0 {
		t.Errorf("9 replicas: condition %s with %d nodes, want Failed with none", got, nodes.greatest())
	}
	monday, err := request(t, chat, "monday", 2)
	if err != nil {
		t.Fatal(err)
	}
	if got := nodes.provision(t, monday); got != "Provisioned" {
		t.Fatalf("2 replicas: condition %s", got)
	}
	counted := func(want float64) func(context.Context) error {
		return func(ctx context.Context) error {
			n, err := suite.Metric(ctx, "gpuscaler_group_nodes", "group", "booked")
			if err == nil && n != want {
				err = fmt.Errorf("%g nodes, want %g", n, want)
			}
			return err
		}
	}
	stack.Eventually(t, time.Minute, "gpuscaler counts two nodes", counted(2))
	stack.Always(t, unneededTime+4*scanInterval, "booked nodes stay", counted(2))
	workload.Scale(t, suite.Stack.Client, chat, 2)
	stack.Eventually(t, time.Minute, "the replicas run", workload.HasReplicas(suite.Stack.Client, ns, "chat", 2))
	if n := nodes.greatest(); n != 2 {
		t.Errorf("%d nodes, want the 2 of the request", n)
	}

	if _, err := request(t, chat, "monday", 3); err == nil || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("a request was changed: %v", err)
	}
	workload.Scale(t, suite.Stack.Client, chat, 0)
	nodes.expire(t, monday)
	stack.Eventually(t, time.Minute, "unneeded nodes are removed", counted(0))
}

// request applies the manifest that the command prints, as `kubectl apply --server-side --validate=strict` does, and returns the
// ProvisioningRequest.
func request(t *testing.T, d *appsv1.Deployment, name string, replicas int) (r *unstructured.Unstructured, err error) {
	t.Helper()
	of := d.DeepCopy()
	of.APIVersion, of.Kind = "apps/v1", "Deployment"
	text, err := yaml.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "chat.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := suite.CLI(t.Context(), "manifests", "provisioningrequest", "--from", file, "--name", name, "--replicas", fmt.Sprint(replicas))
	if err != nil {
		t.Fatal(err)
	}
	strict := client.WithFieldValidation(suite.Stack.Client, metav1.FieldValidationStrict)
	for _, document := range strings.Split(out, "\n---\n") {
		r = &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &r.Object); err != nil {
			t.Fatal(err)
		}
		if err := strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(r), client.FieldOwner("kubectl")); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// provision does what Cluster Autoscaler does for a ProvisioningRequest of the class best-effort-atomic-scale-up: it adds the nodes for
// all pods, or no node. provision returns the condition that it sets. "Provisioned indicates that all of the requested resources were
// created", and "Failed indicates that it is impossible to obtain resources to fulfill this ProvisioningRequest" (kubernetes/autoscaler
// at 3a1ecdc, cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go).
func (a *autoscaler) provision(t *testing.T, r *unstructured.Unstructured) (condition string) {
	t.Helper()
	sets, _, _ := unstructured.NestedSlice(r.Object, "spec", "podSets")
	if len(sets) != 1 {
		t.Fatalf("%d podSets", len(sets))
	}
	name, _, _ := unstructured.NestedString(sets[0].(map[string]any), "podTemplateRef", "name")
	replicas, _, _ := unstructured.NestedFieldNoCopy(sets[0].(map[string]any), "count")
	var template corev1.PodTemplate
	if err := suite.Stack.Client.Get(t.Context(), client.ObjectKey{Namespace: r.GetNamespace(), Name: name}, &template); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Spec: template.Template.Spec}
	if cpu := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]; cpu.String() != "2" || len(pod.Spec.Tolerations) != 1 {
		t.Errorf("the template differs from the pods of the Deployment: %+v", pod.Spec)
	}
	var count int
	_, err := fmt.Sscan(fmt.Sprint(replicas), &count)
	if err != nil || !a.fits(pod) || count*int(gpusOf(pod)) > a.group.max*int(a.group.gpus) {
		a.report(t, r, "Failed")
		return "Failed"
	}
	a.book(true)
	for range count * int(gpusOf(pod)) / int(a.group.gpus) {
		if err := a.client.Create(t.Context(), a.template()); err != nil {
			t.Fatal(err)
		}
	}
	a.report(t, r, "Provisioned")
	return "Provisioned"
}

// expire ends the reservation of the nodes: "BookingExpired indicates that the ProvisioningRequest had Provisioned condition before and
// capacity reservation time is expired".
func (a *autoscaler) expire(t *testing.T, r *unstructured.Unstructured) {
	t.Helper()
	a.report(t, r, "BookingExpired")
	a.book(false)
}

// report sets a condition of a ProvisioningRequest.
func (a *autoscaler) report(t *testing.T, r *unstructured.Unstructured, condition string) {
	t.Helper()
	now := &unstructured.Unstructured{Object: map[string]any{}}
	now.SetGroupVersionKind(r.GroupVersionKind())
	if err := a.client.Get(t.Context(), client.ObjectKeyFromObject(r), now); err != nil {
		t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
	conditions = append(conditions, map[string]any{"type": condition, "status": "True", "reason": condition, "message": "",
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)})
	if err := unstructured.SetNestedSlice(now.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	if err := a.client.Status().Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
}
