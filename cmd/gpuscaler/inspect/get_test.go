package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// leaderPage serves two explanations of the leader and returns the address. One explanation contains no decision.
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
