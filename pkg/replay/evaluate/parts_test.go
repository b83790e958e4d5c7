package evaluate

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// part is a period with a constant rate of requests, in requests per second.
type part struct {
	minutes int
	rate    float64
}

// traffic returns a log of the parts, one after another.
func traffic(t testing.TB, parts ...part) *trace.Trace {
	t.Helper()
	var log strings.Builder
	log.WriteString("time,input,output\n")
	at := 0.0
	for _, p := range parts {
		for end := at + float64(p.minutes*60); at < end-1e-6; at += 1 / p.rate {
			log.WriteString(time.UnixMilli(int64(at*1000)).UTC().Format("2006-01-02T15:04:05.000Z") + ",500,100\n")
		}
	}
	tr, err := tracefile.Read("parts.csv", strings.NewReader(log.String()), tracefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// learning replaces the policy of a case by a policy with the SLO as its objective, which learns the capacity of a replica.
func learning(c *Case) {
	evidence := func(name string, m scaling.Measure) scaling.Signal {
		return scaling.Signal{Name: name, Type: "prometheus", Measures: m, MaxAge: 2 * time.Minute}
	}
	c.Policy = chat(func(p *scaling.Policy) {
		p.Objective, p.MaxReplicas = &objective.Objective{Limit: c.SLO.Wait, Percentile: 100 * c.SLO.Share}, 12
		p.Signals = []scaling.Signal{evidence("arrivals", scaling.MeasureArrivals), evidence("queue", scaling.MeasureQueued),
			evidence("running", scaling.MeasureInFlight)}
	})
	c.Policy.Sources = slices.Repeat([]policy.Source{{Type: policy.SourcePrometheus}}, 3)
	c.Measures = map[string]measure.Measure{"arrivals": measure.Arrivals, "queue": measure.Queue, "running": measure.Running}
}

// The policy learns in the train part how many requests a replica serves. In the report part it then starts no further replica, and no
// request is late. A policy without a train part has learned nothing when the requests of the report part arrive: it starts replicas that
// it does not need, and costs more.
func TestPolicyKeepsWhatItLearnedInTheTrainPart(t *testing.T) {
	replay := func(minutes int, heldOut float64) Run {
		return evaluateCase(t, small(t, func(c *Case) {
			c.Traffic, c.HeldOut, c.SLO.Share = traffic(t, part{minutes, 4}), heldOut, 0.99
			learning(c)
		})).Runs[0]
	}
	warm, cold := replay(120, 0.5), replay(60, 0)
	t.Logf("with a train part $%.3f, %d starts, %.2f%% on time; without $%.3f, %d starts, %.2f%% on time",
		warm.Cost, warm.ReplicaStarts, 100*warm.OnTime, cold.Cost, cold.ReplicaStarts, 100*cold.OnTime)
	if warm.Arrived != cold.Arrived || warm.ReplicaStarts != 0 || warm.OnTime < 1 || warm.Cost > 0.95*cold.Cost {
		t.Errorf("%d requests after a train part, %d without", warm.Arrived, cold.Arrived)
	}
}

// The two cases have the same train part and different report parts. The searches must find the same settings with the same number of runs.
func TestSettingsAreSearchedOnTheTrainPartOnly(t *testing.T) {
	replay := func(rate float64) *Report {
		return evaluateCase(t, small(t, func(c *Case) {
			c.Traffic = traffic(t, part{5, 1}, part{5, 4}, part{10, rate})
			c.HeldOut, c.TuneOurs, c.TuneBaselines = 0.5, true, true
			c.Baselines = slices.DeleteFunc(baseline.All(), func(b baseline.Baseline) bool {
				return !slices.Contains([]string{"static", "keda"}, b.Name)
			})
		}))
	}
	calm, busy := replay(1), replay(6)
	for i := range calm.Runs {
		a, b := &calm.Runs[i], &busy.Runs[i]
		if !reflect.DeepEqual(a.Settings, b.Settings) || a.Tried != b.Tried {
			t.Errorf("%s: %v of %d settings, and %v of %d", a.Title(), a.Settings, a.Tried, b.Settings, b.Tried)
		}
		if a.Arrived != 600 || b.Arrived != 3600 || a.Variant == Tuned && a.Tried == 0 {
			t.Errorf("%s: %d and %d requests, %d settings", a.Title(), a.Arrived, b.Arrived, a.Tried)
		}
	}
	if fleet := calm.Run("static", Tuned); fleet == nil || math.Abs(fleet.GPUHours-8*fleet.Settings[0].Value/6) > 0.01 {
		t.Errorf("the fleet is not billed for the ten minutes of the report part: %+v", fleet)
	}
	if tr := calm.Traffic; tr.Train != 600 || tr.TrainRequests != 1500 || tr.Requests != 2100 {
		t.Errorf("%+v", tr)
	}
	var texts []string
	for _, a := range calm.Assumptions {
		texts = append(texts, a.Name+": "+a.Value)
	}
	if all := strings.Join(texts, "\n"); !strings.Contains(all, "tuned settings: searched on the train part") ||
		!strings.Contains(all, "report part: a request counts in the part in which it arrives") || strings.Contains(all, "tuned baselines") {
		t.Error(all)
	}
}

// The lower bound covers only the report part. No run may cost less than the bound in this part, and the number of requests that may be
// late is a share of the requests of this part.
func TestBoundIsThatOfTheReportPart(t *testing.T) {
	for seed, of := range []struct{ heldOut, share float64 }{{0.25, 0.5}, {0.4, 0.95}} {
		p, _ := trace.Preset("bursty")
		p.Duration, p.Rate, p.Seed = 30*time.Minute, 2, uint64(seed)+1
		tr, err := trace.Generate(p)
		if err != nil {
			t.Fatal(err)
		}
		r := evaluateCase(t, small(t, func(c *Case) {
			c.Traffic, c.Bound, c.Baselines, c.HeldOut, c.SLO.Share = tr, true, baseline.All(), of.heldOut, of.share
			c.Policy = chat(func(p *scaling.Policy) { p.MaxReplicas = 16 })
		}))
		b, requests := r.Bound(RequestBound), r.Traffic.Requests-r.Traffic.TrainRequests
		if b == nil || b.Allowed > int64((1-of.share)*float64(requests)+1e-6) || !slices.Contains(b.Relaxations, freeStart) {
			t.Fatalf("%v: %d requests in the report part: %+v", of, requests, r.Bounds)
		}
		for _, run := range r.Runs {
			if run.MeetsSLO && run.Cost < b.Lower || run.Arrived != requests {
				t.Errorf("%v: %s costs %v for %d of %d requests; the certified bound is %v", of, run.Title(), run.Cost, run.Arrived, requests, b.Lower)
			}
		}
		careful := r.Run("clairvoyant, careful", Clairvoyant)
		if careful == nil {
			t.Errorf("%v: no careful schedule: %+v", of, r.Bounds)
		} else if static := r.Run("static", Default); !careful.MeetsSLO || careful.Cost > static.Cost/2 {
			t.Errorf("%v: the careful schedule costs %v at %v on time; maxReplicas cost %v", of, careful.Cost, careful.OnTime, static.Cost)
		}
	}
}

// In traffic of twenty minutes, all requests arrive between the fifth and the fifteenth minute. A share for which the train part or the
// report part has no request must be rejected.
func TestHeldOutSharesWithoutRequestsInBothPartsAreRejected(t *testing.T) {
	tr := traffic(t, part{10, 1}).Delayed(5 * time.Minute)
	tr.Duration = 20*time.Minute - time.Second
	const allowed = ", and one of the parts has no request: use a share from 0.2578 to 0.7414 (14m50s to 5m10s)"
	for share, want := range map[float64]string{
		1: "a held-out share of 1: use a share above 0 and below 1", -0.1: "a held-out share of -0.1: use", math.NaN(): "a held-out share of NaN",
		0.9999: "a held-out share of 0.9999 begins the report part at 0s of 19m59s" + allowed, 0.8: "at 4m0s of 19m59s" + allowed,
		0.2: "at 16m0s of 19m59s" + allowed, 0.2578: "", 0.7414: "",
	} {
		_, err := Workload(context.Background(), small(t, func(c *Case) { c.Traffic, c.HeldOut = tr, share }), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", share, err)
		}
	}
	one := traffic(t, part{1, 0.02})
	_, err := Workload(context.Background(), small(t, func(c *Case) { c.Traffic, c.HeldOut = one.Until(30*time.Second), 0.5 }), nil)
	if err == nil || !strings.Contains(err.Error(), "cannot be divided into two parts") {
		t.Error(err)
	}
}

// Each burst of requests after ten idle minutes is a wake. Only the last of the bursts is in the report part.
func TestOnlyWakesOfTheReportPartMakeRequestsLate(t *testing.T) {
	r := evaluateCase(t, small(t, func(c *Case) {
		c.Traffic = traffic(t, part{2, 1}, part{12, 0.001}, part{2, 1}, part{12, 0.001}, part{2, 1})
		c.Policy = chat(func(p *scaling.Policy) { p.MinReplicas = 0 })
		c.HeldOut, c.Initial, c.ColdStart = 0.4, 1, 2*time.Minute
	}))
	t.Logf("%+v", r.Admission)
	if a := r.Admission; a.Wakes != 1 || a.CanMeet || math.Abs(a.LateShare-110.0/120) > 0.02 {
		t.Errorf("%+v", a)
	}
}
