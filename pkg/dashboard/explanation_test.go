package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var update = flag.Bool("update", false, "write the golden files anew")

var nine = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

var chatKey = scaling.Key{Namespace: "team-chat", Name: "llama-chat"}

// story is one chat service whose morning the tests tell.
type story struct {
	workload scaling.Workload
	view     engine.View
	readings []scaling.Reading
	engine   *engine.Engine
	now      time.Time
	unseen   bool   // the cluster does not show the target
	panics   bool   // deciding fails
	refusal  string // why an unseen target is not scaled
	log      bytes.Buffer
}

func newStory() *story {
	everyHour := func(hour uint64) calendar.Cron {
		const all = 1<<63 | (1<<60 - 1)
		return calendar.Cron{Minute: 1, Hour: 1 << hour, DayOfMonth: all, Month: all, DayOfWeek: all}
	}
	s := &story{now: nine, workload: scaling.Workload{
		Key: chatKey, Origin: "chat.yaml@3f1c", Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama-chat"},
		Policy: &scaling.Policy{
			Signals: []scaling.Signal{
				{Name: "gateway", Type: "prometheus", Target: 10, MaxAge: time.Minute, MinCoverage: 1},
				{Name: "kv", Type: "vllm", Kind: scaling.Mean, Class: scaling.Utilization, Unit: scaling.Percent, Target: 0.8, MaxAge: time.Minute, MinCoverage: 0.8},
				{Name: "gpu", Type: "dcgm", Kind: scaling.Mean, Class: scaling.Utilization, Unit: scaling.Percent, Target: 0.7, MaxAge: time.Minute, MinCoverage: 0.8},
			},
			MaxReplicas: 12, CooldownPeriod: 15 * time.Minute,
			ScaleDown: scaling.Direction{StabilizationWindow: 10 * time.Minute},
			Schedules: []scaling.Schedule{{Window: calendar.Window{Name: "office", Start: everyHour(8), End: everyHour(20)}, Min: 2, Max: -1}},
		},
	}}
	s.view = engine.View{Replicas: 6, Ready: 6, GPUs: 1, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator,
		ManagedHPA: engine.ManagedHPA{Kind: "HPA", Name: "keda-hpa-llama-chat", Desired: 6, Exact: true}}
	s.read(57, 0.78, 0.69)
	s.engine = engine.New(s, s, s, engine.Options{OnTransition: func(r engine.Record) {
		line, _ := json.Marshal(map[string]any{"msg": "transition", "explanation": Explain(r, "prod")})
		s.log.Write(append(line, '\n'))
	}})
	return s
}

func (s *story) read(queue, kv, gpu float64) {
	s.readings = nil
	for i, v := range []float64{queue, kv, gpu} {
		r := scaling.Reading{Value: v, At: s.now, Coverage: 1, Reported: s.view.Ready, Known: true}
		if i == 0 {
			r.Reported = -1
		}
		s.readings = append(s.readings, r)
	}
}

func (s *story) Current() []scaling.Workload                     { return []scaling.Workload{s.workload} }
func (s *story) Read(_ *scaling.Workload, out []scaling.Reading) { copy(out, s.readings) }
func (s *story) View(*scaling.Workload) (engine.View, bool) {
	if s.panics {
		panic("a defect in one workload")
	}
	return s.view, !s.unseen
}
func (s *story) Refusal(*scaling.Workload) string { return s.refusal }

func (s *story) Apply(context.Context, []engine.Change) error { return nil }
func (s *story) tick(after time.Duration) {
	s.now = s.now.Add(after)
	s.engine.Tick(context.Background(), s.now)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (accept it with -update):\n%s", path, got)
	}
}

func text(t *testing.T, e Explanation) string {
	t.Helper()
	var b strings.Builder
	if err := e.WriteText(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWhatPeopleReadOfAMorning(t *testing.T) {
	s := newStory()
	s.tick(0)
	// The queue grows, three replicas are on their way, and half of the GPU exporters fall silent.
	s.view.Replicas, s.view.Loading, s.view.Pending = 9, 2, 1
	s.now = s.now.Add(4 * time.Minute)
	s.read(87, 0.91, 0.72)
	s.readings[2].At, s.readings[2].Coverage, s.readings[2].Reported = nine, 0.5, 3
	s.tick(6 * time.Second)
	record, _ := s.engine.Decisions().Record(chatKey)
	golden(t, "rising.txt", text(t, Explain(record, "prod")))

	// Prometheus is gone, and a person steps in.
	s.readings[0] = scaling.Reading{Cause: scaling.CauseUnreachable, Failures: 7, Reported: -1}
	s.view.Operator = scaling.Operator{Min: 10, Max: -1, Until: nine.Add(3 * time.Hour)}
	s.view.OperatorBy = "kubectl-annotate at 09:05"
	s.view.ManagedHPA = engine.ManagedHPA{}
	s.tick(time.Second)
	record, _ = s.engine.Decisions().Record(chatKey)
	golden(t, "blind.txt", text(t, Explain(record, "prod")))
}

// Somebody mistyped a scaleTargetRef, or somebody deleted the Deployment: what people and machines read is no number.
func TestATargetThatIsNotSeenIsNamed(t *testing.T) {
	s := newStory()
	s.unseen = true
	s.tick(0)
	record, _ := s.engine.Decisions().Record(chatKey)
	e := Explain(record, "prod")
	golden(t, "unseen.txt", text(t, e))
	machine, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "unseen.json", string(machine)+"\n")
	var back Explanation
	if err := json.Unmarshal(machine, &back); err != nil || text(t, back) != text(t, e) || back.Line() != e.Line() {
		t.Errorf("over the wire (%v):\n%s", err, text(t, back))
	}
	unseen := func(want string) {
		t.Helper()
		if err := testutil.CollectAndCompare(allOf(NewCollectors(s.engine.Decisions())), strings.NewReader(`
# HELP gpuscaler_policy_target_not_found 1 while the cluster does not show the policy's target: nothing is decided.
# TYPE gpuscaler_policy_target_not_found gauge
gpuscaler_policy_target_not_found{namespace="team-chat",policy="llama-chat"} `+want+"\n"), "gpuscaler_policy_target_not_found"); err != nil {
			t.Error(err)
		}
	}
	unseen("1")
	if n := testutil.CollectAndCount(allOf(NewCollectors(s.engine.Decisions())), "gpuscaler_target_replicas"); n != 0 {
		t.Error("a target that is not known is a metric")
	}

	s.unseen = false
	s.tick(time.Second)
	unseen("0")
	s.unseen = true // deleted at night
	s.tick(time.Hour)
	unseen("1")
	record, _ = s.engine.Decisions().Record(chatKey)
	golden(t, "gone.txt", text(t, Explain(record, "prod")))
	if n := testutil.CollectAndCount(allOf(NewCollectors(s.engine.Decisions())), "gpuscaler_target_replicas"); n != 0 {
		t.Error("the target of a deleted workload is a metric")
	}
}

func TestALogAnswersForAnyMomentAcrossRestarts(t *testing.T) {
	s := newStory()
	s.tick(0)
	s.now = s.now.Add(time.Hour)
	s.read(87, 0.91, 0.72)
	s.tick(0)
	first := s.log.String()
	restarted := newStory() // another leader, whose memory starts later
	restarted.now = nine.Add(2 * time.Hour)
	restarted.read(20, 0.3, 0.2)
	restarted.tick(0)
	log := "I1120 09:00:00 not JSON at all\n[pod/gpuscaler-0] " + first + `{"msg":"transition","explanation":{}}` + "\n{broken\n" + restarted.log.String()

	for at, want := range map[time.Duration]int32{0: 6, 59 * time.Minute: 6, time.Hour: 9, 2 * time.Hour: 6, 9 * time.Hour: 6} {
		got, err := FromLog(strings.NewReader(log), nine.Add(at))
		if err != nil || len(got) != 1 || got[0].Target != want {
			t.Errorf("%s after nine: %+v, %v, want %d", at, got, err, want)
		}
	}
	if got, err := FromLog(strings.NewReader(log), nine.Add(-time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("before the log begins: %+v, %v", got, err)
	}
	live, _ := restarted.engine.Decisions().Record(chatKey)
	rebuilt, err := FromLog(strings.NewReader(log), time.Time{})
	if err != nil || text(t, rebuilt[0]) != text(t, Explain(live, "prod")) {
		t.Errorf("rebuilt from the log it reads differently (%v):\n%s\n%s", err, text(t, rebuilt[0]), text(t, Explain(live, "prod")))
	}
}

func TestTheAPIAnswersOnlyWhatItKnows(t *testing.T) {
	s := newStory()
	s.tick(0)
	mux := http.NewServeMux()
	now, standby := nine.Add(10*time.Second), false
	NewAPI(s.engine.Decisions(), Options{Cluster: "prod", Clock: func() time.Time { return now }, Standby: func() bool { return standby }}).Register(mux)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	code, body := get(ExplainPath + "team-chat/llama-chat")
	var e Explanation
	if err := json.Unmarshal([]byte(body), &e); code != 200 || err != nil {
		t.Fatalf("%d %v %s", code, err, body)
	}
	record, _ := s.engine.Decisions().Record(chatKey)
	if want := Explain(record, "prod"); !reflect.DeepEqual(text(t, e), text(t, want)) {
		t.Errorf("over the wire:\n%s\nwant\n%s", text(t, e), text(t, want))
	}
	now = nine.Add(3 * time.Minute) // no tick has finished since
	if code, body := get(ExplainPath + "team-chat/llama-chat"); code != 200 || !strings.Contains(body, `"notDecided": "no current decision: the last decision is too old"`) {
		t.Errorf("three minutes after the last tick: %d %s", code, body)
	}
	for path, want := range map[string]struct {
		code int
		says string
	}{
		ExplainPath + "team-chat/nobody":                                 {404, "no policy team-chat/nobody"},
		ExplainPath + "team-chat/llama-chat?at=then":                     {400, "want 09:04"},
		ExplainPath + "team-chat/llama-chat?at=09:01":                    {200, `"target": 6`},
		ExplainPath + "team-chat/llama-chat?at=10:01&zone=%2B01:00":      {200, `"target": 6`},
		ExplainPath + "team-chat/llama-chat?at=09:01&zone=Europe/Berlin": {404, "2026-11-20T09:01:00+01:00"},
		ExplainPath + "team-chat/llama-chat?at=1m&zone=Berlin":           {400, "Europe/Berlin"},
		ExplainPath + "team-chat/llama-chat?at=2026-11-20T08:00:00Z":     {404, "what is remembered begins at 2026-11-20T09:00:00Z. Memory begins when a process begins to lead, and is bounded"},
		ExplainPath + "team-chat/llama-chat?at=2026-11-20T07:00:00Z":     {404, "gpuscaler explain team-chat/llama-chat --at ... --from LOG"},
		ExplainPath + "team-chat/llama-chat?at=2026-11-20T09:00:00Z":     {200, `"target": 6`},
		WorkloadsPath:            {200, `"policy": "team-chat/llama-chat"`},
		WorkloadsPath + "?at=2m": {200, `"policy": "team-chat/llama-chat"`},
		WorkloadsPath + "?at=8h": {200, "[]"},
	} {
		if code, body := get(path); code != want.code || !strings.Contains(body, want.says) {
			t.Errorf("%s: %d %s\nwant %d with %q", path, code, body, want.code, want.says)
		}
	}
	api := NewAPI(s.engine.Decisions(), Options{Clock: func() time.Time { return now }})
	for _, c := range []struct {
		namespace, name, query, says string
		code                         int
	}{
		{"team-chat", "llama-chat", "", `"target": 6`, 200},
		{"team-chat", "llama-chat", "?at=8h", "--from", 404},
		{"team-chat", "nobody", "", "no policy team-chat/nobody", 404},
		{"team-chat", "", "", `"policy": "team-chat/llama-chat"`, 200},
		{"team-code", "", "", "[]", 200},
		{"", "", "", `"policy": "team-chat/llama-chat"`, 200},
	} {
		w := httptest.NewRecorder()
		api.Of(c.namespace, c.name).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+c.query, nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s/%s%s: %d %s\nwant %d with %q", c.namespace, c.name, c.query, w.Code, w.Body, c.code, c.says)
		}
	}
	standby = true
	for _, path := range []string{WorkloadsPath, ExplainPath + "team-chat/llama-chat", ExplainPath + "team-chat/nobody?at=09:01"} {
		if code, body := get(path); code != 503 || !strings.Contains(body, "gpuscaler.io/leader=true") {
			t.Errorf("a standby, %s: %d %s", path, code, body)
		}
	}
}

func TestMetricsSayWhatTheBoardSays(t *testing.T) {
	s := newStory()
	s.readings[2] = scaling.Reading{Cause: scaling.CauseEmpty, Reported: -1}
	s.tick(0)
	c := allOf(NewCollectors(s.engine.Decisions()))
	err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP gpuscaler_policy_degraded 1 while the policy decides on missing inputs: it may raise, it cannot lower.
# TYPE gpuscaler_policy_degraded gauge
gpuscaler_policy_degraded{namespace="team-chat",policy="llama-chat"} 1
# HELP gpuscaler_signal_value Newest reading of a signal, in its own unit (percentages as fractions); absent while unknown.
# TYPE gpuscaler_signal_value gauge
gpuscaler_signal_value{namespace="team-chat",policy="llama-chat",signal="gateway",type="prometheus"} 57
gpuscaler_signal_value{namespace="team-chat",policy="llama-chat",signal="kv",type="vllm"} 0.78
# HELP gpuscaler_target_replicas Replicas that the policy wants.
# TYPE gpuscaler_target_replicas gauge
gpuscaler_target_replicas{namespace="team-chat",policy="llama-chat"} 6
`), "gpuscaler_policy_degraded", "gpuscaler_signal_value", "gpuscaler_target_replicas")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestNumbersAsPeopleReadThem(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{{87, "count", "87"}, {0.333333, "count", "0.333"}, {12345.6, "count", "12346"}, {0.915, "percent", "91.5%"}, {12.345, "percent", "1234%"}, {0, "percent", "0%"},
		{0.25, "seconds", "250ms"}, {90, "seconds", "1m30s"}} {
		if got := format(c.v, c.unit); got != c.want {
			t.Errorf("format(%v, %s) = %s, want %s", c.v, c.unit, got, c.want)
		}
	}
	for d, want := range map[time.Duration]string{6 * time.Second: "6s", 4*time.Minute + 9*time.Second: "4m", 90 * time.Minute: "1h30m"} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %s, want %s", d, got, want)
		}
	}
}

// A pause of KEDA's in one direction lasts as long as its annotation: a year 9999 would be read as a date that somebody chose.
func TestWhatHasNoEndShowsNone(t *testing.T) {
	o := operator(engine.View{Operator: scaling.Operator{Min: 5, Max: -1, Until: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}, OperatorBy: "autoscaling.keda.sh/paused-scale-in from kubectl"})
	if got, want := o.text(time.UTC), "min=5 by autoscaling.keda.sh/paused-scale-in from kubectl"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// allOf is several collectors as one.
type allOf []prometheus.Collector

func (a allOf) Describe(out chan<- *prometheus.Desc) {
	for _, c := range a {
		c.Describe(out)
	}
}

func (a allOf) Collect(out chan<- prometheus.Metric) {
	for _, c := range a {
		c.Collect(out)
	}
}

// Two replicas crash in a loop: a person sees it in explain, on the page and in the metrics, and it is not shown as loading.
func TestCrashingReplicasAreShown(t *testing.T) {
	s := newStory()
	s.view.Ready, s.view.Crashing, s.view.CrashingPod = s.view.Ready-2, 2, "llama-chat-7d9f-x2x4z"
	s.tick(0)
	record, _ := s.engine.Decisions().Record(chatKey)
	e := Explain(record, "prod")
	if got := text(t, e); !strings.Contains(got, "CRASHING    2 replicas restart in a loop") || !strings.Contains(got, "logs llama-chat-7d9f-x2x4z --previous") || !strings.Contains(got, "loading 0") {
		t.Errorf("explain does not show the crashing replicas:\n%s", got)
	}
	if j, err := json.Marshal(e); err != nil || !strings.Contains(string(j), `"crashing":2,"crashingPod":"llama-chat-7d9f-x2x4z"`) {
		t.Errorf("%v: %s", err, j)
	}
	if all := badges(&record, nil); len(all) != 1 || all[0].Word != "crashing" {
		t.Errorf("badges %+v", all)
	}
	err := testutil.CollectAndCompare(allOf(NewCollectors(s.engine.Decisions())), strings.NewReader(`
# HELP gpuscaler_crashing_replicas Replicas that restart in a loop: neither ready nor loading.
# TYPE gpuscaler_crashing_replicas gauge
gpuscaler_crashing_replicas{namespace="team-chat",policy="llama-chat"} 2
`), "gpuscaler_crashing_replicas")
	if err != nil {
		t.Error(err)
	}
}
