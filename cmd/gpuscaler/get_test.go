package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// leaderPage serves two explanations, of which one has no decision.
func leaderPage(t *testing.T) (address string) {
	t.Helper()
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	all := []explain.Explanation{
		{Policy: "team-chat/llama-chat", At: at, Since: at, Target: 4, Current: 3, Ready: 3, Mode: "auto", Binding: "combine",
			Why: "gateway 37 needs 4 replicas", ScaledBy: &explain.ScaledBy{Kind: "HPA", Name: "llama-chat", Exact: true}},
		{Policy: "team-embed/worker", Mode: "advisory", NotDecided: "the Deployment does not exist"},
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != dashboard.WorkloadsPath {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(all)
	}))
	t.Cleanup(page.Close)
	return page.URL
}

// runLine runs a command line, and returns the exit code and both outputs.
func runLine(t *testing.T, args ...string) (code int, out, problem string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = runCommandLine(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestGetListsTheTargetsOfWorkloads(t *testing.T) {
	page := leaderPage(t)
	for name, c := range map[string]struct {
		args            []string
		code            int
		contain, absent []string
	}{
		"all":                 {[]string{"-A"}, 0, []string{"team-chat/llama-chat", "4", "team-embed/worker", "?"}, []string{"gateway 37"}},
		"wide":                {[]string{"-A", "-o", "wide"}, 0, []string{"HPA/llama-chat", "gateway 37 needs", "does not exist"}, nil},
		"a namespace":         {[]string{"-n", "team-chat"}, 0, []string{"team-chat/llama-chat"}, []string{"team-embed"}},
		"a name":              {[]string{"worker"}, 0, []string{"team-embed/worker"}, []string{"team-chat"}},
		"yaml":                {[]string{"-A", "-o", "yaml"}, 0, []string{"target: 4", "policy: team-embed/worker"}, nil},
		"json":                {[]string{"-A", "-o", "json"}, 0, []string{`"target": 4`}, nil},
		"nothing":             {[]string{"-n", "team"}, 0, []string{"no policies in namespace team"}, []string{"team-chat"}},
		"a wrong name":        {[]string{"wrong"}, 1, []string{`no policy "wrong"`}, nil},
		"a wrong format":      {[]string{"-o", "csv"}, 1, []string{"text, wide, json or yaml"}, nil},
		"-A with a namespace": {[]string{"-A", "-n", "team-chat"}, 1, []string{"contradict"}, nil},
		"-A with a name":      {[]string{"-A", "worker"}, 1, []string{"-n NAMESPACE"}, nil},
		"all with --server":   {nil, 0, []string{"team-chat/llama-chat", "team-embed/worker"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, problem := runLine(t, append([]string{"get", "--server", page}, c.args...)...)
			if code != c.code {
				t.Fatalf("exit code %d: %s", code, problem)
			}
			for _, text := range c.contain {
				if !strings.Contains(out+problem, text) {
					t.Errorf("no %q in\n%s%s", text, out, problem)
				}
			}
			for _, text := range c.absent {
				if strings.Contains(out, text) {
					t.Errorf("%q in\n%s", text, out)
				}
			}
		})
	}
}

func TestNamesOfPoliciesAreCompleted(t *testing.T) {
	page := leaderPage(t)
	for _, c := range []struct{ command, want string }{
		{"explain", "team-chat/llama-chat\nteam-embed/worker\n"},
		{"get", "llama-chat\nworker\n"},
	} {
		if _, out, _ := runLine(t, "__complete", c.command, "--server", page, ""); !strings.HasPrefix(out, c.want) {
			t.Errorf("%s: %q", c.command, out)
		}
	}
}

// A user without a kubeconfig, or with a wrong context, must see which file was read and what it contains.
func TestMissingKubeconfigIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	t.Setenv("KUBECONFIG", file)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, args := range [][]string{{"explain"}, {"lint"}, {"restore"}, {"import", "--all"}, {"get"}, {"page"}, {"check"}} {
		code, _, problem := runLine(t, args...)
		if code != 1 || !strings.Contains(problem, "no kubeconfig: "+file+" has no context") || strings.Contains(problem, "KUBERNETES_MASTER") {
			t.Errorf("%v: exit code %d: %s", args, code, problem)
		}
	}
	write(t, file, []byte(`{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}],
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

func TestValidateReadsStandardInputAndCountsDocuments(t *testing.T) {
	examples := "../../config/examples"
	text, err := os.ReadFile(examples + "/chat.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ input, want string }{
		{string(text), "ok: 2 documents\n"},
		{strings.Replace(string(text), "maxReplicas: 12", "maxReplicas: none", 1), "-:9:16: spec.maxReplicas"},
	} {
		var out bytes.Buffer
		root := rootCommand()
		root.SetArgs([]string{"validate", "-", examples + "/platform.yaml"})
		root.SetIn(strings.NewReader(c.input))
		root.SetOut(&out)
		_ = root.Execute() // the output says whether it is valid
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("no %q in %s", c.want, out.String())
		}
	}
}

// A log must not contain the control characters of a status line.
func TestProgressIsShownOnlyOnATerminal(t *testing.T) {
	var log bytes.Buffer
	p := newProgress(&log)
	p.report("replay", 0.5)
	p.end()
	if text := log.String(); strings.ContainsAny(text, "\r\x1b") || !strings.HasSuffix(text, "cores\n") {
		t.Errorf("%q", text)
	}
}
