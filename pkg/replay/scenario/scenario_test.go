package scenario_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/report"
	"github.com/gpuscaler/gpuscaler/pkg/replay/scenario"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

const shipped = "../../../config/examples/scenarios"

// Each example scenario must save at least the given share of the static fleet's cost and meet its SLO. With -v the test prints
// the exact figures.
func TestExampleScenariosMeetTheirSLOAtLowerCost(t *testing.T) {
	for name, c := range map[string]struct {
		saved, serving float64
		// fleets contains sizes of fleets to try, as shares of maxReplicas in descending order. At least one of them meets the SLO, and
		// the last does not.
		fleets []float64
	}{
		"office-hours":  {saved: 0.50, serving: 0.50, fleets: []float64{0.9, 0.8}},
		"bursty-queue":  {saved: 0.40, serving: 0.50, fleets: []float64{0.4, 0.3}},
		"night-zero":    {saved: 0.40, serving: 0.40, fleets: []float64{0.8, 0.7}},
		"training-spot": {saved: 0.35, serving: 0.65, fleets: []float64{0.7, 0.6, 0.5, 0.4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := scenario.Open(filepath.Join(shipped, name, "scenario.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			r := playWithSmallest(t, s, c.fleets)
			checkGuide(t, name, r)
			var text bytes.Buffer
			if err := report.WriteText(&text, r); err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", text.String())
			ours, fleet := &r.Runs[0], r.Run(evaluate.StaticFleet, evaluate.Default)
			for i, s := range r.Subjects() {
				if l, static := ours.Loads()[i], fleet.Loads()[i]; !l.MeetsSLO || !static.MeetsSLO || l.Arrived == 0 {
					t.Errorf("%s: %.4f on time, %.4f with a static fleet, want %.4f of %d requests",
						s.Policy, l.OnTime, static.OnTime, s.SLO.Share, l.Arrived)
				}
			}
			if *r.Saved < c.saved || ours.Productive < c.serving {
				t.Errorf("saves %.2f and serves %.2f of its GPU time, want %.2f and %.2f", *r.Saved, ours.Productive, c.saved, c.serving)
			}
			switch {
			case name == "night-zero" && ours.AtZero < 12*3600:
				t.Errorf("%.1f hours at zero in two nights", ours.AtZero/3600)
			case name == "training-spot" && (ours.SpotLosses == 0 || ours.CostBy["spot"] == 0 || ours.CostBy["on-demand"] == 0 ||
				len(r.Workloads) != 2):
				t.Errorf("%d spot losses, %v, %d workloads", ours.SpotLosses, ours.CostBy, len(r.Workloads))
			}
		})
	}
}

// playWithSmallest evaluates the scenario and also runs the smallest static fleet that meets the SLO. Only fleets of the given sizes, and
// of sizes between them, are tried, because all sizes would take minutes.
func playWithSmallest(t *testing.T, s *scenario.Scenario, fleets []float64) *evaluate.Report {
	t.Helper()
	cases := s.Cases()
	for i := range cases {
		cases[i].TuneBaselines = true
		for _, b := range baseline.All() {
			if b.Name == "static" {
				b.Knobs = []baseline.Knob{{Name: b.Knobs[0].Name, Default: fleets[0], Tries: fleets}}
				cases[i].Baselines = []baseline.Baseline{b}
			}
		}
	}
	r, err := s.Evaluate(t.Context(), cases, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkGuide compares the figures of a scenario in the guide with the report. It also checks that the smallest static fleet does not cost
// more than the static fleet of the scenario.
func checkGuide(t *testing.T, name string, r *evaluate.Report) {
	t.Helper()
	guide, err := os.ReadFile("../../../config/guides/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(guide), "| ["+name+"]")
	row, _, _ = strings.Cut(row, "\n")
	ours, fleet := &r.Runs[0], r.Run(evaluate.StaticFleet, evaluate.Default)
	if r.Saved == nil || r.SavedSmallest == nil || fleet == nil {
		t.Fatalf("%s: the report has no saving over a fleet", name)
	}
	dollars := fmt.Sprintf("%.0f", ours.Cost)
	if n := len(dollars); n > 3 {
		dollars = dollars[:n-3] + "," + dollars[n-3:]
	}
	want := fmt.Sprintf(" | $%s | %.0f%% | %.0f%% | %.0f%%, fleet %.0f%% |", dollars, 100**r.SavedSmallest, 100**r.Saved,
		100*ours.Productive, 100*fleet.Productive)
	if !strings.HasSuffix(row, want) {
		t.Errorf("%s: the guide has %q, the replay %q", name, row, want)
	}
	if *r.SavedSmallest > *r.Saved {
		t.Errorf("%s: the smallest fleet (%v) costs more than the scenario's (%v)", name, *r.SavedSmallest, *r.Saved)
	}
}

func play(t *testing.T, s *scenario.Scenario) *evaluate.Report {
	t.Helper()
	r, err := s.Evaluate(t.Context(), s.Cases(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSameScenarioGivesTheSameReport(t *testing.T) {
	var texts []string
	for range 2 {
		s, err := scenario.Open(filepath.Join(shipped, "bursty-queue", "scenario.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := report.WriteJSON(&text, play(t, s)); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text.String())
	}
	if texts[0] != texts[1] {
		t.Errorf("%s\n%s", texts[0], texts[1])
	}
}

func TestInvalidScenariosAreRejected(t *testing.T) {
	good, err := os.ReadFile(filepath.Join(shipped, "training-spot", "scenario.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(filepath.Join(shipped, "training-spot"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"kind: Scenario", "kind: ScalingPolicy", "want gpuscaler.io/v1alpha1, Scenario"},
		{"for: 3d", "for: 3s", "from 1m"},
		{"for: 3d", "for: soon", "line 9"},
		{"seed: 1\n  policies", "sead: 1\n  policies", "sead"},
		{"policies: [policy.yaml]", "policies: []", "names no file"},
		{"policies: [policy.yaml]", "policies: [scenario.yaml]", "would reject the policies"},
		{"team-train/finetune", "team-train/finetun", "in none of spec.policies"},
		{"slo: 95%:2h", "slo: 2h", "want a share"},
		{"slo: 95%:2h", "slo: 101%:2h", "want a share"},
		{"static: 6", "static: 0", "number of replicas of the static fleet"},
		{"preset: nights, ", "", "either file or preset"},
		{"preset: nights", "preset: evenings", "use one of flat"},
		{"capacityType: spot", "capacityType: cheap", "want spot"},
		{"spot: spot.csv", "spot: nowhere.csv", "nowhere.csv"},
		{"rate: arrivals", "rate: speed", "want queue"},
		{"nodePools: [on-demand] ", "nodePools: [reserved] ", "no NodePool reserved"},
	} {
		text := strings.Replace(string(good), c.old, c.new, 1)
		if text == string(good) {
			t.Fatalf("%q is not in the scenario", c.old)
		}
		text = strings.ReplaceAll(text, "[policy.yaml]", "["+relative(t, filepath.Join(folder, "policy.yaml"))+"]")
		text = strings.ReplaceAll(text, "spot: spot.csv", "spot: "+relative(t, filepath.Join(folder, "spot.csv")))
		path := filepath.Join(t.TempDir(), "scenario.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Open(path)
		if err == nil {
			_, err = s.Evaluate(t.Context(), s.Cases(), nil)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
}

// relative returns the relative path from the directory of the test to the absolute path in the parameter to.
func relative(t *testing.T, to string) string {
	t.Helper()
	return strings.Repeat("../", 12) + strings.TrimPrefix(filepath.ToSlash(to), "/")
}

func FuzzOpen(f *testing.F) {
	for _, name := range []string{"office-hours", "training-spot"} {
		text, err := os.ReadFile(filepath.Join(shipped, name, "scenario.yaml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "scenario.yaml")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if s, err := scenario.Open(path); err == nil && (s.Name == "" || len(s.Workloads) == 0) {
			t.Errorf("accepted without a name or workloads: %q", text)
		}
	})
}
