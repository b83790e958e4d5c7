package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// Mode auto is tested first: the test adds the APIs of Karpenter and KEDA to the cluster one after the other, and after each step checks
// which mode auto selects. Then the test installs the explicit modes.
func TestEachModeInstallsAndUninstallsInARestrictedNamespace(t *testing.T) {
	bare(t)
	both := map[string]any{"certificates": map[string]any{"source": "cert-manager"}, "guardrails": map[string]any{"enabled": true}}
	authorized := map[string]any{"mode": "all", "metrics": map[string]any{"authorization": map[string]any{"enabled": true}}}
	for _, step := range []struct {
		name            string
		group, resource string // API that is served from this step on
		values          map[string]any
		keda, karpenter bool
	}{
		{name: "auto-hpa", values: map[string]any{}},
		{name: "auto-karpenter", group: "karpenter.sh", resource: "nodepools", values: map[string]any{}, karpenter: true},
		{name: "auto-all", group: "keda.sh", resource: "scaledobjects", values: map[string]any{}, keda: true, karpenter: true},
		{name: "hpa", values: map[string]any{"mode": "hpa"}},
		{name: "keda", values: map[string]any{"mode": "keda"}, keda: true},
		{name: "karpenter", values: map[string]any{"mode": "karpenter"}, karpenter: true},
		{name: "all-monitored", group: "monitoring.coreos.com", resource: "prometheusrules", values: authorized, keda: true, karpenter: true},
		{name: "all-certified", group: "cert-manager.io", resource: "certificates", values: both, keda: true, karpenter: true},
	} {
		if step.group != "" {
			serve(t, step.group, step.resource)
		}
		t.Run(step.name, func(t *testing.T) {
			h := newHelm(t, restricted(t, "install-"+step.name))
			objects := parse(t, h.dryRun(step.name, step.values).Manifest)
			if found := len(existing(t, objects)); found > 0 {
				t.Errorf("a dry run left %d objects", found)
			}
			h.install(step.name, step.values)
			if missing := len(objects) - len(existing(t, objects)); missing > 0 {
				t.Errorf("%d of %d objects are missing", missing, len(objects))
			}
			if got := has(objects, "Service", "-scaler"); got != step.keda {
				t.Errorf("KEDA: %v, want %v", got, step.keda)
			}
			if got := has(objects, "ValidatingAdmissionPolicy", "-nodepools"); got != step.karpenter {
				t.Errorf("Karpenter: %v, want %v", got, step.karpenter)
			}
			// when two pods are ready, Pod Security has accepted them and every object that they refer to exists
			if step.name != "all-certified" { // cert-manager does not run, so the Secret is missing; kwok does not need it
				stack.Eventually(t, time.Minute, "two pods", available(h.namespace, 2))
			}
			checkTypes(t, objects)
			// The argument false disables the hook, which would run in a pod that kwok only simulates. Another test runs the hook as a process.
			h.uninstall(step.name, false)
			stack.Eventually(t, time.Minute, "no object is left", func(context.Context) error {
				if left := existing(t, objects); len(left) > 0 {
					return fmt.Errorf("left: %v", left)
				}
				return nil
			})
		})
	}
}

// parse returns the objects in a manifest.
func parse(t *testing.T, manifest string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for _, text := range strings.Split("\n"+manifest, "\n---") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
	if len(objects) < 10 {
		t.Fatalf("%d objects", len(objects))
	}
	return objects
}

func existing(t *testing.T, objects []*unstructured.Unstructured) (names []string) {
	t.Helper()
	for _, o := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		switch err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), live); {
		case err == nil:
			names = append(names, o.GetKind()+" "+o.GetName())
		case client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err):
			t.Fatal(err)
		}
	}
	return names
}

func has(objects []*unstructured.Unstructured, kind, suffix string) bool {
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kind && strings.HasSuffix(o.GetName(), suffix)
	})
}

func available(namespace string, want int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var list appsv1.DeploymentList
		if err := cluster.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.AvailableReplicas != want {
			var events corev1.EventList
			_ = cluster.Client.List(ctx, &events, client.InNamespace(namespace))
			text := ""
			for _, e := range events.Items {
				text += "\n" + e.Message
			}
			return fmt.Errorf("%d Deployments, %v%s", len(list.Items), list.Items[0].Status, text)
		}
		return nil
	}
}

// checkTypes fails the test if the API server's type check finds a problem in an expression of the admission policies.
func checkTypes(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		stack.Eventually(t, time.Minute, o.GetName()+" is checked", func(ctx context.Context) error {
			var policy admissionv1.ValidatingAdmissionPolicy
			if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), &policy); err != nil {
				return err
			}
			if policy.Status.TypeChecking == nil {
				return fmt.Errorf("not checked yet")
			}
			for _, w := range policy.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", policy.Name, w.FieldRef, w.Warning)
			}
			return nil
		})
	}
}

// grant allows a ServiceAccount every verb on some resources, so that only the admission policies can reject its requests.
func grant(t *testing.T, namespace, account string, groups, resources []string) {
	t.Helper()
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{APIGroups: groups, Resources: resources, Verbs: []string{"*"}}}}
	role.Name = "e2e-" + namespace
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	}
	binding.Name = role.Name
	for _, o := range []client.Object{role, binding} {
		if err := cluster.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), o) })
	}
}
