package explain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
)

func text(t *testing.T, e Explanation) string {
	t.Helper()
	var b strings.Builder
	if err := e.WriteText(&b, time.UTC); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestExplanationAsText(t *testing.T) {
	s := explaintest.New(nil)
	s.Tick(0)
	s.ScaleUp()
	golden.Compare(t, "testdata/rising.txt", text(t, FromRecord(s.Record(), "prod")))

	// Prometheus is unreachable, and a user has set a minimum of ten replicas with an annotation.
	s.Readings[0] = scaling.Reading{Cause: scaling.CauseUnreachable, Failures: 7, Reported: -1}
	s.Replicas.Operator = scaling.Operator{Min: 10, Max: -1, Until: explaintest.Start.Add(3 * time.Hour)}
	s.Replicas.OperatorBy = "kubectl-annotate at 09:05"
	s.Replicas.ManagedHPA = engine.ManagedHPA{}
	s.Tick(time.Second)
	golden.Compare(t, "testdata/blind.txt", text(t, FromRecord(s.Record(), "prod")))
}

// The API server rejects a request with 403, Redis rejects the password, and the DCGM exporter refuses connections. The explanation
// contains each cause and the next step.
func TestRefusedSignalsAreExplainedWithTheirCauseAndTheNextStep(t *testing.T) {
	s := explaintest.New(nil)
	s.Workload.Policy.Signals[0].Type, s.Workload.Policy.Signals[1].Type = "external", "redis"
	s.Tick(0)
	s.Readings[0] = scaling.Reading{Cause: scaling.CauseForbidden, Failures: 7, Reported: -1}
	s.Readings[1] = scaling.Reading{Cause: scaling.CauseUnauthorized, Failures: 1, Reported: -1}
	s.Readings[2].Cause, s.Readings[2].Failures = scaling.CauseRefused, 4 // the reading keeps the sample of the last successful poll
	s.Tick(90 * time.Second)
	e := FromRecord(s.Record(), "prod")
	golden.Compare(t, "testdata/refused.txt", text(t, e))
	if got := e.Signals[0]; got.Cause != "forbidden" || !strings.Contains(got.NextStep, "readExternalMetrics") {
		t.Errorf("in JSON: %+v", got)
	}

	s.Measure(57, 0.78, 0.69)
	s.Readings[0].Cause, s.Readings[0].Failures = scaling.CauseTimeout, 1 // one poll failed, and the last sample is recent enough to be used
	s.Tick(time.Second)
	if got := FromRecord(s.Record(), "prod").Signals[0]; got.Cause != "" || got.NextStep != "" {
		t.Errorf("with a fresh sample: %+v", got)
	}
}

func TestEachCauseOfAMissingSignalHasANextStep(t *testing.T) {
	for cause := range scaling.Causes {
		for _, of := range []string{"prometheus", "redis", "external", "keda", "kueue", "dcgm", "vllm"} {
			step := nextStep(&scaling.Signal{Type: of}, cause, "team-chat")
			none := cause == scaling.CauseNone || cause == scaling.CauseNever
			if (step == "") != none || strings.Contains(step, "NAMESPACE") || strings.HasSuffix(step, ".") {
				t.Errorf("%s, cause %s: %q", of, cause.Label(), step)
			}
		}
	}
}

// If the scale target does not exist, for example because of a typing error in the scaleTargetRef, neither the text nor the JSON contains a
// target.
func TestUnseenTargetIsExplained(t *testing.T) {
	s := explaintest.New(nil)
	s.Unseen = true
	s.Tick(0)
	e := FromRecord(s.Record(), "prod")
	golden.Compare(t, "testdata/unseen.txt", text(t, e))
	encoded, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/unseen.json", string(encoded)+"\n")
	var decoded Explanation
	if err := json.Unmarshal(encoded, &decoded); err != nil || text(t, decoded) != text(t, e) || decoded.Line() != e.Line() {
		t.Errorf("decoded from JSON (%v):\n%s", err, text(t, decoded))
	}

	s.Unseen = false
	s.Tick(time.Second)
	s.Unseen = true // an hour later the scale target is deleted
	s.Tick(time.Hour)
	golden.Compare(t, "testdata/gone.txt", text(t, FromRecord(s.Record(), "prod")))
}

func TestLogExplainsEveryTimeAcrossRestarts(t *testing.T) {
	var log bytes.Buffer
	record := func(r engine.Record) {
		line, err := json.Marshal(map[string]any{"msg": "transition", "explanation": FromRecord(r, "prod")})
		if err != nil {
			t.Error(err)
		}
		log.Write(append(line, '\n'))
	}
	log.WriteString("I1120 09:00:00 not JSON\n[pod/gpuscaler-0] ")
	s := explaintest.New(record)
	s.Tick(0)
	s.Now = s.Now.Add(time.Hour)
	s.Measure(87, 0.91, 0.72)
	s.Tick(0)
	log.WriteString(`{"msg":"transition","explanation":{}}` + "\n{broken\n")
	restarted := explaintest.New(record) // a new leader, whose history begins later
	restarted.Now = explaintest.Start.Add(2 * time.Hour)
	restarted.Measure(20, 0.3, 0.2)
	restarted.Tick(0)

	fromLog := func(at time.Time) []Explanation {
		t.Helper()
		found, err := FromLog(strings.NewReader(log.String()), at)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for at, want := range map[time.Duration]int32{0: 6, 59 * time.Minute: 6, time.Hour: 9, 2 * time.Hour: 6, 9 * time.Hour: 6} {
		if got := fromLog(explaintest.Start.Add(at)); len(got) != 1 || got[0].Target != want {
			t.Errorf("%s after the start: %+v, want %d", at, got, want)
		}
	}
	if got := fromLog(explaintest.Start.Add(-time.Hour)); len(got) != 0 {
		t.Errorf("before the log begins: %+v", got)
	}
	live, rebuilt := text(t, FromRecord(restarted.Record(), "prod")), text(t, fromLog(time.Time{})[0])
	if rebuilt != live {
		t.Errorf("the explanation from the log differs:\n%s\n%s", rebuilt, live)
	}
}

func TestFormatValueAndShortDuration(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{87, "count", "87"}, {0.333333, "count", "0.333"}, {12345.6, "count", "12346"}, {0.915, "percent", "91.5%"}, {12.345, "percent", "1234%"},
		{0, "percent", "0%"}, {0.25, "seconds", "250ms"}, {90, "seconds", "1m30s"},
	} {
		if got := FormatValue(c.v, c.unit); got != c.want {
			t.Errorf("FormatValue(%v, %s) = %s, want %s", c.v, c.unit, got, c.want)
		}
	}
	for d, want := range map[time.Duration]string{6 * time.Second: "6s", 4*time.Minute + 9*time.Second: "4m", 90 * time.Minute: "1h30m"} {
		if got := ShortDuration(d); got != want {
			t.Errorf("ShortDuration(%v) = %s, want %s", d, got, want)
		}
	}
}

// KEDA's annotation paused-scale-in does not expire, so its end is the year 9999. The text must omit this date, because a reader would
// assume that a user chose it.
func TestOverrideWithoutEndShowsNoDate(t *testing.T) {
	o := NewOperator(engine.View{
		Operator:   scaling.Operator{Min: 5, Max: -1, Until: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)},
		OperatorBy: "autoscaling.keda.sh/paused-scale-in from kubectl",
	})
	if got, want := o.Text(time.UTC), "min=5 by autoscaling.keda.sh/paused-scale-in from kubectl"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCrashingReplicasAreExplained(t *testing.T) {
	s := explaintest.New(nil)
	s.Replicas.Ready, s.Replicas.Crashing, s.Replicas.CrashingPod = s.Replicas.Ready-2, 2, "llama-chat-7d9f-x2x4z"
	s.Tick(0)
	e := FromRecord(s.Record(), "prod")
	got := text(t, e)
	for _, part := range []string{"CRASHING    2 replicas restart in a loop", "logs llama-chat-7d9f-x2x4z --previous", "loading 0"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	if j, err := json.Marshal(e); err != nil || !strings.Contains(string(j), `"crashing":2,"crashingPod":"llama-chat-7d9f-x2x4z"`) {
		t.Errorf("%v: %s", err, j)
	}
}

// A capacity group caps the target. The text must contain the group, the NodePool, its limit, and the part of the limit that pods without a
// policy use. The JSON must contain the same numbers as fields.
func TestCapOfACapacityGroupIsExplained(t *testing.T) {
	s := explaintest.New(nil)
	s.Tick(0)
	r := s.Record()
	r.View.Advice = engine.Advice{Capped: true, Cap: 6, CapCause: &capcause.Cause{
		Group: "gpu", Resource: "nvidia.com/gpu", Until: explaintest.Start.Add(4 * time.Minute),
		Pools: []capcause.Pool{{Name: "gpu-spot", Kind: capcause.Limit, Limited: "nvidia.com/gpu", Limit: 8, Used: 8, Units: 8, Unmanaged: 2}},
	}}
	decide := func(queue float64) Explanation {
		r.Readings[0].Value = queue
		r.Decision, _ = scaling.Decide(r.Workload.Policy, r.Observation(), scaling.Seed(r.Workload.Policy, 6, r.At), r.At)
		return FromRecord(r, "prod")
	}
	e := decide(87)
	because := "capped at 6 by capacity group gpu until 09:04 UTC: NodePool gpu-spot is at its owner's limit of 8 GPUs, 2 of them used by " +
		"pods that no policy of the group manages"
	if want := "6 replicas: gateway 87 needs 9 replicas (target 10 per replica); " + because; e.Why != want {
		t.Errorf("%q\nwant %q", e.Why, want)
	}
	if got := text(t, e); strings.Count(got, because) != 2 {
		t.Errorf("want the cause in the line WHY and in the row of the rule:\n%s", got)
	}
	j, err := json.Marshal(e)
	want := `"cappedBy":{"group":"gpu","cap":6,"resource":"nvidia.com/gpu","until":"2026-11-20T09:04:00Z","nodePools":[` +
		`{"nodePool":"gpu-spot","cause":"limit","limited":"nvidia.com/gpu","limit":8,"used":8,"limitOf":"owner","units":8,"unmanaged":2}]}`
	if err != nil || !strings.Contains(string(j), want) {
		t.Errorf("%v, no %s in\n%s", err, want, j)
	}
	e = decide(45)
	if got := text(t, e); e.CappedBy != nil || strings.Contains(got, "gpu-spot") {
		t.Errorf("a target that is not capped shows the NodePools of the group:\n%s", got)
	}
}

// A capacity group selects nodes by labels, and the number of nodes has reached maxNodes. The JSON must name the labels instead of a
// NodePool.
func TestMaximumOfLabeledNodesIsExplained(t *testing.T) {
	s := explaintest.New(nil)
	s.Tick(0)
	r := s.Record()
	r.View.Advice = engine.Advice{Capped: true, Cap: 6}
	r.Decision.CapCause = &capcause.Cause{Group: "batch", Resource: "nvidia.com/gpu", Selector: "pool=a100", Pools: []capcause.Pool{
		{Name: "pool=a100", Kind: capcause.Maximum, Limited: "maxNodes", Limit: 4, Used: 4, Units: 32}}}
	j, err := json.Marshal(FromRecord(r, "prod").CappedBy)
	if want := `{"group":"batch","cap":6,"resource":"nvidia.com/gpu","nodePools":[{"nodeSelector":"pool=a100","cause":"maximum",` +
		`"limited":"maxNodes","limit":4,"used":4,"limitOf":"group","units":32,"unmanaged":0}]}`; err != nil || string(j) != want {
		t.Errorf("%v: %s\nwant %s", err, j, want)
	}
}

// A ResourceQuota rejects the pods of three replicas. The text must contain the name, the use and the limit of the quota, and the command
// that shows the quota.
func TestRejectedReplicasAreExplained(t *testing.T) {
	s := explaintest.New(nil)
	s.Replicas.Rejected, s.Replicas.Rejection = 3, engine.Rejection{Kind: "ResourceQuota", Name: "gpus",
		Text: "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4"}
	s.Tick(0)
	e := FromRecord(s.Record(), "prod")
	got := text(t, e)
	want := "REJECTED    ResourceQuota gpus rejects the pods of 3 replicas: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, " +
		"used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4; " +
		"raise the quota or lower maxReplicas: kubectl -n team-chat describe resourcequota gpus\n"
	if !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	encoded, err := json.Marshal(e)
	var decoded Explanation
	if err == nil {
		err = json.Unmarshal(encoded, &decoded)
	}
	if err != nil || decoded.Rejected != 3 || decoded.Rejection != e.Rejection {
		t.Errorf("%v: %s", err, encoded)
	}
	s.Replicas.Rejected, s.Replicas.Rejection = 0, engine.Rejection{}
	s.Tick(time.Second)
	if got := text(t, FromRecord(s.Record(), "prod")); strings.Contains(got, "REJECTED") {
		t.Errorf("no pod is rejected any more:\n%s", got)
	}
}
