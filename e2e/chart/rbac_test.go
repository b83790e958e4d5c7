package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// rules returns the rules of all roles of a release.
func rules(t *testing.T, r Release) (all []rbacv1.PolicyRule) {
	t.Helper()
	objects, err := Render(r, "rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		var role rbacv1.ClusterRole // also used for a Role, which has the same field rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		all = append(all, role.Rules...)
	}
	return all
}

var rollouts = []any{map[string]any{"group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout", "resource": "rollouts"}}

func TestShippedRolesAreNarrow(t *testing.T) {
	for _, mode := range modes {
		r := release(mode.name)
		r.Values["scaleKinds"] = rollouts
		r.Values["readExternalMetrics"] = []any{"queue-depth"}
		rules := rules(t, r)
		if len(rules) < 10 {
			t.Fatalf("%s: %d rules", mode.name, len(rules))
		}
		for _, rule := range rules {
			for _, word := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.ResourceNames) {
				if slices.Contains([]string{"*", "secrets", "deletecollection", "escalate", "bind", "impersonate", "pods/exec"}, word) {
					t.Errorf("%s: %q in %v", mode.name, word, rule)
				}
			}
			if slices.Contains(rule.Resources, "configmaps") &&
				(!slices.Equal(rule.ResourceNames, []string{"gpuscaler-learned"}) || !slices.Equal(rule.Verbs, []string{"get", "patch"})) {
				t.Errorf("%s: %v, want to get and patch only the ConfigMap of what was learned", mode.name, rule)
			}
			if len(rule.NonResourceURLs) > 0 {
				t.Errorf("%s: non-resource URLs in %v", mode.name, rule)
			}
		}
	}
}

func TestDisabledFeaturesHaveNoPermissions(t *testing.T) {
	r := release("hpa")
	r.Values["externalMetrics"] = map[string]any{"mode": "off"}
	r.Values["scaleKinds"] = rollouts
	for _, rule := range rules(t, r) {
		for _, off := range []string{"deployments/scale", "apiservices", "nodepools", "nodeclaims", "nodes", "capacitybuffers"} {
			if slices.Contains(rule.Resources, off) {
				t.Errorf("allowed: %v", rule)
			}
		}
		if slices.Contains(rule.Resources, "rollouts/scale") && slices.Contains(rule.Verbs, "update") {
			t.Errorf("allowed: %v", rule)
		}
	}
}

// A role must allow writes of /scale only in the namespaces of activator.namespaces, and nowhere if that list is empty.
func TestScaleMayBeWrittenInTheListedNamespacesOnly(t *testing.T) {
	r := release("all")
	r.Values["scaleKinds"] = rollouts
	r.Values["activator"] = map[string]any{"namespaces": []any{"team-a", "team-b"}}
	objects, err := Render(r, "rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for _, o := range objects {
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if strings.HasSuffix(resource, "/scale") && slices.Contains(rule.Verbs, "update") {
					allowed[o.GetKind()+" "+o.GetNamespace()]++
				}
			}
		}
	}
	if len(allowed) != 2 || allowed["Role team-a"] != 4 || allowed["Role team-b"] != 4 {
		t.Errorf("/scale may be written by %v, want 4 resources each in the Roles of team-a and team-b", allowed)
	}
}

// gpuscaler reads ConfigMaps with policies of teams. A Role in each listed namespace must allow gpuscaler to list and watch the ConfigMaps
// of this namespace. No other role may allow gpuscaler to read ConfigMaps of teams. No role may allow gpuscaler to get a ConfigMap of a
// team by name or to write it.
func TestConfigMapsMayBeReadInTheListedNamespacesOnly(t *testing.T) {
	r := release("all")
	r.Values["teamConfigMaps"] = map[string]any{"namespaces": []any{"team-a", "team-b"}}
	objects, err := Render(r, "rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var allowed, bound []string
	for _, o := range objects {
		if kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind"); kind == "Role" && strings.HasSuffix(o.GetName(), "-policies") {
			bound = append(bound, o.GetNamespace())
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "configmaps") && len(rule.ResourceNames) == 0 {
				allowed = append(allowed, fmt.Sprint(o.GetKind(), " ", o.GetNamespace(), " ", rule.Resources, rule.Verbs))
			}
		}
	}
	if want := []string{"Role team-a [configmaps] [list watch]", "Role team-b [configmaps] [list watch]"}; !slices.Equal(allowed, want) {
		t.Errorf("ConfigMaps may be read by %v, want %v", allowed, want)
	}
	if !slices.Equal(bound, []string{"team-a", "team-b"}) {
		t.Errorf("bound in %v", bound)
	}
}

// gpuscaler writes the status of policies into an annotation. A Role in each listed namespace must allow gpuscaler to patch the objects
// that can contain policies. The Role must include ScaledObjects only with KEDA, and ConfigMaps only in namespaces whose ConfigMaps
// gpuscaler reads.
func TestCarriersOfPoliciesMayBePatchedInTheListedNamespacesOnly(t *testing.T) {
	for mode, scaledObjects := range map[string]string{"hpa": "", "keda": " scaledobjects"} {
		r := release(mode)
		r.Values["policyStatus"] = map[string]any{"namespaces": []any{"team-a", "team-b"}}
		r.Values["teamConfigMaps"] = map[string]any{"namespaces": []any{"team-b", "team-c"}}
		objects, err := Render(r, "rbac.yaml")
		if err != nil {
			t.Fatal(err)
		}
		allowed := map[string]string{}
		for _, o := range objects {
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				if slices.Contains(rule.Verbs, "patch") && o.GetNamespace() != "gpuscaler-system" && !slices.Contains(rule.Resources, "apiservices") {
					allowed[o.GetKind()+" "+o.GetNamespace()] += " " + strings.Join(rule.Resources, " ")
				}
			}
		}
		want := map[string]string{"Role team-a": " horizontalpodautoscalers" + scaledObjects,
			"Role team-b": " horizontalpodautoscalers" + scaledObjects + " configmaps"}
		if !maps.Equal(allowed, want) {
			t.Errorf("mode %s: may be patched by %v, want %v", mode, allowed, want)
		}
	}
}

// For each kind in scaleKinds, the role must have a rule to read objects of this kind and a rule to scale them.
func TestScaleKindAddsRules(t *testing.T) {
	r := release("hpa")
	before := len(rules(t, r))
	r.Values["scaleKinds"] = rollouts
	if got := len(rules(t, r)) - before; got != 2 {
		t.Errorf("%d more rules, want 2", got)
	}
}

// A release with karpenter.capacityBuffers disabled must be able to delete the CapacityBuffers that it created while the value was
// enabled.
func TestBuffersMayAlwaysBeDeletedAndWrittenIfEnabled(t *testing.T) {
	verbs := func(mode string, on bool) string {
		r := release(mode)
		r.Values["karpenter"] = map[string]any{"capacityBuffers": on}
		for _, rule := range rules(t, r) {
			if slices.Contains(rule.Resources, "capacitybuffers") {
				return strings.Join(rule.Verbs, " ")
			}
		}
		return ""
	}
	for _, c := range []struct {
		mode string
		on   bool
		want string
	}{{"karpenter", true, "list watch delete create patch"}, {"karpenter", false, "list watch delete"}, {"hpa", true, ""}} {
		if got := verbs(c.mode, c.on); got != c.want {
			t.Errorf("mode %s, capacityBuffers %t: %q, want %q", c.mode, c.on, got, c.want)
		}
	}
}

// nodeGroups returns a PlatformConfig, as a chart value, with a capacity group that selects nodes by labels.
func nodeGroups() map[string]any {
	return map[string]any{"capacityGroups": []any{
		map[string]any{"name": "spot", "resource": "nvidia.com/gpu", "nodePools": map[string]any{"spot": "l40s"}},
		map[string]any{"name": "chat", "resource": "nvidia.com/gpu", "nodeSelector": map[string]any{"accelerator": "l40s"}},
	}}
}

// A capacity group with a nodeSelector needs the permission to read Nodes. Without Karpenter, mode auto must grant this permission if there
// is a capacity group with a nodeSelector, and must grant no permission for NodePools.
func TestGroupWithNodeSelectorMayReadNodesOnly(t *testing.T) {
	noSelector := map[string]any{"name": "chat", "resource": "nvidia.com/gpu"}
	withPools := map[string]any{"capacityGroups": nodeGroups()["capacityGroups"].([]any)[:1]}
	for name, c := range map[string]struct {
		mode   string
		values map[string]any
		reads  bool
	}{
		"auto":                      {"auto", map[string]any{"platform": nodeGroups()}, true},
		"hpa":                       {"hpa", map[string]any{"platform": nodeGroups()}, true},
		"keda":                      {"keda", map[string]any{"platform": nodeGroups()}, true},
		"switched off":              {"auto", map[string]any{"platform": nodeGroups(), "readNodes": false}, false},
		"only NodePools":            {"auto", map[string]any{"platform": withPools}, false},
		"no groups":                 {"auto", map[string]any{}, false},
		"a ConfigMap":               {"auto", map[string]any{"platformConfigMap": "platform"}, false},
		"a ConfigMap, switched on":  {"auto", map[string]any{"platformConfigMap": "platform", "readNodes": true}, true},
		"switched on by a text":     {"auto", map[string]any{"readNodes": "true"}, true},
		"a group without the field": {"auto", map[string]any{"platform": map[string]any{"capacityGroups": []any{noSelector}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := release(c.mode)
			maps.Copy(r.Values, c.values)
			verbs := map[string]string{}
			for _, rule := range rules(t, r) {
				for _, resource := range rule.Resources {
					verbs[resource] += strings.Join(rule.Verbs, " ")
				}
			}
			want := map[bool]string{true: "list watch"}[c.reads]
			if verbs["nodes"] != want || verbs["nodepools"]+verbs["nodeclaims"]+verbs["resourceclaims"] != "" {
				t.Errorf("Nodes: %q, want %q; all verbs: %v", verbs["nodes"], want, verbs)
			}
			templates, err := Templates(r)
			if err != nil {
				t.Fatal(err)
			}
			flags := []string{fmt.Sprintf("- --capacity=%t\n", c.reads), "- --nodepools=false\n"}
			for _, file := range []string{"deployment.yaml", "restore.yaml"} {
				for _, flag := range flags {
					if text := templates[file]; !strings.Contains(text, flag) && (file == "deployment.yaml" || c.reads) {
						t.Errorf("%s has no %s", file, flag)
					}
				}
			}
			admission := templates["admission.yaml"]
			if got := strings.Contains(admission, "-capacitybuffers"); got != c.reads || strings.Contains(admission, "-nodepools") {
				t.Errorf("a policy about CapacityBuffers: %t, want %t; or there is one about NodePools", got, c.reads)
			}
			hint := strings.Contains(templates["NOTES.txt"], "set readNodes: true")
			if want := c.values["platformConfigMap"] != nil && !c.reads; hint != want {
				t.Errorf("the notes name readNodes: %t, want %t", hint, want)
			}
		})
	}
}
