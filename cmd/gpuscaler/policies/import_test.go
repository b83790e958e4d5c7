package policies

import (
	"github.com/spf13/cobra"

	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/migrate"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// rootCommand returns a root command with the commands of this package.
func rootCommand() *cobra.Command {
	root := &cobra.Command{Use: "gpuscaler", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands()...)
	return root
}

// command runs gpuscaler with the given arguments and returns its output.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := rootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

const (
	importedSO  = "../../../pkg/migrate/testdata/embed-scaledobject.yaml"
	importedHPA = "../../../pkg/migrate/testdata/queue-hpa.yaml"
)

func TestImportFromFilesPrintsJSONAndWritesManifests(t *testing.T) {
	dir := t.TempDir()
	text, err := command(t, "import", "-f", importedSO, "-f", importedHPA, "-o", "json", "--dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	var plans []migrate.Plan
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 2 {
		t.Fatalf("%v\n%s", err, text)
	}
	for i, file := range []string{"team-embed/embed-worker", "team-audio/transcribe"} {
		for part, want := range map[string]string{"policy": plans[i].Policy, "replacement": plans[i].Replacement, "rollback": plans[i].Rollback} {
			got, err := os.ReadFile(filepath.Join(dir, file+"."+part+".yaml"))
			if err != nil || string(got) != want {
				t.Errorf("%s of %s: %v", part, file, err)
			}
			used := slices.ContainsFunc(plans[i].Steps, func(s migrate.Step) bool {
				return strings.Contains(s.Command, filepath.Join(dir, file+"."+part+".yaml"))
			})
			if !used {
				t.Errorf("no command uses the %s of %s in the directory: %+v", part, file, plans[i].Steps)
			}
		}
	}
	if problems := store.Validate(filepath.Join(dir, "team-embed", "embed-worker.policy.yaml")); policy.Errors(problems) > 0 {
		t.Error(policy.Render(problems))
	}
}

// import must read the output of `kubectl get scaledobject,hpa -A -o yaml`: one List, which also contains the HPAs that KEDA created.
func TestImportReadsAList(t *testing.T) {
	so, err := os.ReadFile(importedSO)
	if err != nil {
		t.Fatal(err)
	}
	item := "- " + strings.ReplaceAll(strings.TrimSpace(string(so)), "\n", "\n  ")
	kedas := "\n- apiVersion: autoscaling/v2\n  kind: HorizontalPodAutoscaler\n  metadata: {name: keda-hpa-embed-worker, namespace: " +
		"team-embed, ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: embed-worker, uid: u}]}\n"
	file := filepath.Join(t.TempDir(), "list.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: List\nitems:\n"+item+kedas), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := command(t, "import", "-f", file)
	if err != nil || strings.Count(text, "-> policy") != 1 || !strings.Contains(text, "# Not converted:") ||
		!strings.Contains(text, "\n#     kubectl replace -f embed-worker.replacement.yaml\n") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestErrorsNameTheNextStep(t *testing.T) {
	for want, args := range map[string][]string{
		"use one of NAMESPACE/NAME, --all and -f FILE": {"import"},
		"give that with --from FILE": {"manifests", "scaledobject", "team-embed/embed-worker", "--config",
			"../../../config/examples"},
		"is neither a file nor NAMESPACE/NAME": {"manifests", "hpa", "nosuch"},
		"--config has no policy team-x/y":      {"manifests", "hpa", "team-x/y", "--config", "../../../config/examples"},
		"add it with --config":                 {"manifests", "hpa", "../../../config/examples/chat.yaml"},
		"use text or json":                     {"import", "-f", importedSO, "-o", "yaml"},
	} {
		if text, err := command(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, text)
		}
	}
}

// `gpuscaler manifests` prints one document for each policy of a file. If it fails for one of the policies, it must print none.
func TestManifestsPrintsAllPoliciesOfAFileOrNone(t *testing.T) {
	text, err := command(t, "manifests", "scaledobject", "../../../config/examples/embed.yaml",
		"--config", "../../../config/examples/platform.yaml")
	if err == nil || strings.Contains(text, "kind: ScaledObject") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = command(t, "manifests", "hpa", "../../../config/examples/embed.yaml", "--config", "../../../config/examples/platform.yaml")
	if err != nil || strings.Count(text, "kind: HorizontalPodAutoscaler") != 2 || strings.Count(text, "\n---\n") != 1 {
		t.Errorf("%v\n%s", err, text)
	}
}
