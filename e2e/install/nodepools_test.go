package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// as returns a client that impersonates a ServiceAccount.
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
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "ml"},
		Annotations: map[string]string{"owner": "ml"}}}
	if handedOver != "" {
		p.Annotations["gpuscaler.io/nudge"] = handedOver
	}
	p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{{Key: v1.CapacityTypeLabelKey,
		Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}}}
	p.Spec.Disruption.ConsolidateAfter = v1.MustParseNillableDuration("30s")
	p.Spec.Disruption.ConsolidationPolicy = v1.ConsolidationPolicyWhenEmpty
	return p
}

// attempt is a patch of an object by gpuscaler's ServiceAccount. The field consent is the value of the object's consent annotation, with
// which its owner allows changes. The field refused is a part of the expected error; empty: the patch must be accepted.
type attempt struct{ consent, patch, refused string }

// patch sends a JSON merge patch of a NodePool.
func patch(ctx context.Context, c client.Client, name, text string) error {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return c.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(text)))
}

// exists creates an object and deletes it at the end of the test.
func exists(t *testing.T, o client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), o) })
}

// The RBAC roles in this test allow gpuscaler's ServiceAccount every write. Only the admission policies limit its writes.
func TestAdmissionLimitsTheWritesOfGpuscaler(t *testing.T) {
	serve(t, "karpenter.sh", "nodepools")
	serve(t, "keda.sh", "scaledobjects")
	h, tenant, other := newHelm(t, restricted(t, "pools")), restricted(t, "pools-tenant"), restricted(t, "pools-other")
	h.install("pools", map[string]any{
		"mode": "all", "serviceAccount": map[string]any{"name": "gpuscaler"}, "keda": map[string]any{"manage": true},
		"activator": map[string]any{"namespaces": []any{tenant}},
	})
	defer h.uninstall("pools", false)
	grant(t, h.namespace, "gpuscaler", []string{"karpenter.sh", "keda.sh", "apps", ""},
		[]string{"nodepools", "scaledobjects", "deployments/scale", "pods"})
	ours := as(t, h.namespace, "gpuscaler")
	exists(t, pool("kept", ""))
	weight := 10
	inForce(t, "NodePools", func(ctx context.Context) error {
		weight++ // a different value each time, because a write without a change is always accepted
		return patch(ctx, ours, "kept", fmt.Sprintf(`{"spec":{"weight":%d}}`, weight%100))
	})
	t.Run("NodePools in two patches", func(t *testing.T) { twoPatches(t, ours) })
	t.Run("NodePools", func(t *testing.T) { nodePools(t, h.namespace, ours) })
	t.Run("NodePools after consent is gone", func(t *testing.T) { withdrawn(t, ours) })
	t.Run("ScaledObjects", func(t *testing.T) { scaledObjects(t, tenant, ours) })
	t.Run("scale", func(t *testing.T) { scales(t, ours, tenant, other) })
	t.Run("pods", func(t *testing.T) { podWrites(t, h.namespace, tenant, ours) })
}

// inForce waits until the API server applies the admission policy for a kind, because it starts to apply each policy at a different time.
// The parameter forbidden is a write that the policy rejects.
func inForce(t *testing.T, kind string, forbidden func(context.Context) error) {
	t.Helper()
	stack.Eventually(t, 2*time.Minute, "the admission policy for "+kind+" is in force", func(ctx context.Context) error {
		if forbidden(ctx) == nil {
			return errors.New("a forbidden write was accepted")
		}
		return nil
	})
}

// scaledObject returns a ScaledObject whose consent annotation has the given value. The annotation names the fields that gpuscaler may
// write.
func scaledObject(namespace, name, consent string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": map[string]any{
		"scaleTargetRef": map[string]any{"name": "chat"}, "triggers": []any{map[string]any{"type": "cpu",
			"metadata": map[string]any{"value": "5"}}},
	}}}
	o.SetNamespace(namespace)
	o.SetName(name)
	if consent != "" {
		o.SetAnnotations(map[string]string{"gpuscaler.io/manage-keda": consent})
	}
	return o
}

// twoPatches tests that two patches cannot get around the admission policy. The first patch writes only the ownership of a field and the
// record annotation, which normally accompany an override. The second patch writes an override that the NodePool's owner does not allow.
func twoPatches(t *testing.T, ours client.Client) {
	byUs := client.FieldOwner("gpuscaler")
	for _, name := range []string{"", "weight"} {
		p := pool("two-"+name+"patches", name)
		p.Spec.Weight = new(int32(5))
		exists(t, p)
		ownership := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": p.Name},
			"spec": map[string]any{"disruption": map[string]any{"consolidateAfter": "30s"}}, // the value that the NodePool already has
		}}
		first := ours.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(ownership), byUs, client.ForceOwnership)
		if name == "" && first == nil {
			t.Error("gpuscaler's field manager can own a field without consent")
		}
		first = patch(t.Context(), ours, p.Name, `{"metadata":{"annotations":{"gpuscaler.io/record":"{\"v\":1}"}}}`)
		if name == "" && first == nil {
			t.Error("gpuscaler can write its record on a NodePool without consent")
		}
		for _, second := range []string{`{"spec":{"limits":{"nvidia.com/gpu":"0"}}}`, `{"spec":{"disruption":{"consolidateAfter":"Never"}}}`} {
			if err := patch(t.Context(), ours, p.Name, second); err == nil || !strings.Contains(err.Error(), "allow") {
				t.Errorf("%s: the second patch %s: %v", p.Name, second, err)
			}
		}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		if after := p.Spec.Disruption.ConsolidateAfter.Duration; len(p.Spec.Limits) > 0 || after == nil || *after != 30*time.Second {
			t.Errorf("%s now has limits %v and consolidateAfter %v", p.Name, p.Spec.Limits, after)
		}
	}
}

func nodePools(t *testing.T, namespace string, ours client.Client) {
	for i, c := range []attempt{
		{"limits, weight,disruption", `{"spec":{"limits":{"nvidia.com/gpu":"4"}}}`, ""},
		{"limits, weight,disruption", `{"spec":{"weight":7}}`, ""},
		{"limits, weight,disruption", `{"spec":{"disruption":{"consolidateAfter":"Never","budgets":[{"nodes":"0"}]}}}`, ""},
		{"weight", `{"metadata":{"annotations":{"gpuscaler.io/record":"{}"}}}`, ""},
		{"limits", `{"spec":{"template":{"spec":{"requirements":[]}}}}`, "only limits, weight and disruption"},
		{"limits", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, "only limits, weight and disruption"},
		{"limits", `{"spec":{"template":{"spec":{"nodeClassRef":{"name":"mine"}}}}}`, "only limits, weight and disruption"},
		{"limits", `{"metadata":{"labels":{"team":null}}}`, "labels, finalizers or ownerReferences"},
		{"limits", `{"metadata":{"finalizers":["a/b"]}}`, "labels, finalizers or ownerReferences"},
		{"limits", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"}]}}`,
			"labels, finalizers or ownerReferences"},
		{"limits", `{"metadata":{"annotations":{"owner":"me"}}}`, "only gpuscaler.io/record and gpuscaler.io/holder"},
		{"limits", `{"metadata":{"annotations":{"owner":null}}}`, "only gpuscaler.io/record and gpuscaler.io/holder"},
		{"limits", `{"metadata":{"annotations":{"karpenter.sh/nodepool-hash":"1"}}}`, "only gpuscaler.io/record and gpuscaler.io/holder"},
		{"limits", `{"metadata":{"annotations":{"gpuscaler.io/nudge":null}}}`, "only gpuscaler.io/record and gpuscaler.io/holder"},
		{"", `{"metadata":{"annotations":{"gpuscaler.io/nudge":"weight"}}}`, "allows no field"},
		{"weight", `{"spec":{"weight":7}}`, ""},
		{"weight", `{"spec":{"limits":{"nvidia.com/gpu":"0"}}}`, "does not allow spec.limits"},
		{"weight", `{"spec":{"disruption":{"consolidateAfter":"Never"}}}`, "does not allow spec.disruption"},
		{"", `{"spec":{"weight":7}}`, "allows no field"},
		{"restore", `{"spec":{"weight":7}}`, "allows no field"},
	} {
		p := pool(fmt.Sprintf("try-%d", i), c.consent)
		exists(t, p)
		err := patch(t.Context(), ours, p.Name, c.patch)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%q %s: %v", c.consent, c.patch, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%q %s: %v, want %q", c.consent, c.patch, err, c.refused)
		}
		if err := patch(t.Context(), cluster.Client, p.Name, c.patch); err != nil && strings.Contains(err.Error(), "gpuscaler-") {
			t.Errorf("the policy also limits the administrator: %v", err)
		}
	}
	if err := ours.Create(t.Context(), pool("new", "weight")); err == nil || !strings.Contains(err.Error(), "may not create or delete") {
		t.Errorf("create a NodePool: %v", err)
	}
	if err := ours.Delete(t.Context(), pool("kept", "")); err == nil || !strings.Contains(err.Error(), "may not create or delete") {
		t.Errorf("delete a NodePool: %v", err)
	}
	if err := patch(t.Context(), as(t, namespace, "default"), "kept", `{"spec":{"weight":7}}`); err == nil || strings.Contains(err.Error(),
		"gpuscaler-") {
		t.Errorf("another ServiceAccount: %v, want a rejection by RBAC", err)
	}
}

// heardBy returns a client of the administrator that collects the API server's warnings.
func heardBy(t *testing.T) (client.Client, *heard) {
	t.Helper()
	config, said := rest.CopyConfig(cluster.Config), &heard{}
	config.WarningHandler = said
	c, err := client.New(config, client.Options{Scheme: stack.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c, said
}

// withdrawn tests the removal of the consent annotation by the owner during an override. The owner must get a warning, and gpuscaler must
// not be able to write the NodePool. When the owner sets the annotation again, to the name of the field and the word restore, gpuscaler
// must be able to restore the field.
func withdrawn(t *testing.T, ours client.Client) {
	exists(t, pool("withdrawn", "weight"))
	apply := func(weight any) error {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
			"metadata": map[string]any{"name": "withdrawn"}}}
		if weight != nil {
			u.Object["spec"] = map[string]any{"weight": weight}
			u.SetAnnotations(map[string]string{"gpuscaler.io/record": "{}"})
		}
		return ours.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("gpuscaler"), client.ForceOwnership)
	}
	if err := apply(int64(9)); err != nil {
		t.Fatal(err)
	}
	owner, said := heardBy(t)
	if err := patch(t.Context(), owner, "withdrawn", `{"metadata":{"annotations":{"gpuscaler.io/nudge":null}}}`); err != nil {
		t.Fatal(err)
	}
	if !said.says("add the word restore") {
		t.Errorf("the owner was not warned: %q", said.text)
	}
	for name, weight := range map[string]any{"another value": int64(1), "the original": nil} {
		if err := apply(weight); err == nil || !strings.Contains(err.Error(), "allows no field") {
			t.Errorf("%s after consent was removed: %v", name, err)
		}
	}
	if err := patch(t.Context(), owner, "withdrawn", `{"metadata":{"annotations":{"gpuscaler.io/nudge":"weight,restore"}}}`); err != nil {
		t.Fatal(err)
	}
	if err := apply(nil); err != nil {
		t.Errorf("the NodePool cannot be restored: %v", err)
	}
}

// scaledObjects tests which writes to a ScaledObject are accepted.
func scaledObjects(t *testing.T, namespace string, ours client.Client) {
	const force, hold = "autoscaling.keda.sh/force-activation", "autoscaling.keda.sh/paused-scale-in"
	probe := scaledObject(namespace, "probe", "")
	exists(t, probe)
	inForce(t, "ScaledObjects", func(ctx context.Context) error { return ours.Delete(ctx, probe.DeepCopy(), client.DryRunAll) })
	for i, c := range []attempt{
		{"activation", `{"metadata":{"annotations":{"` + force + `":"true"}}}`, ""},
		{"activation,hold", `{"metadata":{"annotations":{"` + hold + `":"true"}}}`, ""},
		{"hold", `{"metadata":{"annotations":{"` + force + `":"true"}}}`, "force-activation and paused-scale-in as"},
		{"", `{"metadata":{"annotations":{"` + force + `":"true"}}}`, "allows gpuscaler no annotation"},
		{"", `{"metadata":{"annotations":{"gpuscaler.io/manage-keda":"hold"}}}`, "allows gpuscaler no annotation"},
		{"activation", `{"metadata":{"annotations":{"` + force + `":"false"}}}`, "force-activation and paused-scale-in as"},
		{"activation", `{"metadata":{"annotations":{"autoscaling.keda.sh/paused-replicas":"0"}}}`, "force-activation and paused-scale-in as"},
		{"activation", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"n","uid":"1"}]}}`, "ownerReferences"},
		{"activation", `{"metadata":{"labels":{"a":"b"}}}`, "ownerReferences"},
		{"activation", `{"metadata":{"finalizers":["a/b"]}}`, "ownerReferences"},
		{"activation", `{"spec":{"maxReplicaCount":1000}}`, "spec or status"},
	} {
		o := scaledObject(namespace, fmt.Sprintf("try-%d", i), c.consent)
		exists(t, o)
		err := ours.Patch(t.Context(), o.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(c.patch)))
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%q %s: %v", c.consent, c.patch, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%q %s: %v, want %q", c.consent, c.patch, err, c.refused)
		}
		if err := ours.Delete(t.Context(), o.DeepCopy()); err == nil || !strings.Contains(err.Error(), "may not create or delete") {
			t.Errorf("delete a ScaledObject: %v", err)
		}
	}
}

// scales tests in which namespaces gpuscaler may write /scale, and which writes are accepted there.
func scales(t *testing.T, ours client.Client, listed, other string) {
	probe := workload.Deployment(other, "scale-probe", 0)
	exists(t, probe)
	inForce(t, "scale", func(ctx context.Context) error {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 9}}
		return ours.SubResource("scale").Update(ctx, probe.DeepCopy(), client.WithSubResourceBody(scale), client.DryRunAll)
	})
	for i, c := range []struct {
		namespace string
		from, to  int32
		refused   string
	}{
		{listed, 0, 1, ""}, {listed, 1, 0, ""}, {listed, 0, 2, "from 0 to 1"}, {listed, 1, 3, "from 0 to 1"}, {listed, 5, 0, "from 0 to 1"},
		{other, 0, 1, "activator.namespaces"}, {other, 1, 0, "activator.namespaces"},
	} {
		d := workload.Deployment(c.namespace, fmt.Sprintf("scale-%d", i), c.from)
		exists(t, d)
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: c.to}}
		err := ours.SubResource("scale").Update(t.Context(), d.DeepCopy(), client.WithSubResourceBody(scale))
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s %d to %d: %v", c.namespace, c.from, c.to, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s %d to %d: %v, want %q", c.namespace, c.from, c.to, err, c.refused)
		}
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int32{true: c.to, false: c.from}[c.refused == ""]; *d.Spec.Replicas != want {
			t.Errorf("%s %d to %d: it has %d replicas", c.namespace, c.from, c.to, *d.Spec.Replicas)
		}
	}
}

// podWrites tests which writes to a pod are accepted.
func podWrites(t *testing.T, own, tenant string, ours client.Client) {
	probe := goodPod(tenant)
	probe.Spec.PriorityClassName = ""
	exists(t, probe)
	inForce(t, "pods", func(ctx context.Context) error { return ours.Delete(ctx, probe.DeepCopy(), client.DryRunAll) })
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
		err := ours.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(c.patch)))
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s %s: %v", c.namespace, c.patch, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s %s: %v, want %q", c.namespace, c.patch, err, c.refused)
		}
		if err := ours.Delete(t.Context(), pod.DeepCopy()); err == nil {
			t.Error("gpuscaler can delete a pod")
		}
	}
}
