package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/search"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

const generous = `# keep me
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: chat, namespace: team}
spec:
  scaleTargetRef: {name: chat}
  minReplicas: 1
  maxReplicas: 10
  signals:
  - {name: load, type: vllm, metric: requestsRunning, target: 2}   # of 8 slots
---
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: other, namespace: team}
spec:
  scaleTargetRef: {name: other}
  minReplicas: 1
  maxReplicas: 2
  signals:
  - {name: load, type: vllm, metric: requestsRunning, target: 2}
`

func load(t testing.TB, text string) *policy.Compiled {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chat.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store := store.New(store.Options{})
	if r := store.Load(path); policy.Errors(r.Problems) > 0 {
		t.Fatalf("%s\n%s", policy.Render(r.Problems), text)
	}
	for _, c := range store.Compiled() {
		if c.Workload.Key.Name == "chat" {
			return c
		}
	}
	t.Fatal("no policy chat")
	return nil
}

func part(t testing.TB, c *policy.Compiled, seed uint64) evaluate.Case {
	t.Helper()
	p, _ := trace.Preset("flat")
	p.Duration, p.Seed, p.Rate = 15*time.Minute, seed, 3
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	return evaluate.Case{Policy: c, Traffic: tr, Service: simulator.Chat8B, SLO: evaluate.SLO{Share: 0.97, Wait: 10 * time.Second}, Initial: 3,
		ColdStart: time.Minute, Hourly: 2, Seed: 1, Measures: map[string]measure.Measure{"load": measure.InSystem}}
}

func parts(t testing.TB, c *policy.Compiled) Parts {
	return Parts{part(t, c, 1), part(t, c, 2), part(t, c, 3)}
}

func TestWrittenPolicyHasTheSettingsFound(t *testing.T) {
	c := load(t, generous)
	r, err := Search(context.Background(), parts(t, c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Found || !r.Search.After.MeetsSLO || !r.Choose.After.MeetsSLO || r.Report.After.Cost >= 0.9*r.Report.Before.Cost {
		t.Fatalf("found %v: %v to %v on the report part", r.Found, r.Report.Before.Cost, r.Report.After.Cost)
	}
	text, err := r.Rewrite([]byte(generous))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# keep me", "# of 8 slots", "name: other"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is lost:\n%s", want, text)
		}
	}
	tuned := load(t, string(text))
	again := part(t, tuned, 3)
	report, err := evaluate.Workload(context.Background(), again, nil)
	if err != nil {
		t.Fatal(err)
	}
	if run := report.Runs[0]; run.Cost != r.Report.After.Cost || run.OnTime != r.Report.After.OnTime {
		t.Errorf("the file costs %v at %v on time, the report has %v at %v:\n%s",
			run.Cost, run.OnTime, r.Report.After.Cost, r.Report.After.OnTime, text)
	}
	var words bytes.Buffer
	if err := r.WriteText(&words); err != nil || !strings.Contains(words.String(), "report") {
		t.Errorf("%s, %v", words.String(), err)
	}
}

func TestSameCasesGiveTheSameResult(t *testing.T) {
	c := load(t, generous)
	var texts [2][]byte
	for i := range texts {
		r, err := Search(context.Background(), parts(t, c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if texts[i], err = json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("two searches differ:\n%s\n%s", texts[0], texts[1])
	}
}

func TestInfeasibleSLOLeavesThePolicyUnchanged(t *testing.T) {
	c := load(t, strings.Replace(generous, "maxReplicas: 10", "maxReplicas: 1", 1))
	r, err := Search(context.Background(), parts(t, c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.Rewrite([]byte(generous))
	if err != nil || r.Found || !bytes.Equal(text, []byte(generous)) {
		t.Errorf("one replica cannot serve three requests a second: %+v, %v", r, err)
	}
}

// The choice part has more bursts than the search part, so the first settings miss the SLO on the choice part. Each of the next settings to
// check must have fewer late requests on the search part, or cost more on the search part.
func TestEachCheckHasFewerLateRequests(t *testing.T) {
	c := load(t, generous)
	p3 := parts(t, c)
	p, _ := trace.Preset("bursty") // has more bursts than the traffic of the search part
	p.Duration, p.Seed, p.Rate = 15*time.Minute, 2, 1.5
	var err error
	if p3.Choose.Traffic, err = trace.Generate(p); err != nil {
		t.Fatal(err)
	}
	r, err := Search(context.Background(), p3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Checks) != r.Checked || r.Checked < 2 || r.Checked > maxChecked {
		t.Fatalf("%d checks: %+v", r.Checked, r.Checks)
	}
	for i := 1; i < len(r.Checks); i++ {
		if before, now := r.Checks[i-1], r.Checks[i]; before.Meets || 1-now.SearchedOnTime > nextLateShare*(1-before.SearchedOnTime) ||
			now.SearchedCost < before.SearchedCost ||
			before.SearchedOnTime == 1 && now.SearchedCost < nextCostFactor*before.SearchedCost {
			t.Errorf("after %+v, the next check is %+v", before, now)
		}
	}
	var words bytes.Buffer
	if err := r.WriteText(&words); err != nil || !strings.Contains(words.String(), "SELECTION") ||
		r.Found != strings.Contains(words.String(), "settings were found") {
		t.Errorf("%v\n%s", err, words.String())
	}
	t.Logf("\n%s", words.String())
}

// The report part has more traffic than the first two parts. The chosen settings miss the SLO there; no other settings may be tried on the
// report part, and the policy must not change.
func TestReportPartIsUsedOnce(t *testing.T) {
	c := load(t, generous)
	p := parts(t, c)
	harder, _ := trace.Preset("bursty")
	harder.Duration, harder.Seed, harder.Rate = 15*time.Minute, 2, 4
	var err error
	if p.Report.Traffic, err = trace.Generate(harder); err != nil {
		t.Fatal(err)
	}
	r, err := Search(context.Background(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Chosen || r.Found || !r.Choose.After.MeetsSLO || r.Report.After.MeetsSLO {
		t.Fatalf("chosen %t, found %t, on time %v", r.Chosen, r.Found, r.Report.After.OnTime)
	}
	if last := r.Checks[len(r.Checks)-1]; !last.Meets || last.ChoiceCost != r.Choose.After.Cost {
		t.Errorf("the report does not have the settings of the last check %+v", last)
	}
	text, err := r.Rewrite([]byte(generous))
	if err != nil || !bytes.Equal(text, []byte(generous)) {
		t.Errorf("the policy changed (%v):\n%s", err, text)
	}
}

// On the report part, only two runs are allowed: with the current settings and with the chosen settings. If the chosen settings miss the
// SLO on this part, no other settings run.
func TestReportRunsOnlyTheCurrentAndTheChosenSettings(t *testing.T) {
	for _, meets := range []bool{true, false} {
		var ran [][]float64
		r := Result{knobs: []evaluate.Knob{{Name: "target", Value: 2}}, best: []float64{7}, Chosen: true}
		third := &search.Search[evaluate.Run]{Play: func(_ context.Context, settings []float64) (evaluate.Run, error) {
			ran = append(ran, settings)
			return evaluate.Run{Load: evaluate.Load{MeetsSLO: meets}}, nil
		}}
		if err := r.report(context.Background(), third); err != nil {
			t.Fatal(err)
		}
		if len(ran) != 2 || ran[0][0] != 2 || ran[1][0] != 7 || r.Found != meets {
			t.Errorf("the report part ran with %v, found %t; want 2 and 7, and %t", ran, r.Found, meets)
		}
	}
}

// No settings can meet this SLO, because maxReplicas is 1. The first line of the result must report this and the number of settings that
// were tried. The table must have rows only for the current settings.
func TestVerdictSaysThatNothingMeetsTheSLO(t *testing.T) {
	c := load(t, strings.Replace(generous, "maxReplicas: 10", "maxReplicas: 1", 1))
	p := parts(t, c)
	for _, k := range []*evaluate.Case{&p.Search, &p.Choose, &p.Report} {
		drawn, err := k.Traffic.Drawn(0)
		if err != nil {
			t.Fatal(err)
		}
		k.Traffic = drawn.Until(3 * time.Minute)
	}
	r, err := Search(context.Background(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var words bytes.Buffer
	if err := r.WriteText(&words); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("team/chat: none of %d settings meets the SLO on the searched part; the policy is not changed", r.Tried)
	if first, _, _ := strings.Cut(words.String(), "\n"); first != want || r.Chosen || r.Checked != 0 || r.Tried < 50 {
		t.Errorf("the verdict is %q, want %q; %d settings were checked", first, want, r.Checked)
	}
	if r.Report.After.Cost != r.Report.Before.Cost || strings.Contains(words.String(), "KNOB") {
		t.Errorf("the result proposes other settings:\n%s", words.String())
	}
}
