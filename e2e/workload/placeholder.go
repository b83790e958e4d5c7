package workload

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Placeholder returns the PriorityClass and the Deployment that `gpuscaler manifests placeholder` prints for the Deployment d. binary is
// the path of gpuscaler. If the command does not print these objects, Placeholder fails the test.
func Placeholder(t testing.TB, binary string, d *appsv1.Deployment) (class, placeholder *unstructured.Unstructured) {
	t.Helper()
	of := d.DeepCopy()
	of.APIVersion, of.Kind = "apps/v1", "Deployment"
	text, err := yaml.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "deployment.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, "manifests", "placeholder", "--from", file, "--timezone=UTC",
		"--start=40 7 * * 1-5", "--end=15 8 * * 1-5").Output()
	if err != nil {
		t.Fatalf("gpuscaler manifests placeholder: %v", err)
	}
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatal(err)
		}
		switch u.GetKind() {
		case "PriorityClass":
			class = u
		case "Deployment":
			placeholder = u
		}
	}
	if class == nil || placeholder == nil {
		t.Fatalf("no PriorityClass or no Deployment in the output:\n%s", out)
	}
	return class, placeholder
}
