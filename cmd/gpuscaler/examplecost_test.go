package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// conversations returns the path of a recorded trace of chat requests in the shared data folder. Without that file the test is skipped,
// except in CI, where it fails.
func conversations(t *testing.T) string {
	t.Helper()
	file := filepath.Join("..", "..", "..", "shared", "data", "requests", "AzureLLMInferenceTrace_conv.csv")
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the shared traces are not beside the project: %v", err)
		}
		t.Skipf("skipped: the shared traces are not beside the project: %v", err)
	}
	return file
}

// readmePolicy writes the README's example policy to a file and returns its path.
func readmePolicy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "readme.yaml")
	for _, block := range blocks(t) {
		if strings.Contains(block, "kind: ScalingPolicy") && strings.Contains(block, "kind: PlatformConfig") {
			if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatal("the README has no block with a PlatformConfig and a ScalingPolicy")
	return ""
}

// result is the part of a replay's JSON report that the test compares.
type result struct {
	Name     string  `json:"name"`
	MeetsSLO bool    `json:"meetsSLO"`
	OnTime   float64 `json:"onTime"`
	Cost     float64 `json:"cost"`
}

// besideKEDA runs `gpuscaler replay` with one policy on one trace, and returns the results of gpuscaler and of KEDA with its default
// settings.
func besideKEDA(t *testing.T, args ...string) (ours, keda result) {
	t.Helper()
	var out, notes bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetErr(&notes)
	root.SetArgs(append([]string{"replay", "--baselines", "keda", "--tune-baselines=false", "-o", "json"}, args...))
	if err := root.Execute(); err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	var report struct{ Runs []result }
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Runs) != 2 {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return report.Runs[0], report.Runs[1]
}

// TestServingExamplesCostNoMoreThanKEDAsDefaults replays each serving example, and the README's policy, on an hour of recorded chat
// requests and on two days of generated traffic. The examples were not tuned for the generated traffic. Each policy must meet its SLO of
// 99% within 10 s, and must not cost more than KEDA with its default settings and the same minReplicas by schedule.
func TestServingExamplesCostNoMoreThanKEDAsDefaults(t *testing.T) {
	examples := filepath.Join("..", "..", "config", "examples")
	traces := map[string][]string{"an hour of conversations": {"--requests", conversations(t)}}
	for _, seed := range []string{"1", "7"} {
		day := filepath.Join(t.TempDir(), "day.csv")
		root := rootCommand()
		root.SetArgs([]string{"trace", "generate", "diurnal", "--seed", seed, "--file", day})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		traces["a generated day, seed "+seed] = []string{"--requests", day}
	}
	policies := map[string]string{"README.md": readmePolicy(t)}
	for _, name := range []string{"chat.yaml", "formula.yaml", "office-hours.yaml"} {
		policies[name] = filepath.Join(examples, name)
	}
	for name, path := range policies {
		for on, args := range traces {
			ours, keda := besideKEDA(t, append([]string{"--policy", path}, args...)...)
			t.Logf("%s on %s: %.2f%% on time for $%.2f; KEDA %.2f%% for $%.2f", name, on, 100*ours.OnTime, ours.Cost, 100*keda.OnTime, keda.Cost)
			if !ours.MeetsSLO || ours.Cost > keda.Cost {
				t.Errorf("%s on %s: meets the SLO: %t, $%.2f; KEDA with its defaults $%.2f", name, on, ours.MeetsSLO, ours.Cost, keda.Cost)
			}
		}
	}
}

// TestStagingExampleMeetsItsSLOInItsHours replays the example whose schedule scales to zero at night. The trace is a fifth of the recorded
// chat requests, because the example has at most two replicas. The recording lies outside of the hours in which the example is scaled to
// zero.
func TestStagingExampleMeetsItsSLOInItsHours(t *testing.T) {
	example := filepath.Join("..", "..", "config", "examples", "night-zero.yaml")
	ours, keda := besideKEDA(t, "--policy", example, "--requests", conversations(t), "--scale", "0.2")
	if !ours.MeetsSLO || ours.Cost > keda.Cost {
		t.Errorf("meets the SLO: %t, $%.2f; KEDA with its defaults $%.2f", ours.MeetsSLO, ours.Cost, keda.Cost)
	}
}
