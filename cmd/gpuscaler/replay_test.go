package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// replayed runs a command line on a small office log and the shipped scenario.
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
	root.SetArgs(append([]string{"replay", "--policy", "../../config/examples/scenarios/inflight.yaml", "--requests", requests, "--measure", "inflight=inSystem"}, args...))
	err := root.Execute()
	return out.String() + notes.String(), err
}

func TestReplayIsAGateForCI(t *testing.T) {
	if text, err := replayed(t, "--fail-if", "slo<0.5"); err != nil || !strings.Contains(text, "gpuscaler meets the SLO") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := replayed(t, "--fail-if", "cost>0"); !errors.Is(err, errReported) || !strings.Contains(text, "gate failed: cost>0") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestReplayRefuses(t *testing.T) {
	for _, c := range []struct{ want, args string }{
		{"nobody is called", "--rivals kubernetes"}, {"want NAME<NUMBER", "--fail-if slo"}, {"--slo", "--slo 99"}, {"--slo", "--slo 120%:10s"},
		{"want text, json or html", "-o pdf"}, {"--measure", "--measure inflight=speed"}, {"--policy-name", "--policy-name a/b"}, {"no such file", "--spot nowhere.csv"},
	} {
		if _, err := replayed(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestReplayWritesAPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	if text, err := replayed(t, "-o", "html", "--file", page, "--rivals", "static", "--bound"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("</html>")) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestTheBenchmarksPolicyIsWrittenForTheColdStart(t *testing.T) {
	c, err := openPolicy([]string{"../../config/examples/scenarios/rate.yaml"}, "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := suited(c, time.Minute).Workload.Policy.Signals[0].Forecast; got != c.Workload.Policy.Signals[0].Forecast {
		t.Errorf("for a minute it is %+v, as shipped %+v", got, c.Workload.Policy.Signals[0].Forecast)
	}
	if got := suited(c, 5*time.Minute).Workload.Policy.Signals[0].Forecast.Window; got != 30*time.Minute {
		t.Errorf("for five minutes its window is %s", got)
	}
}
