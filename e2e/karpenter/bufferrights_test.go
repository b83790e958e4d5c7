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

// grant installs a release's roles beside those of the suite, with or without
// the right to write buffers, and returns its account's kubeconfig.
func grant(t *testing.T, name string, buffers bool) string {
	t.Helper()
	r := chart.Release{Name: name, Namespace: controller.Namespace, Values: map[string]any{"mode": "all", "karpenter": map[string]any{"capacityBuffers": buffers}}}
	if err := chart.Apply(t.Context(), suite.Client, r, "serviceaccount.yaml", "rbac.yaml", "admission.yaml"); err != nil {
		t.Fatal(err)
	}
	account, err := suite.ServiceAccountKubeconfig(t.Context(), controller.Namespace, name+"-gpuscaler")
	if err != nil {
		t.Fatal(err)
	}
	return account
}

// A buffer that stands when the chart's value is turned off keeps nobody's
// nodes: it goes within a look or two, or with the next leader.
func TestABufferGoesWhenTheRightToWriteItDoes(t *testing.T) {
	t.Parallel()
	account := grant(t, "turn", true)
	pool{name: "turn-spot", kind: "spot", weight: 80, by: clientSide}.create(t)
	chat(t, "turn", nil)
	requesting(t, "turn")
	g := startAs(t, account, 1, "turn", map[string]string{"platform.yaml": buffering("turn-spot"), "chat.yaml": soon("turn", 1)})
	g.load(t, map[string]float64{"turn/chat": 0})
	stack.Eventually(t, time.Minute, "a buffer stands", held("turn", 1))

	grant(t, "turn", false)
	stack.Eventually(t, 30*time.Second, "the right is gone, and so is the buffer", noBuffer("turn"))
	g.group(t, 30*time.Second, "the group is told that there are no buffers here", findsNoBuffers)
	if log := g.tail(10000); !strings.Contains(log, "karpenter.capacityBuffers") {
		t.Error("the log does not name the chart's value that would allow it")
	}
	grant(t, "turn", true)
	stack.Eventually(t, 30*time.Second, "the right is back, and so is the buffer", held("turn", 1))

	g.end(syscall.SIGKILL)
	grant(t, "turn", false)
	g.run(t)
	stack.Eventually(t, 20*time.Second, "who comes after a crash removes what he may not write", noBuffer("turn"))
	g.group(t, 90*time.Second, "and Karpenter its node", on(0, 0))
}

func findsNoBuffers(s fastGroup) error {
	for _, f := range s.Findings {
		if strings.HasPrefix(f, "buffer: ") {
			return nil
		}
	}
	return errors.New("no finding")
}

// A controller died and left a buffer. Not parallel: restore puts every
// NodePool back.
func TestRestoreRemovesABufferOrSaysWhoMay(t *testing.T) {
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
	stack.Eventually(t, 20*time.Second, "who may not remove it says who may", func(context.Context) error {
		out, err := restoreAs(t, binary, account)
		if err == nil || !strings.Contains(string(out), "kubectl delete capacitybuffers --all-namespaces") || !strings.Contains(string(out), `"failed": 1`) {
			return fmt.Errorf("%w: %s", err, out) // the role was read a moment ago
		}
		return nil
	})
	if u, err := buffer(t.Context(), "shorn"); err != nil {
		t.Errorf("it went all the same: %v %v", u, err)
	}

	grant(t, "shorn", false)
	stack.Eventually(t, 20*time.Second, "with the chart's own role, without the right to write one, it is removed", func(ctx context.Context) error {
		if out, err := restoreAs(t, binary, account); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return noBuffer("shorn")(ctx)
	})
	if err := suite.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil {
		t.Errorf("somebody else's: %v", err)
	}
}

// Somebody keeps a node warm for a deployment of his. We leave it alone, and
// say what it is that keeps it.
func TestABufferOfSomebodyElsesIsToldAsWhatKeepsANode(t *testing.T) {
	t.Parallel()
	// With WhenEmpty Karpenter may say of a new node, for a quarter of an hour, that it is not empty.
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
	const kept = "theirs-spot: 1 empty node kept by a CapacityBuffer, $0.32/h"
	find := func(want bool) func(fastGroup) error {
		return func(s fastGroup) error {
			if found := strings.Contains(strings.Join(s.Findings, "\n"), kept); found != want {
				return fmt.Errorf("finding %q: %t", kept, found)
			}
			return nil
		}
	}
	g.group(t, time.Minute, "nothing is kept", find(false))
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
	g.group(t, time.Minute, "a node stands that nobody asked for", on(1, 0))
	g.group(t, 90*time.Second, "it is told what keeps it, and what that costs", find(true))
	if err := suite.Client.Delete(t.Context(), headroom); err != nil {
		t.Fatal(err)
	}
	g.group(t, 20*time.Second, "the buffer goes, and the finding with it", find(false))
	g.group(t, 90*time.Second, "then the node", on(0, 0))
}
