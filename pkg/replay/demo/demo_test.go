package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func play(t *testing.T, o Options) *Demo {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDemoDayShowsAllFeatures(t *testing.T) {
	rules := map[scaling.Rule]bool{}
	risen, fallen := map[string]int{}, map[string]int{}
	d := play(t, Options{For: 24 * time.Hour, OnTransition: func(r engine.Record) {
		rules[r.Decision.Binding] = true
		if name := r.Workload.Key.Name; r.Decision.Replicas > r.Before {
			risen[name]++
		} else if r.Decision.Replicas < r.Before {
			fallen[name]++
		}
	}})
	s := d.Summary()
	if s.Losses == 0 {
		t.Error("no spot node was lost in a day")
	}
	for _, p := range s.Policies {
		_, name, _ := strings.Cut(p.Policy, "/")
		if risen[name] == 0 || fallen[name] == 0 || p.AtZero < 4 || !(p.OnTime >= 0.99) {
			t.Errorf("%s rose %d times and fell %d times, was at zero for %.1f h, %.1f%% on time",
				name, risen[name], fallen[name], p.AtZero, 100*p.OnTime)
		}
		if p.Served == nil || *p.Served != p.Target || len(p.Reasons) == 0 {
			t.Errorf("%s at the end: %+v", name, p)
		}
	}
	for _, rule := range []scaling.Rule{scaling.RuleObjective, scaling.RuleCombine, scaling.RuleStabilize, scaling.RuleScheduleFloor,
		scaling.RuleIdle, scaling.RuleRate} {
		if !rules[rule] {
			t.Errorf("no decision of the day was bound by the rule %s", rule)
		}
	}
}

// On the day that the demo shows by default, each workload meets its SLO, with fewer late requests than KEDA with its usual targets and at
// less cost than a static fleet. No smaller static fleet serves 99% of the requests of each workload on time.
func TestSummaryComparesWithOtherAutoscalers(t *testing.T) {
	const day = 24 * time.Hour
	d := play(t, Options{For: day, Seed: 1})
	all, err := d.Compare(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	ours, keda, static := all[0], all[1], all[2]
	if !(ours.OnTime >= 0.99 && ours.OnTime > keda.OnTime && static.OnTime >= 0.99 && ours.Cost < static.Cost && ours.Idle < static.Idle) {
		t.Errorf("%+v", all)
	}
	least, err := d.LeastCost(t.Context())
	if err != nil || !(least > 0 && least < ours.Cost && least < static.Cost) {
		t.Errorf("lower bound $%.2f, %v; gpuscaler costs $%.2f, the static fleet $%.2f", least, err, ours.Cost, static.Cost)
	}
	s := d.Summary()
	s.Compared, s.LeastCost = all, &least
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil || !strings.Contains(text.String(), "static fleet") ||
		!strings.Contains(text.String(), fmt.Sprintf("%.1fx", static.Cost/least)) || !strings.Contains(text.String(), "lower bound") {
		t.Errorf("%v in\n%s", err, text.String())
	}
	for name := range fleet {
		fleet[name]--
	}
	defer func() {
		for name := range fleet {
			fleet[name]++
		}
	}()
	smaller, err := d.play(t.Context(), alternatives()[1], day)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range smaller.Loads {
		if l.OnTime >= 0.99 {
			t.Errorf("%s: %d replicas serve %.1f%% on time", l.Key, fleet[l.Key.Name], 100*l.OnTime)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Compare(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// The lower bound is the price of the GPU time of the requests, at the spot prices. The bound omits the longest 1% of the requests, which
// may be late, so it can be up to 10% below this price. A canceled computation returns an error, and a run without a whole minute has the
// bound 0.
func TestLeastCostIsThePriceOfTheWork(t *testing.T) {
	const length = 5*time.Hour + 30*time.Second
	d := play(t, Options{For: length, Seed: 1})
	work := 0.0
	for name, profile := range profiles() {
		profile.Duration, profile.Seed, profile.Start = 5*time.Hour, 1, start.In(time.FixedZone("CET", 3600))
		requests, err := trace.Generate(profile)
		if err != nil {
			t.Fatal(err)
		}
		service, hourly := services[name], a10gSpotHourly
		if name == "llama-chat" {
			hourly = l40sSpotHourly
		}
		for r := range requests.All() {
			work += service.Takes(r).Hours() / float64(service.Slots) * hourly
		}
	}
	least, err := d.LeastCost(t.Context())
	if err != nil || !(least > 0.9*work && least <= work) {
		t.Errorf("lower bound $%.2f, %v; the work costs $%.2f", least, err, work)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.LeastCost(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if least, err := play(t, Options{For: 30 * time.Second, Seed: 1}).LeastCost(t.Context()); err != nil || least != 0 {
		t.Errorf("without a whole minute: $%g, %v", least, err)
	}
}

func TestSummaryMarksAMissedSLOAndStatesEachTimeLimit(t *testing.T) {
	s := Summary{Policies: []Policy{{Policy: "team-batch/night-batch", OnTime: 1, Limit: 3600, P99: 2055}},
		Compared: []Outcome{{Name: "gpuscaler", OnTime: 0.9928}, {Name: "KEDA", OnTime: 0.986}}}
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"100.00%  3600s       2055.0s", "98.60% missed", "99.28%         ", "the SLO is 99% of each workload"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestNightJobsWaitForTheirSchedule(t *testing.T) {
	d := play(t, Options{For: 15 * time.Hour}) // until 20:52 in Berlin: jobs arrive, and the schedule starts at 21:00
	k := scaling.Key{Namespace: "team-batch", Name: "night-batch"}
	decision, _ := d.Engine().Decisions().Decision(k)
	if decision.Replicas != 0 || decision.Binding != scaling.RuleScheduleCeiling || decision.Uncapped != 0 {
		t.Errorf("before 21:00 the target is %d, by %s", decision.Replicas, decision.Binding)
	}
	if jobs := d.Summary().Policies[0].Requests; jobs < 50 {
		t.Errorf("%d jobs arrived", jobs)
	}
}

func TestSummaryAsTextAndJSON(t *testing.T) {
	s := play(t, Options{For: time.Hour}).Summary()
	var text bytes.Buffer
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1h0m0s of virtual time", "team-chat/llama-chat", "POLICY"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Policies []struct {
			Policy  string
			Target  *int32
			Served  *int32
			Ready   *int32
			Reasons []string
		}
	}
	if err := json.Unmarshal(encoded, &back); err != nil || len(back.Policies) != 3 || back.Policies[1].Served == nil ||
		back.Policies[1].Reasons == nil {
		t.Errorf("%v: %s", err, encoded)
	}
}

func TestSameSeedGivesTheSameDay(t *testing.T) {
	day := func(seed uint64) []byte {
		b, err := json.Marshal(play(t, Options{For: 6 * time.Hour, Seed: seed}).Summary())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(day(1), day(1)) {
		t.Error("two runs of one seed differ")
	}
	if bytes.Equal(day(1), day(2)) {
		t.Error("two seeds give the same run")
	}
}

func TestPoliciesHaveNoProblems(t *testing.T) {
	report := store.New(store.Options{}).LoadFS(Policies())
	if len(report.Problems) > 0 {
		t.Errorf("%s", policy.Render(report.Problems))
	}
}

func TestRecordedTraceReplacesAllTraffic(t *testing.T) {
	requests, err := trace.Generate(trace.Profile{Name: "recorded", Duration: 20 * time.Minute, Rate: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := play(t, Options{Requests: requests})
	s := d.Summary()
	if got := s.End.Sub(s.Start); got != requests.Duration+15*time.Minute {
		t.Errorf("it ended after %s", got)
	}
	for _, p := range s.Policies {
		if chat := p.Policy == "team-chat/llama-chat"; chat != (p.Requests > 1000) || !chat && p.Requests != 0 {
			t.Errorf("%s had %d requests", p.Policy, p.Requests)
		}
	}
}

// wall is a clock that advances by a step at each reading.
type wall struct {
	now  time.Time
	step time.Duration
}

func (w *wall) read() time.Time {
	w.now = w.now.Add(w.step)
	return w.now
}

func TestSuspendedProcessDoesNotCatchUp(t *testing.T) {
	// The clock advances ten seconds per tick, like the clock of a process that is suspended again and again.
	slow := &wall{now: start, step: 10 * time.Second}
	d := play(t, Options{For: 5 * time.Minute, Speed: 60, Clock: slow.read})
	if got := d.Now().Sub(start); got != 5*time.Minute {
		t.Errorf("the virtual time is %s, want 5m", got)
	}
}

func TestRunWaitsForTheClockAndStopsAtOnce(t *testing.T) {
	d, err := New(Options{Speed: 1, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := d.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if got := d.Now().Sub(start); got > 2*time.Second {
		t.Errorf("at real time %s passed in 50 ms", got)
	}
}

func TestPageIsReadableDuringTheRun(t *testing.T) {
	d, err := New(Options{For: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for answered := 0; ; {
			select {
			case <-done:
				if answered == 0 {
					t.Error("no target was served")
				}
				return
			default:
			}
			for _, k := range d.Engine().Decisions().Keys() {
				if _, err := engine.LookupNow(d.Engine().Decisions(), k, d.Now); err == nil {
					answered++
				} else if !errors.Is(err, engine.ErrUndecided) {
					t.Errorf("%s: %v", k, err)
				}
			}
		}
	})
	if err := d.Run(context.Background()); err != nil {
		t.Error(err)
	}
	close(done)
	readers.Wait()
	if keys := d.Engine().Decisions().Keys(); !slices.Contains(keys, scaling.Key{Namespace: "team-chat", Name: "llama-chat"}) {
		t.Errorf("the decisions has %v", keys)
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	for _, o := range []Options{{Speed: -1}, {For: -time.Second}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
