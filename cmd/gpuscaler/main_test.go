package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
)

// A command must fail if it cannot write its result, even if the result itself contains no problem.
func TestCommandsFailIfTheirResultCannotBeWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full on this machine: %v", err)
	}
	defer full.Close()
	log := filepath.Join(t.TempDir(), "log")
	commandtest.Write(t, log, []byte(`{"msg":"transition","explanation":{"policy":"team/x","at":"2026-11-22T09:00:00Z"}}`+"\n"))
	examples := "../../config/examples"
	for name, args := range map[string][]string{
		"validate":             {"validate", examples},
		"validate, JSON":       {"validate", examples, "-o", "json"},
		"explain":              {"explain", "team/x", "--from", log},
		"explain, all":         {"explain", "--from", log},
		"manifests hpa":        {"manifests", "hpa", "team-chat/llama-chat", "--config", examples},
		"manifests gitops":     {"manifests", "gitops"},
		"report":               {"report", "--print-prices"},
		"replay":               {"replay", "scenario", filepath.Join(examples, "scenarios/night-zero/scenario.yaml")},
		"trace generate":       {"trace", "generate", "office", "--for", "10m"},
		"the help of capacity": {"capacity", "--help"},
		"the version":          {"--version"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := commandline.Run(t.Context(), rootCommand(), args, &stdout, &stderr); code != 0 || stdout.Len() == 0 {
				t.Fatalf("exit code %d to a writable output: %s", code, stderr.String())
			}
			stderr.Reset()
			code := commandline.Run(t.Context(), rootCommand(), args, full, &stderr)
			if code == 0 || !strings.Contains(stderr.String(), "no space left") {
				t.Errorf("exit code %d to a full disk: %s", code, stderr.String())
			}
		})
	}
}

// A user without a kubeconfig, or with a wrong context, must see which file was read and what it contains.
func TestMissingKubeconfigIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, args := range [][]string{{"explain"}, {"lint"}, {"restore"}, {"import", "--all"}, {"get"}, {"page"}, {"check"},
		{"audit", "--prometheus", "http://127.0.0.1:1"}} {
		code, _, problem := runLine(t, args...)
		if code != 1 || !strings.Contains(problem, "no kubeconfig: "+file+" does not exist") || strings.Contains(problem, "KUBERNETES_MASTER") {
			t.Errorf("%v: exit code %d: %s", args, code, problem)
		}
	}
	commandtest.Write(t, file, []byte("{apiVersion: v1, kind: Config}"))
	if code, _, problem := runLine(t, "get"); code != 1 || !strings.Contains(problem, "no kubeconfig: "+file+" has no context") {
		t.Errorf("an empty kubeconfig: exit code %d: %s", code, problem)
	}
	commandtest.Write(t, file, []byte(`{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: prod, context: {cluster: a}}, {name: dev, context: {cluster: a}}]}`))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "--context", "staging"}, `has no context "staging"; it has dev, prod`},
		{[]string{"get"}, "has no current context: use --context"},
	} {
		if code, _, problem := runLine(t, c.args...); code != 1 || !strings.Contains(problem, c.want) {
			t.Errorf("%v: exit code %d: %s", c.args, code, problem)
		}
	}
}

func TestUnknownCommandsHaveSuggestionsAndTheVersionIsACommand(t *testing.T) {
	if code, _, problem := runLine(t, "explian"); code != 1 || !strings.Contains(problem, "Did you mean this?\n\texplain") {
		t.Errorf("exit code %d: %s", code, problem)
	}
	if code, out, _ := runLine(t, "version"); code != 0 || !strings.HasPrefix(out, "gpuscaler "+commandline.Version+" (go1.") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, out, _ := runLine(t, "version", "-o", "json"); code != 0 || !strings.Contains(out, `"version": "`+commandline.Version+`"`) {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// If the program's file is named kubectl-gpuscaler, kubectl runs it as a plugin, and the help must show the command "kubectl gpuscaler".
func TestHelpNamesThePluginOfKubectl(t *testing.T) {
	for program, want := range map[string]string{"/usr/bin/gpuscaler": "gpuscaler", "./kubectl-gpuscaler": "kubectl gpuscaler",
		"/home/ada/.krew/bin/kubectl-gpuscaler": "kubectl gpuscaler", "gpuscaler.test": "gpuscaler"} {
		if got := displayName(program); got != want {
			t.Errorf("%s is shown as %q, want %q", program, got, want)
		}
	}
	root := rootCommand()
	root.Annotations[cobra.CommandDisplayNameAnnotation] = displayName("kubectl-gpuscaler")
	code, out, problem := commandtest.Run(t, root, "get", "--help")
	if code != 0 || !strings.Contains(out, "\n  kubectl gpuscaler get [NAME...] [flags]\n") {
		t.Errorf("exit code %d: %s\n%s", code, problem, out)
	}
}

func TestValuesOfOutputAreCompleted(t *testing.T) {
	for command, want := range map[string]string{"get": "text\nwide\njson\nyaml\n", "audit": "text\njson\nhtml\n", "version": "text\njson\n",
		"report": "text\nhtml\ncsv\njson\nprom\n", "advise": "text\njson\nyaml\n"} {
		if _, out, _ := runLine(t, "__complete", command, "-o", ""); !strings.HasPrefix(out, want+":") {
			t.Errorf("%s -o: %q, want %q", command, out, want)
		}
	}
}

// runLine runs a command line, and returns the exit code, standard output and standard error.
func runLine(t *testing.T, args ...string) (code int, out, problem string) {
	t.Helper()
	return commandtest.Run(t, rootCommand(), args...)
}
