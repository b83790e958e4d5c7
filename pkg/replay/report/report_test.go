package report

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// example is an evaluation of fifteen minutes with a failing spot market, two baselines and the lower bounds. heldOut is the share of the
// traffic, at its end, that the results cover (the report part); 0: the results cover the whole traffic.
func example(t testing.TB, heldOut float64) *evaluate.Report {
	t.Helper()
	p, _ := trace.Preset("bursty")
	p.Duration, p.Seed, p.Rate = 15*time.Minute, 3, 2
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	c := evaluate.Case{
		Policy: &policy.Compiled{
			Workload: scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Policy: &scaling.Policy{
				Signals:     []scaling.Signal{{Name: "load", Type: "prometheus", Target: 7, MaxAge: 2 * time.Minute}},
				MaxReplicas: 8, CooldownPeriod: 5 * time.Minute, ScaleDown: scaling.Direction{StabilizationWindow: 5 * time.Minute},
			}},
			Sources: []policy.Source{{Type: policy.SourcePrometheus}},
		},
		Traffic: tr, Spot: []*spotmarket.Trace{{Name: "market.csv", Duration: time.Hour, Initial: 6,
			Events: []spotmarket.Event{{At: 6 * time.Minute, Lost: 4}}}},
		Service: simulator.Chat8B, Measures: map[string]measure.Measure{"load": measure.InSystem},
		SLO:     evaluate.SLO{Share: 0.95, Wait: 10 * time.Second},
		Initial: 3, ColdStart: time.Minute, Hourly: 2, SpotHourly: 1, Seed: 1, SeriesPoints: 60,
		Baselines: baseline.All()[:2], TuneBaselines: true, Bound: true, HeldOut: heldOut,
	}
	r, err := evaluate.Workload(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := evaluate.ParseGate("slo<0.9999")
	if err != nil {
		t.Fatal(err)
	}
	r.Check([]evaluate.Gate{gate})
	return r
}

// render compares the output of write with a file of testdata, and returns the output.
func render(t *testing.T, name string, write func(io.Writer, *evaluate.Report) error, r *evaluate.Report) []byte {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got, r); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/"+name, got.String())
	return got.Bytes()
}

func TestTextAndJSONEqualTheGoldenFiles(t *testing.T) {
	r := example(t, 0)
	text := string(render(t, "report.txt", WriteText, r))
	for _, line := range strings.Split(text, "\n") {
		if strings.HasSuffix(line, " ") {
			t.Errorf("blanks at the end of %q", line)
		}
	}
	if !strings.Contains(text, "FAILS") {
		t.Error("the text does not contain the failed gate")
	}
	var back evaluate.Report
	if err := json.Unmarshal(render(t, "report.json", WriteJSON, r), &back); err != nil || back.Schema != evaluate.Schema {
		t.Errorf("schema %q, error %v", back.Schema, err)
	}
	for i := range r.Runs {
		if back.Runs[i].Ledger != r.Runs[i].Ledger {
			t.Errorf("GPU time of %s: %v, want %v", r.Runs[i].Name, back.Runs[i].Ledger, r.Runs[i].Ledger)
		}
	}
}

// Clients parse the JSON output. New fields may be added to the output, but a removed field breaks clients.
func TestJSONHasAllFields(t *testing.T) {
	var b bytes.Buffer
	if err := WriteJSON(&b, example(t, 0)); err != nil {
		t.Fatal(err)
	}
	var top map[string]any
	if err := json.Unmarshal(b.Bytes(), &top); err != nil {
		t.Fatal(err)
	}
	run := top["runs"].([]any)[0].(map[string]any)
	for in, keys := range map[string]map[string]any{
		"schema policy traffic slo initialReplicas coldStartSeconds seed cheapest runs bounds admission gates assumptions": top,
		"name variant words meetsSLO cost costByCapacityType gpuHours onTime waitSeconds gpuUtilization productive replicaStarts nodeStarts " +
			"scaleUps scaleDowns atZeroSeconds spotLosses replicasLost arrived served requeued ledgerGPUSeconds reasons": run,
	} {
		for _, key := range strings.Fields(in) {
			if _, there := keys[key]; !there {
				t.Errorf("%s is gone", key)
			}
		}
	}
}

func TestPageIsSelfContained(t *testing.T) {
	r := example(t, 0)
	r.Policy, r.Runs[0].Reasons[0].Text = "team/<b>chat</b>", "<script>alert(1)</script>"
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	for _, bad := range []string{"<script", "http://", "https://", "<b>chat", " src=", "NaN", "%!", "<no value>"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q in it", bad)
		}
	}
	for _, want := range []string{"Demand", "Replicas", "Queue", "Nodes", "Cost so far", "Reasons", "Assumptions", "misses SLO",
		"light-dark(", `role="img"`, "<desc>arrivals: between ", "@media print"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(html, "<path "); n < 12 {
		t.Errorf("%d paths are drawn", n)
	}
	for i := range r.Runs {
		r.Runs[i].Series = nil
	}
	b.Reset()
	if err := WriteHTML(&b, r); err != nil || strings.Contains(b.String(), "<h3>Demand") {
		t.Errorf("without a series there is nothing to draw: %v", err)
	}
}

// A static fleet can be larger than necessary, so the comparison with the smallest fleet that meets the SLO is the more important one. The
// conclusion must state it first.
func TestConclusionBeginsWithTheSmallestFleet(t *testing.T) {
	saved, smallest := 0.6, 0.2
	ours := evaluate.Run{Name: "gpuscaler", Cost: 4, Load: evaluate.Load{OnTime: 1, MeetsSLO: true}}
	r := &evaluate.Report{Saved: &saved, SavedSmallest: &smallest, Cheapest: "gpuscaler", Runs: []evaluate.Run{ours}}
	const want = " It costs 20.00% less than the smallest static fleet that meets the SLO. It costs 60.00% less than the static fleets."
	if got := conclusion(r); !strings.HasSuffix(got, want) {
		t.Errorf("%s, want the end %s", got, want)
	}
}

// The report of a scenario compares gpuscaler with static fleets. If gpuscaler misses the SLO, the conclusion must not call its lower cost
// a saving.
func TestSavingRequiresTheSLO(t *testing.T) {
	saved, more := 0.9, -0.2
	fleet := evaluate.Run{Name: evaluate.StaticFleet, Variant: evaluate.Default, Cost: 10, Load: evaluate.Load{MeetsSLO: true}}
	const larger = " They can be larger than necessary: the baseline static compares with the smallest one that meets the SLO."
	for _, c := range []struct {
		meets bool
		saved *float64
		want  string
	}{
		{true, &saved, "gpuscaler meets the SLO. It costs 90.00% less than the static fleets." + larger},
		{false, &saved, "gpuscaler misses the SLO: 98.00% on time. The cheapest run that meets it is static fleet. " +
			"It costs 90.00% less than the static fleets, but this is not a saving."},
		{true, &more, "gpuscaler meets the SLO. It costs 20.00% more than the static fleets." + larger},
	} {
		r := &evaluate.Report{Saved: c.saved, Cheapest: evaluate.StaticFleet,
			Runs: []evaluate.Run{{Name: "gpuscaler", Cost: 1, Load: evaluate.Load{OnTime: 0.98, MeetsSLO: c.meets}}, fleet}}
		if got := conclusion(r); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// The text, the page and the JSON must say that the results cover only the last six of fifteen minutes.
func TestEachFormatNamesThePartThatIsReported(t *testing.T) {
	r := example(t, 0.4)
	for want, write := range map[string]func(io.Writer, *evaluate.Report) error{
		"results of the report part, the last 6m with ":                                           WriteText,
		"in the train part before it, the first 9m, policies learn and settings are searched</p>": WriteHTML,
		`"trainSeconds": 540,`:    WriteJSON,
		`"durationSeconds": 900,`: WriteJSON,
	} {
		var out bytes.Buffer
		if err := write(&out, r); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%.3000s", want, out.String())
		}
		if page := out.String(); strings.Contains(want, "</p>") && !strings.Contains(page, "Over time; the report part begins at 0:09") {
			t.Error("the page does not say where the report part begins in the charts")
		}
	}
	if text := reportPart(&example(t, 0).Traffic); text != "" {
		t.Errorf("%q without a train part", text)
	}
}

// Without traffic, gpuscaler and a baseline that scales to zero cost nothing. The report must not divide by this cost.
func TestRunsWithoutCostAreCompared(t *testing.T) {
	keda := evaluate.Run{Name: "keda", Load: evaluate.Load{MeetsSLO: true}}
	r := evaluate.Report{Cheapest: "keda", Runs: []evaluate.Run{{Name: "gpuscaler", Load: evaluate.Load{MeetsSLO: true}}, keda}}
	if got, want := compared(&r), "gpuscaler meets the SLO; keda does so at the same cost."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.Runs[1].Cost = 2
	if got := compared(&r); !strings.Contains(got, "at 100.00% less than keda") {
		t.Errorf("without a cost beside a baseline of $2: %q", got)
	}
}
