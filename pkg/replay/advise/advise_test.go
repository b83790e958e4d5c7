package advise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

const platform = `apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: test}
spec:
  dataSources: [{name: prom, type: prometheus, default: true, address: "http://prometheus:9090"}]
`

const chat = `# keep me
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: chat, namespace: team}
spec:
  scaleTargetRef: {name: chat}
  minReplicas: 3
  maxReplicas: 4
  objective: {deadline: 30m}   # not the objective that is asked for
  signals:
  - {name: requests, type: prometheus, metric: gateway_requests_total, rate: 1m}
  - {name: queue, type: prometheus, metric: gateway_requests_waiting, measures: queued}
  - {name: running, type: vllm, metric: requestsRunning}
`

func document(t testing.TB, text string) Document {
	t.Helper()
	d, err := FindDocument([]byte(text), "team/chat")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// compiler returns a function for Input.Compile. The function compiles the document with the settings of a candidate.
func compiler(d Document) func(Setting) (*policy.Compiled, error) {
	return func(s Setting) (*policy.Compiled, error) {
		text, err := d.With(s)
		if err != nil {
			return nil, err
		}
		loaded := store.New(store.Options{})
		for _, p := range loaded.LoadFS(fstest.MapFS{"a.yaml": {Data: []byte(platform)}, "b.yaml": {Data: text}}).Problems {
			if !p.Warning {
				return nil, &Refusal{p.String()}
			}
		}
		if len(loaded.Compiled()) != 1 {
			return nil, errors.New("no policy")
		}
		return loaded.Compiled()[0], nil
	}
}

// question returns an Input with at most four replicas and traffic of the preset profile for the given length. The function change can
// modify the profile of the traffic.
func question(t testing.TB, preset string, length time.Duration, change func(*trace.Profile)) Input {
	t.Helper()
	p, ok := trace.Preset(preset)
	if !ok {
		t.Fatalf("no preset %s", preset)
	}
	p.Duration, p.Seed, p.Rate = length, 1, 2
	if change != nil {
		change(&p)
	}
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	return Input{Compile: compiler(document(t, chat)), MaxReplicas: 4, SLOs: []evaluate.SLO{{Share: 0.99, Wait: 10 * time.Second}},
		Case: evaluate.Case{Traffic: tr, Service: simulator.Chat8B, Initial: evaluate.AutoInitial, ColdStart: time.Minute, Hourly: 2, Seed: 1}}
}

func searched(t testing.TB, in Input) *Result {
	t.Helper()
	r, err := Search(context.Background(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t testing.TB, r *Result) string {
	t.Helper()
	var out strings.Builder
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestImpossibleQuestionsAreRefusedWithTheReason(t *testing.T) {
	none := trace.NewLog(trace.Header{Name: "empty.csv"}, nil)
	one, err := tracefile.Read("one.csv", strings.NewReader("timestamp\n2026-11-02T00:00:00Z\n"), tracefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Input){
		"empty.csv has 0 requests in 0s: record": func(in *Input) { in.Case.Traffic = none },
		"one.csv has 1 request in 0s: record":    func(in *Input) { in.Case.Traffic = one },
		"no traffic":                             func(in *Input) { in.Case.Traffic = nil },
		"a budget of NaN":                        func(in *Input) { in.Budget = math.NaN() },
		"a budget of -1":                         func(in *Input) { in.Budget = -1 },
		"a budget of +Inf":                       func(in *Input) { in.Budget = math.Inf(1) },
		"a price of $0":                          func(in *Input) { in.Case.Hourly = 0 },
		"a price of $NaN":                        func(in *Input) { in.Case.Hourly = math.NaN() },
		"maxReplicas is 0: use at least 1":       func(in *Input) { in.MaxReplicas = 0 },
		"no SLO":                                 func(in *Input) { in.SLOs = nil },
		"an SLO of 30% of the requests":          func(in *Input) { in.SLOs[0].Share = 0.3 },
		"an SLO of NaN%":                         func(in *Input) { in.SLOs[0].Share = math.NaN() },
		"a wait of 2h0m0s":                       func(in *Input) { in.SLOs[0].Wait = 2 * time.Hour },
		"a cold start of -1s":                    func(in *Input) { in.Case.ColdStart = -time.Second },
	} {
		in := question(t, "flat", 10*time.Minute, nil)
		change(&in)
		if r, err := Search(context.Background(), in, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", r, err, want)
		}
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Search(stopped, question(t, "flat", time.Hour, nil), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a search with an ended context: %v", err)
	}
}

// The traffic needs more replicas than maxReplicas allows. The answer must name maxReplicas as the reason, and the candidate with the most
// requests on time.
func TestReasonNamesTheLimitThatPreventsTheSLO(t *testing.T) {
	in := question(t, "flat", 30*time.Minute, func(p *trace.Profile) { p.Rate = 6 })
	in.MaxReplicas = 2
	r := searched(t, in)
	why := r.Answers[0].Why
	if why == nil || why.Kind != ReasonMaxReplicas || why.Nearest == nil || r.Recommended != nil || r.SLO != -1 {
		t.Fatalf("two replicas for six requests a second: %+v, recommended %+v", why, r.Recommended)
	}
	if out := text(t, r); !strings.Contains(out, "99% within 10s is not attained: even with maxReplicas 2, at most ") ||
		!strings.Contains(out, "increase --max-replicas") || !strings.Contains(out, "No policy is recommended") {
		t.Error(out)
	}

	in = question(t, "flat", 30*time.Minute, nil)
	in.Case.Initial = 0
	in.Case.ColdStart = 5 * time.Minute
	why = searched(t, in).Answers[0].Why
	if why == nil || why.Kind != ReasonInitial || !strings.Contains(why.Text, "0 replicas (--initial)") {
		t.Errorf("a replay that begins with no replica: %+v", why)
	}

	in = question(t, "flat", 30*time.Minute, nil)
	in.Compile = func(Setting) (*policy.Compiled, error) {
		return nil, &Refusal{"maxReplicas is above the bound of the team"}
	}
	r = searched(t, in)
	if why := r.Answers[0].Why; why == nil || why.Kind != ReasonRefused || !strings.Contains(why.Text, "bound of the team") {
		t.Errorf("a policy that is refused: %+v", why)
	}
	if out := text(t, r); !strings.Contains(out, "minReplicas 4 is not valid") {
		t.Error(out)
	}

	in.Compile = func(Setting) (*policy.Compiled, error) { return nil, errors.New("disk full") }
	if _, err := Search(context.Background(), in, nil); err == nil || err.Error() != "disk full" {
		t.Errorf("a failure is not a refusal: %v", err)
	}
}

// Steady traffic needs a replica all the time, so a policy with minReplicas 0 saves nothing. The recommended minReplicas must be at least
// 1.
func TestFlatTraffic(t *testing.T) {
	r := searched(t, question(t, "flat", time.Hour, nil))
	best := r.Recommended
	if best == nil || best.AtZero > 0 || !(best.OnTime >= 0.99) || best.MinReplicas < 1 {
		t.Fatalf("%+v\n%s", best, text(t, r))
	}
	if least := r.Answers[0].Certificate.CostPerDay; !(least > 0 && least <= best.CostPerDay) || best.CostPerDay > 4*least {
		t.Errorf("$%v a day, and no policy below $%v", best.CostPerDay, least)
	}
}

// idle returns the answers for traffic with a pause of seventy minutes: the first answer is for a strict SLO, the second answer for an SLO
// that allows some late requests. The pause is short, because a policy with a strict objective may start a replica after an hour at zero.
// After a longer pause, this replica could by chance serve the next requests in time.
func idle(t testing.TB) *Result {
	t.Helper()
	in := question(t, "flat", 150*time.Minute, func(p *trace.Profile) {
		p.Idle = []trace.Hours{{From: 20 * time.Minute, To: 90 * time.Minute}}
	})
	in.SLOs = []evaluate.SLO{{Share: 0.999, Wait: 10 * time.Second}, {Share: 0.9, Wait: 10 * time.Second}}
	return searched(t, in)
}

// A target of zero in the idle time costs less, but the first requests after it are late. The less strict SLO allows this, and the strict
// SLO does not.
func TestTrafficWithAnIdleTimeIsCheapestAtZero(t *testing.T) {
	r := idle(t)
	strict, best := r.Answers[0].Cheapest, r.Answers[1].Cheapest
	if best == nil || best.MinReplicas != 0 || best.AtZero < 0.3 {
		t.Fatalf("%+v\n%s", best, text(t, r))
	}
	if strict == nil || strict.MinReplicas == 0 || strict.CostPerDay <= best.CostPerDay {
		t.Fatalf("%+v\n%s", strict, text(t, r))
	}
	if below := r.Answers[0].below(); below == nil || below.MinReplicas != r.Answers[0].Fewest().MinReplicas-1 {
		t.Errorf("the answer does not state what one warm replica less attains: %s", r.Answers[0].Sentence())
	}
}

// The SLOs are in the order of preference. The recommendation must be for the first SLO that can be attained within the budget.
func TestBudgetSelectsTheFirstSLOThatItPaysFor(t *testing.T) {
	free := idle(t)
	strict, loose := free.Answers[0].Cheapest.CostPerDay, free.Answers[1].Cheapest.CostPerDay
	for _, c := range []struct {
		name   string
		budget float64
		slo    int
	}{
		{"no limit", 0, 0},
		{"absurdly large", 1e300, 0},
		{"exactly the first", strict, 0},
		{"a cent below the first", strict - 0.01, 1},
		{"exactly the second", loose, 1},
		{"a cent below the second", loose - 0.01, -1},
		{"almost nothing", 1e-300, -1},
	} {
		r := withBudget(free, c.budget)
		if r.SLO != c.slo || (r.Recommended == nil) != (c.slo < 0) {
			t.Errorf("%s: recommended for %d, want %d\n%s", c.name, r.SLO, c.slo, text(t, r))
		}
		for i, cost := range []float64{strict, loose} {
			if within := c.budget == 0 || cost <= c.budget; within != (r.Answers[i].Why == nil) {
				t.Errorf("%s: SLO %d costs %v: %+v", c.name, i, cost, r.Answers[i].Why)
			}
		}
		if out := text(t, r); len(out) > 4000 {
			t.Errorf("%s: %d bytes of text\n%s", c.name, len(out), out)
		}
	}
}

// withBudget returns a copy of free, as if the search had run with the given budget.
func withBudget(free *Result, budget float64) *Result {
	r := *free
	r.Budget, r.Recommended, r.Answers = budget, nil, slices.Clone(free.Answers)
	r.choose()
	return &r
}

// The workload has a few requests an hour. Without a warm replica, each of them waits for a cold start, which is longer than the wait that
// the SLO allows.
func TestSparseTrafficNeedsAWarmReplicaIfTheColdStartIsLongerThanTheWait(t *testing.T) {
	in := question(t, "flat", 4*time.Hour, func(p *trace.Profile) { p.Rate = 4.0 / 3600 })
	r := searched(t, in)
	if best := r.Recommended; best == nil || best.MinReplicas < 1 || len(r.Warnings) < 2 {
		t.Fatalf("%+v\n%s", r.Recommended, text(t, r))
	}
	if f := r.Answers[0].Fleet; f == nil || f.MinReplicas != 1 || f.OnTime < 0.99 || f.CostPerDay >= r.Recommended.CostPerDay ||
		!strings.Contains(text(t, r), "a fixed number of 1 replica also attains it, for $") {
		t.Errorf("one fixed replica serves each of these requests, and costs less: %+v\n%s", f, text(t, r))
	}
	in.SLOs = []evaluate.SLO{{Share: 0.99, Wait: 5 * time.Minute}}
	if long := searched(t, in); long.Recommended == nil || long.Recommended.CostPerDay > r.Recommended.CostPerDay {
		t.Errorf("a wait of 5m costs more than one of 10s:\n%s", text(t, long))
	}
	// The budget is too small for a warm replica, so the answer must name the cold start.
	poor := withBudget(r, r.Recommended.CostPerDay-1)
	if why := poor.Answers[0].Why; why == nil || why.Kind != ReasonBudget || why.Nearest == nil || why.Nearest.MinReplicas != 0 ||
		!strings.Contains(why.Text, "because the cold start of 1m is longer than the wait") {
		t.Errorf("%+v\n%s", poor.Answers[0].Why, text(t, poor))
	}
}

func TestSameQuestionHasTheSameAnswer(t *testing.T) {
	in := question(t, "bursty", 20*time.Minute, nil)
	if a, b := text(t, searched(t, in)), text(t, searched(t, in)); a != b {
		t.Errorf("two searches differ:\n%s\n%s", a, b)
	}
}

// Every candidate is replayed with the policy that is printed for it, so a replay of the printed policy has the cost in the answer.
func TestPrintedPolicyCostsWhatTheAnswerSays(t *testing.T) {
	in := question(t, "diurnal", 40*time.Minute, nil)
	r := searched(t, in)
	printed, err := document(t, chat).With(r.Recommended.Setting())
	if err != nil {
		t.Fatal(err)
	}
	least := fmt.Sprintf("minReplicas: %d\n", r.Recommended.MinReplicas)
	for _, want := range []string{"# keep me", "objective: {", "wait: 10s", least} {
		if !strings.Contains(string(printed), want) {
			t.Errorf("%q is missing:\n%s", want, printed)
		}
	}
	if strings.Contains(string(printed), "deadline: ") {
		t.Errorf("the objective has two times:\n%s", printed)
	}
	again, c := document(t, string(printed)), in.Case
	if c.Policy, err = compiler(again)(r.Recommended.Setting()); err != nil {
		t.Fatal(err)
	}
	c.SLO = in.SLOs[0]
	report, err := evaluate.Workload(context.Background(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := &report.Runs[0]
	if perDay := 24 * run.Cost / c.Horizon().Hours(); perDay != r.Recommended.CostPerDay || run.OnTime != r.Recommended.OnTime {
		t.Errorf("a replay of the printed policy costs %v with %v on time, the answer contains %+v", perDay, run.OnTime, r.Recommended)
	}
}

func TestNewDocumentIsValidWithAWarmReplica(t *testing.T) {
	compile := compiler(NewDocument("team", "chat"))
	set := Setting{MinReplicas: 1, MaxReplicas: 3, Wait: 90 * time.Minute / 60, Percentile: 99.95}
	p, err := compile(set)
	if err != nil {
		t.Fatal(err)
	}
	o := p.Workload.Policy.Objective
	if o.Limit != set.Wait || o.Percentile != set.Percentile || p.Workload.Policy.MinReplicas != 1 || p.Workload.Policy.MaxReplicas != 3 {
		t.Errorf("%+v, %+v", p.Workload.Policy, o)
	}
	set.MinReplicas = 0
	if _, err := compile(set); !errors.As(err, new(*Refusal)) {
		t.Errorf("vLLM metrics do not exist at zero replicas: %v", err)
	}
	if _, err := FindDocument([]byte(chat), "team/other"); err == nil || !strings.Contains(err.Error(), "no ScalingPolicy team/other") {
		t.Errorf("%v", err)
	}
	if _, err := FindDocument([]byte("a: ["), "team/chat"); err == nil {
		t.Error("a file that is not YAML")
	}
}

func TestMinimums(t *testing.T) {
	if got := minimums(3); !reflect.DeepEqual(got, []int32{0, 1, 2, 3}) {
		t.Errorf("%v", got)
	}
	for highest := int32(1); highest < 3000; highest += 97 {
		got := minimums(highest)
		distinct := len(slices.Compact(slices.Clone(got))) == len(got)
		if !slices.IsSorted(got) || !distinct || got[0] != 0 || got[len(got)-1] != highest || len(got) > 40 {
			t.Errorf("maxReplicas %d: %v", highest, got)
		}
		if highest <= exhaustiveMax && len(got) != int(highest)+1 {
			t.Errorf("maxReplicas %d: %v has not all values", highest, got)
		}
	}
}

func TestPercentiles(t *testing.T) {
	for share, want := range map[float64][]float64{0.99: {99, 99.5}, 0.95: {95, 97.5}, 0.999: {99.9, 99.95}, 1: {99.99}, 0.5: {50, 75},
		0.9999: {99.99}} {
		if got := percentiles(share); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", share, got, want)
		}
	}
}

func TestMaxReplicasForCoversTheBusiestMinute(t *testing.T) {
	in := question(t, "flat", time.Hour, func(p *trace.Profile) { p.Rate = 0.01 })
	if got := MaxReplicasFor(&in.Case); got != 2 {
		t.Errorf("almost no traffic: %d", got)
	}
	in = question(t, "flat", 20*time.Minute, func(p *trace.Profile) { p.Rate = 8 })
	in.MaxReplicas = MaxReplicasFor(&in.Case)
	if r := searched(t, in); r.Recommended == nil || in.MaxReplicas > 12 {
		t.Errorf("maxReplicas %d:\n%s", in.MaxReplicas, text(t, r))
	}
}
