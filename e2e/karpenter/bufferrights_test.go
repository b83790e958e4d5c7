package karpenter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/chart"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// grant applies the chart's ServiceAccount, roles and admission policies for a release with the given name, with or without the
// permission to write CapacityBuffers. It returns a kubeconfig of the ServiceAccount.
func grant(t *testing.T, name string, buffers bool) string {
	t.Helper()
	r := chart.Release{Name: name, Namespace: controller.Namespace,
		Values: map[string]any{"mode": "all", "karpenter": map[string]any{"capacityBuffers": buffers}}}
	if err := chart.Apply(t.Context(), suite.Client, r, "serviceaccount.yaml", "rbac.yaml", "admission.yaml"); err != nil {
		t.Fatal(err)
	}
	account, err := suite.ServiceAccountKubeconfig(t.Context(), controller.Namespace, name+"-gpuscaler")
	if err != nil {
		t.Fatal(err)
	}
	return account
}

// If the permission to write CapacityBuffers is removed, gpuscaler must delete an existing CapacityBuffer, because the buffer keeps
// nodes. A running leader deletes it after at most two checks of the permission. If no leader runs, the next leader deletes it.
func TestBufferIsDeletedWithoutPermissionToWriteIt(t *testing.T) {
	t.Parallel()
	account := grant(t, "turn", true)
	pool{name: "turn-spot", kind: "spot", weight: 80, by: clientSide}.create(t)
	chat(t, "turn", nil)
	requesting(t, "turn")
	g := startAs(t, account, 1, "turn", map[string]string{"platform.yaml": buffering("turn-spot"), "chat.yaml": soon("turn", 1)})
	g.load(t, map[string]float64{"turn/chat": 0})
	stack.Eventually(t, time.Minute, "a buffer present", held("turn", 1))

	grant(t, "turn", false)
	stack.Eventually(t, 30*time.Second, "the buffer is deleted without the permission", noBuffer("turn"))
	g.group(t, 30*time.Second, "the group reports that buffers are unavailable", findsNoBuffers)
	if log := g.tail(10000); !strings.Contains(log, "karpenter.capacityBuffers") {
		t.Error("the log does not name the chart's value that would allow it")
	}
	grant(t, "turn", true)
	stack.Eventually(t, 30*time.Second, "the buffer is created with the permission", held("turn", 1))

	g.end(syscall.SIGKILL)
	grant(t, "turn", false)
	g.run(t)
	stack.Eventually(t, 20*time.Second, "the next leader deletes the buffer after a crash", noBuffer("turn"))
	g.group(t, 90*time.Second, "Karpenter removes the node", on(0, 0))
}

func findsNoBuffers(s fastGroup) error {
	for _, f := range s.Findings {
		if strings.Contains(f, "the cluster serves no CapacityBuffers, or the chart's karpenter.capacityBuffers is false") {
			return nil
		}
	}
	return errors.New("no finding")
}

// A crashed controller has not deleted a CapacityBuffer. `gpuscaler restore` must delete it or, if the account is not allowed to delete
// it, print the kubectl command. The test is not parallel, because restore restores every NodePool.
func TestRestoreDeletesABufferOrPrintsTheCommand(t *testing.T) {
	account := grant(t, "shorn", false)
	binary, err := controller.Build(t.Context(), os.Stderr, suite.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := suite.Namespace(t.Context(), "shorn"); err != nil {
		t.Fatal(err)
	}
	left := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(1), "scalableRef": map[string]any{"apiGroup": "apps", "kind": "Deployment", "name": "gone"},
	}}}
	left.SetAPIVersion("autoscaling.x-k8s.io/v1beta1")
	left.SetKind("CapacityBuffer")
	left.SetNamespace("shorn")
	left.SetName("gpuscaler-chat")
	theirs := left.DeepCopy()
	theirs.SetName("theirs")
	left.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "gpuscaler"})
	for owner, u := range map[string]*unstructured.Unstructured{"gpuscaler": left, "kubectl": theirs} {
		if err := suite.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner(owner)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), theirs) })

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gpuscaler:shorn"}}
	if err := suite.Client.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
		t.Fatal(err)
	}
	for i, rule := range role.Rules {
		if rule.Resources[0] == "capacitybuffers" {
			role.Rules[i].Verbs = []string{"list", "watch"}
		}
	}
	if err := suite.Client.Update(t.Context(), role, client.FieldOwner("helm")); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 20*time.Second, "without permission restore prints the command", func(context.Context) error {
		out, err := restoreAs(t, binary, account)
		if err == nil || !strings.Contains(string(out), "kubectl delete capacitybuffers --all-namespaces") || !strings.Contains(string(out),
			`"failed": 1`) {
			return fmt.Errorf("%w: %s", err, out) // the command is retried, because the API server applies the change of the role later
		}
		return nil
	})
	if u, err := buffer(t.Context(), "shorn"); err != nil {
		t.Errorf("the buffer was deleted: %v %v", u, err)
	}

	grant(t, "shorn", false)
	stack.Eventually(t, 20*time.Second, "with the chart's role, which may not write buffers, restore deletes it",
		func(ctx context.Context) error {
			if out, err := restoreAs(t, binary, account); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return noBuffer("shorn")(ctx)
		})
	if err := suite.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil {
		t.Errorf("another owner's buffer: %v", err)
	}
}

// A user keeps a node with a CapacityBuffer for another Deployment. gpuscaler must not change this buffer, and must report that the
// buffer keeps the node.
func TestForeignBufferIsReportedAsWhatKeepsANode(t *testing.T) {
	t.Parallel()
	// the policy is not WhenEmpty, because with it Karpenter may report a new node as not empty for 15 minutes
	p := pool{name: "theirs-spot", kind: "spot", weight: 80, by: clientSide, after: "20s", edit: func(spec map[string]any) {
		spec["disruption"].(map[string]any)["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
	}}
	p.create(t)
	chat(t, "theirs", nil)
	requesting(t, "theirs")
	g := startAt(t, 1, "theirs", map[string]string{
		"platform.yaml": controller.Platform("capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, nodePools: {spot: theirs-spot}}\n"),
		"chat.yaml":     chatPolicy("theirs"),
	})
	g.load(t, map[string]float64{"theirs/chat": 0})
	const kept = "NodePool theirs-spot: a CapacityBuffer reserves nodes: Karpenter keeps 1 node without nvidia.com/gpu pods, $0.32/h"
	find := func(want bool) func(fastGroup) error {
		return func(s fastGroup) error {
			if found := strings.Contains(strings.Join(s.Findings, "\n"), kept); found != want {
				return fmt.Errorf("finding %q: %t", kept, found)
			}
			return nil
		}
	}
	g.group(t, time.Minute, "no finding", find(false))
	headroom := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(1), "scalableRef": map[string]any{"apiGroup": "apps", "kind": "Deployment", "name": "chat"},
	}}}
	headroom.SetAPIVersion("autoscaling.x-k8s.io/v1beta1")
	headroom.SetKind("CapacityBuffer")
	headroom.SetNamespace("theirs")
	headroom.SetName("headroom")
	if err := suite.Client.Create(t.Context(), headroom); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = suite.Client.Delete(context.Background(), headroom) })
	g.group(t, time.Minute, "a node without pods", on(1, 0))
	g.group(t, 90*time.Second, "the finding names what keeps the node, and its cost", find(true))
	if err := suite.Client.Delete(t.Context(), headroom); err != nil {
		t.Fatal(err)
	}
	g.group(t, 20*time.Second, "no finding without the buffer", find(false))
	g.group(t, 90*time.Second, "the node is removed", on(0, 0))
}
