package evaluate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline/commandtest"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// replayed runs `gpuscaler` with the arguments on a small request log and a scenario from config/examples, and returns the output.
func replayed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	requests := filepath.Join(t.TempDir(), "requests.csv")
	root := rootCommand()
	root.SetArgs([]string{"trace", "generate", "flat", "--for", "10m", "--rate", "2", "--file", requests})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	root = rootCommand()
	root.SetOut(&out)
	root.SetErr(&notes)
	root.SetArgs(append([]string{"replay", "--config", "../../../config/examples/scenarios/inflight.yaml", "--requests", requests, "--measure",
		"inflight=inSystem"}, args...))
	err := root.Execute()
	return out.String() + notes.String(), err
}

func TestReplayFailsOnAGate(t *testing.T) {
	if text, err := replayed(t, "--fail-if", "slo<0.5"); err != nil || !strings.Contains(text, "gpuscaler meets the SLO") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := replayed(t, "--fail-if", "cost>0"); !errors.Is(err, commandline.ErrReported) ||
		!strings.Contains(text, "gate failed: cost>0") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestReplayRejectsWrongFlags(t *testing.T) {
	for _, c := range []struct{ want, args string }{
		{"unknown baseline", "--baselines kubernetes"}, {"want NAME<NUMBER", "--fail-if slo"}, {"--slo", "--slo 99"}, {"--slo", "--slo 120%:10s"},
		{"use text, json or html", "-o pdf"}, {"--measure", "--measure inflight=speed"}, {"--policy-name",
			"--policy-name a/b"}, {"no such file", "--spot nowhere.csv"},
		{"a held-out share of 1: use a share above 0 and below 1", "--held-out 1"},
		{"one of the parts has no request: use a share from", "--held-out 0.9999"},
	} {
		if _, err := replayed(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestReplayReportsTheHeldOutPart(t *testing.T) {
	text, err := replayed(t, "--held-out", "0.4", "--bound")
	if err != nil || !strings.Contains(text, "results of the report part, the last 4m with ") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestReplayWritesHTML(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	if text, err := replayed(t, "-o", "html", "--file", page, "--baselines", "static", "--bound"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("</html>")) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestBenchmarkPolicyFitsTheColdStart(t *testing.T) {
	shipped, err := openShipped("../../../config/examples/scenarios/rate.yaml", "../../../config/examples/scenarios/rate-slow-start.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rate := func(c *policy.Compiled) scaling.Forecast { return c.Workload.Policy.Signals[0].Forecast }
	if got := rate(shipped.suited(time.Minute)); got != rate(shipped.quick) || !got.Replaces {
		t.Errorf("for a minute it is %+v, as shipped %+v", got, rate(shipped.quick))
	}
	if got := rate(shipped.suited(5 * time.Minute)); got != rate(shipped.slow) || got.Replaces || got.Window != 30*time.Minute {
		t.Errorf("for five minutes it is %+v, as shipped %+v", got, rate(shipped.slow))
	}
	if got := rate(shipped.suited(2 * time.Minute)).Window; got != 12*time.Minute {
		t.Errorf("for two minutes its window is %s", got)
	}
}

// Two workloads run in one cluster, each with its own traffic and SLO. The gate `--fail-if missed>0` checks both workloads.
func TestReplayOfSeveralWorkloads(t *testing.T) {
	folder := t.TempDir()
	shipped, err := os.ReadFile("../../../config/examples/scenarios/inflight.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		var out, notes bytes.Buffer
		root := rootCommand()
		root.SetOut(&out)
		root.SetErr(&notes)
		root.SetArgs(args)
		err := root.Execute()
		return out.String() + notes.String(), err
	}
	for _, name := range []string{"chat", "embed"} {
		text := strings.ReplaceAll(string(shipped), "llama-chat", name)
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := run("trace", "generate", "flat", "--for", "10m", "--rate", "1", "--file", filepath.Join(folder, name+".csv")); err != nil {
			t.Fatal(err)
		}
	}
	base := []string{"replay", "--config", "../../../config/examples/platform.yaml", "--config", filepath.Join(folder, "chat.yaml"),
		"--config", filepath.Join(folder, "embed.yaml"), "--measure", "inflight=inSystem"}
	chat, embed := "team-chat/chat="+filepath.Join(folder, "chat.csv"), "team-chat/embed="+filepath.Join(folder, "embed.csv")
	text, err := run(append(base, "--requests", chat, "--requests", embed, "--slo", "95%:10s", "--slo", "team-chat/embed=50%:1m", "--fail-if",
		"missed>0", "--bound")...)
	if err != nil || !strings.Contains(text, "gpuscaler meets every workload's SLO.") || !strings.Contains(text,
		"SLO 50.00% of requests wait at most 1m;") || !strings.Contains(text, "a sum over workloads") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"name the workload of each", []string{"--requests", chat, "--requests", filepath.Join(folder, "embed.csv")}},
		{"already has traffic", []string{"--requests", chat, "--requests", chat}},
		{"use one of team-chat/chat, team-chat/embed", []string{"--requests", "team-chat/batch=" + filepath.Join(folder, "chat.csv")}},
		{"no --requests names that workload", []string{"--requests", chat, "--slo", "team-chat/embed=50%:1m"}},
		{"no such file", []string{"--requests", chat, "--requests", "team-chat/embed=nowhere.csv"}},
	} {
		if _, err := run(append(base, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := run("replay", "scenario", "a.yaml", "b.yaml", "-o", "html"); err == nil || !strings.Contains(err.Error(),
		"one scenario at a time") {
		t.Errorf("two pages in one: %v", err)
	}
}

// --verify must fail for a recording without a complete tick, and for a recording or policy file that does not exist.
func TestVerifyRejectsARecordingWithoutATick(t *testing.T) {
	for name, args := range map[string][]string{
		"an empty file":   {"--verify", commandtest.File(t, "empty.jsonl", "")},
		"a line cut off":  {"--verify", commandtest.File(t, "cut.jsonl", `{"start":`)},
		"no such policy":  {"--verify", commandtest.File(t, "other.jsonl", ""), "--config", "/nowhere.yaml"},
		"no such file":    {"--verify", "/nowhere.jsonl"},
		"a line of noise": {"--verify", commandtest.File(t, "noise.jsonl", "noise\n")},
	} {
		c := replayCommand()
		c.SetArgs(args)
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.Execute(); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
}
