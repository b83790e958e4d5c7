package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/advise"
)

// advised runs `gpuscaler advise` on a small request log, and returns its output without the notes.
func advised(t *testing.T, args ...string) (string, error) {
	t.Helper()
	requests := filepath.Join(t.TempDir(), "requests.csv")
	if text, err := executed("trace", "generate", "flat", "--for", "20m", "--rate", "2", "--file", requests); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return executed(append([]string{"advise", "--requests", requests}, args...)...)
}

func executed(args ...string) (string, error) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestAdviseRejectsWrongFlags(t *testing.T) {
	for _, c := range []struct{ want, args string }{
		{"use text, json or yaml", "-o html"}, {"--budget NaN: use a number above 0", "--budget NaN"}, {"--budget 0", "--budget 0"},
		{"--budget -3", "--budget=-3"}, {"--budget +Inf", "--budget Inf"}, {"--max-replicas -1", "--max-replicas=-1"}, {"--slo", "--slo 99"},
		{"--slo", "--slo team/chat=99%:10s"}, {"accepts one workload", "--requests team/a=a.csv"}, {"an SLO of 40%", "--slo 40%:10s"},
		{"use NAMESPACE/NAME", "--policy-name chat"}, {"no policy found", "--config " + t.TempDir()}, {"no such file", "--spot nowhere.csv"},
		{"a price of $0", "--hourly 0"}, {"--measure", "--measure running=speed"},
	} {
		if text, err := advised(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q\n%s", c.args, err, c.want, text)
		}
	}
	if _, err := executed("advise"); err == nil || !strings.Contains(err.Error(), "--prometheus") {
		t.Errorf("without traffic: %v", err)
	}
	empty := filepath.Join(t.TempDir(), "empty.csv")
	commandtest.Write(t, empty, []byte("timestamp\n"))
	if _, err := executed("advise", "--requests", empty); err == nil || !strings.Contains(err.Error(), "empty.csv") {
		t.Errorf("empty traffic: %v", err)
	}
}

// If the user has no policy, advise writes a policy. `gpuscaler validate` must accept this policy, and a replay must compute the cost that
// advise printed.
func TestAdvisedPolicyIsValidAndCostsWhatTheAnswerSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "advised.yaml")
	text, err := advised(t, "--policy-name", "team/chat", "--slo", "99%:10s", "-o", "json", "--file", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var r advise.Result
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if problems := store.Validate(file); len(problems) > 0 {
		t.Errorf("%s\n%s", policy.Render(problems), r.Document)
	}
	best, least := r.Recommended, r.Answers[0].Certificate.CostPerDay
	if r.Policy != "team/chat" || best == nil || best.OnTime < 0.99 || best.CostPerDay < least || least <= 0 {
		t.Errorf("%s", text)
	}
	requests := filepath.Join(t.TempDir(), "again.csv")
	if text, err := executed("trace", "generate", "flat", "--for", "20m", "--rate", "2", "--file", requests); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	again, err := executed("replay", "--config", file, "--requests", requests, "-o", "json")
	var report struct {
		Runs []struct{ Cost, OnTime float64 }
	}
	if err != nil || json.Unmarshal([]byte(again), &report) != nil {
		t.Fatalf("%v\n%s", err, again)
	}
	if run := report.Runs[0]; run.OnTime != r.Recommended.OnTime || run.Cost <= 0 {
		t.Errorf("the replay of the policy has %+v, the answer %+v", run, r.Recommended)
	}
	if text, err := advised(t, "-o", "yaml"); err != nil || !strings.HasPrefix(text, "# gpuscaler advise: 99% within 10s at about $") {
		t.Errorf("%v\n%s", err, text)
	}
}

// The PlatformConfig and two policies are in one file. The output must contain the selected policy with the comment and the maxReplicas of
// the file. advise must apply the bounds of the PlatformConfig to every policy that it tries.
func TestAdviseKeepsThePolicyAndTheBoundsOfThePlatform(t *testing.T) {
	file := filepath.Join(t.TempDir(), "all.yaml")
	commandtest.Write(t, file, []byte(`apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: test}
spec:
  dataSources: [{name: prom, type: prometheus, default: true, address: "http://prometheus:9090"}]
  teams: [{name: chat, namespaces: [team], bounds: {minReplicas: 1, maxReplicas: 5}}]
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: other, namespace: team}
spec: {scaleTargetRef: {name: other}, minReplicas: 1, maxReplicas: 2, signals: [{name: load, type: vllm, target: 2}]}
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: chat, namespace: team}
spec:
  scaleTargetRef: {name: chat}
  minReplicas: 1
  maxReplicas: 4
  signals:
  - {name: requests, type: prometheus, metric: gateway_requests_total, rate: 1m, target: 3}   # of the gateway
`))
	text, err := advised(t, "--config", file, "--policy-name", "team/chat")
	if err != nil || strings.Contains(text, "name: other") {
		t.Errorf("%v\n%s", err, text)
	}
	const bound = "minReplicas 0 is not valid: the PlatformConfig allows minReplicas 1 "
	for _, want := range []string{"# of the gateway", "maxReplicas: 4", bound} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if _, err := advised(t, "--config", file); err == nil || !strings.Contains(err.Error(), "use one of team/chat, team/other") {
		t.Errorf("two policies and no --policy-name: %v", err)
	}
	text, err = advised(t, "--config", file, "--policy-name", "team/chat", "--max-replicas", "9")
	const refused = "the controller would refuse every candidate: the PlatformConfig allows minReplicas "
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, refused) {
		t.Errorf("%v\n%s", err, text)
	}
}

// If no SLO is attained, the exit code is 1 and the output contains the reason.
func TestAdviseFailsIfNothingIsAttained(t *testing.T) {
	text, err := advised(t, "--budget", "0.5")
	if !errors.Is(err, commandline.ErrReported) || !strings.Contains(text, "not within the budget") ||
		strings.Count(text, "Next: ") != len(budgetSLOs) {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = advised(t, "--budget", "0.5", "--slo", "99%:10s", "-o", "yaml")
	if err == nil || text != "" || !strings.Contains(err.Error(), "above the budget of $0.50") {
		t.Errorf("%v\n%s", err, text)
	}
}
