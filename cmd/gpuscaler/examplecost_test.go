package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// readmePolicy writes the README's PlatformConfig and policy to a file and returns its path.
func readmePolicy(t *testing.T) string {
	t.Helper()
	platform, err := os.ReadFile(platformOfTheReadme(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "readme.yaml")
	for _, block := range blocks(t) {
		if strings.Contains(block, "kind: ScalingPolicy") {
			if err := os.WriteFile(path, []byte(string(platform)+"---\n"+block), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatal("the README has no block with a ScalingPolicy")
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

// README.md names the signal that replaces the two signals of the gateway in a cluster without the Gateway API Inference Extension. The
// policy with this signal must meet its SLO with the generated traffic of a morning.
func TestReadmePolicyWithoutAGatewayMeetsItsSLO(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	signal := regexp.MustCompile("replace the signals `requests` and `gateway` with `([^`]+)`").FindSubmatch(page)
	if signal == nil {
		t.Fatal("README.md names no signal for a cluster without a gateway")
	}
	path := readmePolicy(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.Contains(line, "{name: requests,"):
			lines = append(lines, "  - "+string(signal[1])+"\n")
		case !strings.Contains(line, "{name: gateway,"):
			lines = append(lines, line)
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	morning := filepath.Join(t.TempDir(), "morning.csv")
	root := rootCommand()
	root.SetArgs([]string{"trace", "generate", "diurnal", "--for", "6h", "--rate", "4", "--file", morning})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if ours, _ := besideKEDA(t, "--config", path, "--requests", morning); !ours.MeetsSLO {
		t.Errorf("%.2f%% of the requests are on time", 100*ours.OnTime)
	}
}

// serviceSize contains a number of slots (requests that a replica serves at once) and the traffic for replicas of this size. For each size,
// the traffic needs about the same number of replicas.
type serviceSize struct {
	slots  string
	sample string // share of the recorded requests that is replayed; "": all requests
	rate   string // rate of the generated day, requests/s
	seeds  []string
}

// serviceSizes contains the tested sizes. A replay cannot have more requests than the recording, so with 32 slots per replica only two
// replicas are busy.
var serviceSizes = []serviceSize{{"4", "0.5", "1", []string{"1"}}, {"8", "", "2", []string{"1", "7"}}, {"32", "", "8", []string{"7"}}}

// withSlots returns the path of a copy of the formula example for the given number of slots. The target in the example is 26 of 32 slots.
// In the copy, the target is the same share of the given number.
func withSlots(t *testing.T, example, slots string) string {
	t.Helper()
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseFloat(slots, 64)
	if err != nil {
		t.Fatal(err)
	}
	scaled := string(text)
	for _, before := range []string{"target: 26}", "/ 26.0)"} {
		if !strings.Contains(scaled, before) {
			t.Fatalf("%s does not contain %q", example, before)
		}
		scaled = strings.ReplaceAll(scaled, before, strings.Replace(before, "26", strconv.FormatFloat(0.8125*n, 'f', -1, 64), 1))
	}
	scaled = strings.ReplaceAll(scaled, ".0)", ")")
	path := filepath.Join(t.TempDir(), "formula-"+slots+".yaml")
	if err := os.WriteFile(path, []byte(scaled), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServingExamplesCostNoMoreThanKEDAsDefaults replays each serving example, and the README's policy, with 4, 8 and 32 slots per replica,
// on an hour of recorded chat requests and on days of generated traffic. The examples were not tuned for the generated traffic. Each policy
// must meet its SLO of 99% within 10 s. It must not cost more than KEDA with its default settings and with the same minReplicas from
// schedules. The target of KEDA is 5/8 of the slots. The traffic grows with the number of slots, so that the number of replicas differs
// little between the sizes.
func TestServingExamplesCostNoMoreThanKEDAsDefaults(t *testing.T) {
	recorded, folder := conversations(t), t.TempDir()
	for _, size := range serviceSizes {
		traces := map[string][]string{"an hour of conversations": {"--requests", recorded}}
		if size.sample != "" {
			traces["an hour of conversations"] = append(traces["an hour of conversations"], "--scale", size.sample)
		}
		for _, seed := range size.seeds {
			day := filepath.Join(folder, size.slots+"-"+seed+".csv")
			root := rootCommand()
			root.SetArgs([]string{"trace", "generate", "diurnal", "--rate", size.rate, "--seed", seed, "--file", day})
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			traces["a generated day, seed "+seed] = []string{"--requests", day}
		}
		examples := filepath.Join("..", "..", "config", "examples")
		policies := map[string]string{"README.md": readmePolicy(t),
			"formula.yaml": withSlots(t, filepath.Join(examples, "formula.yaml"), size.slots)}
		for _, name := range []string{"chat.yaml", "office-hours.yaml"} {
			policies[name] = filepath.Join(examples, name)
		}
		for name, path := range policies {
			for on, args := range traces {
				ours, keda := besideKEDA(t, append([]string{"--config", path, "--slots", size.slots}, args...)...)
				t.Logf("%s with %s slots on %s: %.2f%% on time for $%.2f; KEDA %.2f%% for $%.2f", name, size.slots, on,
					100*ours.OnTime, ours.Cost, 100*keda.OnTime, keda.Cost)
				if !ours.MeetsSLO || ours.Cost > keda.Cost {
					t.Errorf("%s with %s slots on %s: meets the SLO: %t, $%.2f; KEDA with its defaults $%.2f", name, size.slots, on,
						ours.MeetsSLO, ours.Cost, keda.Cost)
				}
			}
		}
	}
}

// TestStagingExampleMeetsItsSLOInItsHours replays the example whose schedule scales to zero at night. The trace is a fifth of the recorded
// chat requests, because the example has at most two replicas. The requests were recorded at a time of day at which the example is not
// scaled to zero.
func TestStagingExampleMeetsItsSLOInItsHours(t *testing.T) {
	example := filepath.Join("..", "..", "config", "examples", "night-zero.yaml")
	ours, keda := besideKEDA(t, "--config", example, "--requests", conversations(t), "--scale", "0.2")
	if !ours.MeetsSLO || ours.Cost > keda.Cost {
		t.Errorf("meets the SLO: %t, $%.2f; KEDA with its defaults $%.2f", ours.MeetsSLO, ours.Cost, keda.Cost)
	}
}
