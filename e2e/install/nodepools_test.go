package install

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// as is a client of a ServiceAccount.
func as(t *testing.T, namespace, account string) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	c, err := client.New(config, client.Options{Scheme: stack.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pool(name, handedOver string) *v1.NodePool {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "ml"}, Annotations: map[string]string{"owner": "ml"}}}
	if handedOver != "" {
		p.Annotations["gpuscaler.io/nudge"] = handedOver
	}
	p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{{Key: v1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}}}
	p.Spec.Disruption.ConsolidateAfter = v1.MustParseNillableDuration("30s")
	p.Spec.Disruption.ConsolidationPolicy = v1.ConsolidationPolicyWhenEmpty
	return p
}

// Whoever holds our token, with every right that RBAC knows, gets no further
// than this.
func TestNodePoolsAreChangedInOurFieldsWhereTheyWereHandedOver(t *testing.T) {
	serve(t, "karpenter.sh", "nodepools")
	h := newHelm(t, restricted(t, "pools"))
	h.install("pools", map[string]any{"mode": "karpenter", "serviceAccount": map[string]any{"name": "gpuscaler"}})
	defer h.uninstall("pools", false)
	grant(t, h.namespace, "gpuscaler", []string{"karpenter.sh", ""}, []string{"nodepools", "pods"})
	ours, other := as(t, h.namespace, "gpuscaler"), as(t, h.namespace, "default")
	for _, p := range []*v1.NodePool{pool("given", "limits, weight,disruption"), pool("weighed", "weight"), pool("kept", "")} {
		if err := cluster.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), p) })
	}
	try := func(ctx context.Context, c client.Client, name, patch string) error {
		p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return c.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}
	stack.Eventually(t, 30*time.Second, "the policy stands", func(ctx context.Context) error {
		if try(ctx, ours, "kept", `{"spec":{"weight":7}}`) == nil {
			return fmt.Errorf("a NodePool that was not handed over takes our weight")
		}
		return nil
	})
	for _, c := range []struct{ pool, patch, refused string }{
		{"given", `{"spec":{"limits":{"nvidia.com/gpu":"4"}}}`, ""},
		{"given", `{"spec":{"weight":7}}`, ""},
		{"given", `{"spec":{"disruption":{"consolidateAfter":"Never","budgets":[{"nodes":"0"}]}}}`, ""},
		{"given", `{"metadata":{"annotations":{"gpuscaler.io/record":"{}"}}}`, ""},
		{"given", `{"spec":{"template":{"spec":{"requirements":[]}}}}`, "and nothing else of its spec"},
		{"given", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, "and nothing else of its spec"},
		{"given", `{"spec":{"template":{"spec":{"nodeClassRef":{"name":"mine"}}}}}`, "and nothing else of its spec"},
		{"given", `{"metadata":{"labels":{"team":null}}}`, "labels, finalizers or owners"},
		{"given", `{"metadata":{"finalizers":["a/b"]}}`, "labels, finalizers or owners"},
		{"given", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"}]}}`, "labels, finalizers or owners"},
		{"given", `{"metadata":{"annotations":{"owner":"me"}}}`, "write its own record"},
		{"given", `{"metadata":{"annotations":{"owner":null}}}`, "write its own record"},
		{"given", `{"metadata":{"annotations":{"karpenter.sh/nodepool-hash":"1"}}}`, "write its own record"},
		{"given", `{"metadata":{"annotations":{"gpuscaler.io/nudge":null}}}`, "never what hands fields over"},
		{"kept", `{"metadata":{"annotations":{"gpuscaler.io/nudge":"weight"}}}`, "never what hands fields over"},
		{"weighed", `{"spec":{"weight":7}}`, ""},
		{"weighed", `{"spec":{"limits":{"nvidia.com/gpu":"0"}}}`, "does not hand over spec.limits"},
		{"weighed", `{"spec":{"disruption":{"consolidateAfter":"Never"}}}`, "does not hand over spec.disruption"},
		{"kept", `{"spec":{"weight":7}}`, "does not hand over spec.weight"},
		{"kept", `{"spec":{"limits":{"nvidia.com/gpu":"0"}}}`, "does not hand over spec.limits"},
	} {
		err := try(t.Context(), ours, c.pool, c.patch)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s %s: %v", c.pool, c.patch, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s %s: %v, want %q", c.pool, c.patch, err, c.refused)
		}
		if err := try(t.Context(), cluster.Client, c.pool, c.patch); err != nil && strings.Contains(err.Error(), "gpuscaler-") {
			t.Errorf("the administrator is bound by it: %v", err)
		}
	}
	if err := ours.Create(t.Context(), pool("new", "weight"), client.DryRunAll); err == nil {
		t.Error("we may create a NodePool")
	}
	if err := ours.Delete(t.Context(), pool("given", ""), client.DryRunAll); err == nil {
		t.Error("we may delete a NodePool")
	}
	if err := try(t.Context(), other, "kept", `{"spec":{"weight":7}}`); err == nil || strings.Contains(err.Error(), "gpuscaler-") {
		t.Errorf("another ServiceAccount: %v, want RBAC's refusal", err)
	}
	withdrawn(t, ours)
	marks(t, h.namespace, ours)
}

// withdrawn shows that what we hold can go back after its owner took the
// consent away, also where he took our record with it.
func withdrawn(t *testing.T, ours client.Client) {
	t.Helper()
	apply := func(weight any) error {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "weighed"}}}
		if weight != nil {
			u.Object["spec"] = map[string]any{"weight": weight}
		}
		return ours.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("gpuscaler"), client.ForceOwnership)
	}
	if err := apply(int64(9)); err != nil {
		t.Fatal(err)
	}
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "weighed"}}
	if err := cluster.Client.Patch(t.Context(), p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := apply(nil); err != nil {
		t.Errorf("what we held cannot go back: %v", err)
	}
}

// marks shows what of a pod may be written.
func marks(t *testing.T, own string, ours client.Client) {
	t.Helper()
	tenant := restricted(t, "pools-tenant")
	for _, c := range []struct{ namespace, patch, refused string }{
		{tenant, `{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"30m","controller.kubernetes.io/pod-deletion-cost":"-10"}}}`, ""},
		{own, `{"metadata":{"labels":{"gpuscaler.io/leader":"true"}}}`, ""},
		{tenant, `{"metadata":{"labels":{"gpuscaler.io/leader":"true"}}}`, "in its own namespace"},
		{tenant, `{"metadata":{"labels":{"app":"other"}}}`, "in its own namespace"},
		{tenant, `{"metadata":{"annotations":{"sidecar.istio.io/inject":"false"}}}`, "of a pod's annotations"},
		{tenant, `{"spec":{"containers":[{"name":"server","image":"evil"}]}}`, "may not change a pod's spec"},
		{tenant, `{"spec":{"activeDeadlineSeconds":1}}`, "may not change a pod's spec"},
	} {
		pod := goodPod(c.namespace)
		pod.Spec.PriorityClassName = ""
		if err := cluster.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		err := ours.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(c.patch)), client.DryRunAll)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s %s: %v", c.namespace, c.patch, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s %s: %v, want %q", c.namespace, c.patch, err, c.refused)
		}
		if err := ours.Delete(t.Context(), pod.DeepCopy(), client.DryRunAll); err == nil {
			t.Error("we may delete a pod")
		}
	}
}
