package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const groupOfTwo = `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: e2e}
spec:
  capacityGroups:
  - {name: gpu, resource: nvidia.com/gpu, nodePools: {spot: l40s-spot, on-demand: l40s-od}}
`

// The API server must accept the output of `gpuscaler manifests gitops` for the CRDs of Argo CD and Flux, with strict validation.
func TestGitOpsRulesMatchTheSchemasOfArgoCDAndFlux(t *testing.T) {
	binary := buildBinary(t)
	platform := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(platform, []byte(groupOfTwo), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []struct{ name, group, resource, rest string }{
		{"argocd", "argoproj.io", "applications", `{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: ` +
			`nodes, namespace: default},
  spec: {project: default, destination: {name: in-cluster}, source: {repoURL: "https://example.org/nodes", path: .}}}`},
		{"flux", "kustomize.toolkit.fluxcd.io", "kustomizations", `{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, ` +
			`metadata: {name: nodes, namespace: default},
  spec: {interval: 5m, prune: true, path: ./, sourceRef: {kind: GitRepository, name: nodes}}}`},
	} {
		t.Run(tool.name, func(t *testing.T) {
			serve(t, tool.group, tool.resource)
			for _, config := range [][]string{nil, {"--config", platform}} {
				out, err := exec.CommandContext(t.Context(), binary,
					append([]string{"manifests", "gitops", "--tool", tool.name}, config...)...).Output()
				if err != nil {
					t.Fatal(err)
				}
				if named := strings.Contains(string(out), "l40s-od"); named != (config != nil) {
					t.Errorf("with %v:\n%s", config, out)
				}
				rule, whole := map[string]any{}, map[string]any{}
				if err := yaml.UnmarshalStrict(out, &rule); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if err := yaml.Unmarshal([]byte(tool.rest), &whole); err != nil {
					t.Fatal(err)
				}
				spec := whole["spec"].(map[string]any)
				for field, value := range rule["spec"].(map[string]any) {
					spec[field] = value
				}
				stack.Eventually(t, time.Minute, "the API server accepts it",
					// the call is retried, because the client discovers a new API only after a delay
					func(context.Context) error { return create(t, whole) })
				for field := range rule["spec"].(map[string]any) { // a misspelled field must be rejected
					spec[field+"s"] = spec[field]
				}
				if err := create(t, whole); err == nil || !strings.Contains(err.Error(), "unknown field") {
					t.Errorf("a misspelt field: %v", err)
				}
			}
		})
	}
}

// create sends an object to the API server as a dry run with strict validation, which rejects unknown fields.
func create(t *testing.T, object map[string]any) error {
	t.Helper()
	u := (&unstructured.Unstructured{Object: object}).DeepCopy()
	return cluster.Client.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict"))
}
