package cluster

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// chart renders the shipped RBAC. It is written without any function of Helm's own, so that what is tested is what is shipped.
func chart(t *testing.T, values map[string]any) (rules []rbacv1.PolicyRule) {
	t.Helper()
	text, err := template.ParseFiles("../../charts/gpuscaler/templates/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = text.Option("missingkey=error").Execute(&out, map[string]any{
		"Release": map[string]any{"Name": "gpuscaler", "Namespace": "gpuscaler-system"}, "Values": values,
	})
	if err != nil {
		t.Fatal(err)
	}
	documents := yaml.NewYAMLOrJSONDecoder(&out, 4096)
	for {
		var role rbacv1.ClusterRole
		if err := documents.Decode(&role); err == io.EOF {
			return rules
		} else if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, role.Rules...)
	}
}

func shipped() map[string]any {
	return map[string]any{
		"serviceAccount": map[string]any{"name": "gpuscaler"}, "leaderElection": map[string]any{"lease": "gpuscaler"},
		"externalMetrics": map[string]any{"mode": "auto"}, "activator": map[string]any{"enabled": true},
		"scaleKinds": []any{}, "readExternalMetrics": []any{},
	}
}

func TestTheShippedRolesAreNarrow(t *testing.T) {
	values := shipped()
	values["scaleKinds"] = []any{map[string]any{"group": "argoproj.io", "resource": "rollouts"}}
	values["readExternalMetrics"] = []any{"queue-depth"}
	rules := chart(t, values)
	if len(rules) < 10 {
		t.Fatalf("%d rules", len(rules))
	}
	for _, r := range rules {
		for _, word := range slices.Concat(r.APIGroups, r.Resources, r.Verbs, r.ResourceNames) {
			if word == "*" || word == "secrets" || word == "delete" || word == "deletecollection" || word == "escalate" || word == "impersonate" {
				t.Errorf("%q in %v", word, r)
			}
		}
		if len(r.NonResourceURLs) > 0 {
			t.Errorf("non-resource URLs in %v", r)
		}
	}
}

func TestWhatIsTurnedOffIsNotAllowed(t *testing.T) {
	values := shipped()
	values["activator"] = map[string]any{"enabled": false}
	values["externalMetrics"] = map[string]any{"mode": "off"}
	values["scaleKinds"] = []any{map[string]any{"group": "argoproj.io", "resource": "rollouts"}}
	for _, r := range chart(t, values) {
		if slices.Contains(r.Resources, "deployments/scale") || slices.Contains(r.Resources, "apiservices") {
			t.Errorf("allowed: %v", r)
		}
		if slices.Contains(r.Resources, "rollouts/scale") && slices.Contains(r.Verbs, "update") {
			t.Errorf("allowed: %v", r)
		}
	}
}
