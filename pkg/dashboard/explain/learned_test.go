package explain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// The explanation of a policy with an objective must contain the SLO, the numbers of replicas by reason, and the learned values. For a
// signal without a target, it must contain the quantity that the signal measures.
func TestAnObjectiveIsExplained(t *testing.T) {
	s := explaintest.New(nil)
	s.Workload.Policy = &scaling.Policy{MinReplicas: 1, MaxReplicas: 12,
		Objective: &objective.Objective{Limit: 10 * time.Second, Percentile: 99},
		Signals: []scaling.Signal{{Name: "waiting", Type: "vllm", Measures: scaling.MeasureQueued, MaxAge: time.Minute},
			{Name: "requests", Type: "prometheus", Measures: scaling.MeasureArrivals, MaxAge: time.Minute},
			{Name: "gpu", Type: "dcgm", Kind: scaling.Mean, Measures: scaling.MeasureBusy, MaxAge: time.Minute}}}
	for range 120 {
		s.Measure(0, 3, 0.4)
		s.Tick(time.Second)
	}
	e := FromRecord(s.Record(), "")
	if e.Objective == nil || e.Objective.SLO != "99% within 10s (wait)" || len(e.Objective.Terms) == 0 || e.Objective.SafePolicy == "" {
		t.Fatalf("%+v", e.Objective)
	}
	var text strings.Builder
	if err := e.WriteText(&text, time.UTC); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"WHY         6 replicas: safe policy, because", "LEARNED     capacity",
		"cold start not observed yet", "none (queued)",
		"none (arrivals)"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// Each case is the explanation in a cluster in which replicas have started. Without Karpenter, the phases of the node's start are not
// known: they must be absent and not zero. They must also be absent if the replica started on an existing node with free GPUs.
func TestColdStartsAreExplainedByPhase(t *testing.T) {
	warm := planner.ReplicaStart{Scheduled: 1, Running: 3, Ready: 31}
	for name, starts := range map[string][]planner.ReplicaStart{
		"karpenter":     {explaintest.Karpenter(), warm, explaintest.Karpenter()},
		"cold-nodes":    {explaintest.WithoutKarpenter()},
		"warm-nodes":    {warm, warm},
		"unknown-times": {{Ready: 40}},
	} {
		e := FromRecord(explaintest.NewWithColdStarts(starts...).Record(), "prod")
		encoded, err := json.MarshalIndent(e.Objective, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, "testdata/coldstart-"+name+".txt", text(t, e)+string(encoded)+"\n")
	}
}

func TestLearnedAsText(t *testing.T) {
	known := objective.Learned{Capacity: objective.Distribution{P10: 1.1, P50: 1.2, P90: 1.3, Count: 412},
		ColdStart: objective.Distribution{P50: 71, P95: 118, Count: 9}, Attained: 0.993, Budget: 0.71, Observed: 48 * time.Hour}
	known.Phase[objective.ImagePull] = objective.Distribution{P50: 22, Count: 9}
	known.Phase[objective.ModelLoad] = objective.Distribution{P50: 31, Count: 9}
	noKarpenter := known
	known.Node = objective.Distribution{P50: 48, Count: 4}
	launched := known
	launched.ColdStart.Count = 1
	for p, s := range []float64{3, 31, 14} {
		launched.Phase[p] = objective.Distribution{P50: s, Count: 1}
	}
	bound := objective.Learned{Capacity: objective.Distribution{P50: 2}, Attained: 1, Budget: 1, Observed: 30 * time.Minute}
	tried := bound
	tried.Capacity = objective.Distribution{P10: 1.5, P50: 2}
	o := objective.Objective{Limit: 10 * time.Second, Percentile: 99}
	stated := o
	stated.Capacity, stated.ColdStart = 5, 90*time.Second
	for _, c := range []struct {
		learned objective.Learned
		o       objective.Objective
		want    string
	}{
		{known, o, "capacity 1.2/s per replica (p10 1.1, p90 1.3, 412 observations) | cold start p50 71s, p95 118s (node 48s, image 22s, " +
			"model 31s, 9 observations) | SLO 99.3% of the last 24h, late budget left 71%"},
		{launched, o, "capacity 1.2/s per replica (p10 1.1, p90 1.3, 412 observations) | cold start p50 71s, p95 118s (node 48s [launch 3s, " +
			"registration 31s, GPUs 14s], image 22s, model 31s, 1 observation) | SLO 99.3% of the last 24h, late budget left 71%"},
		{noKarpenter, o, "capacity 1.2/s per replica (p10 1.1, p90 1.3, 412 observations) | cold start p50 71s, p95 118s (image 22s, " +
			"model 31s, 9 observations) | SLO 99.3% of the last 24h, late budget left 71%"},
		{objective.Learned{}, o, "capacity per replica not known yet | cold start not observed yet | SLO not measured yet"},
		{bound, o, "capacity at least 2/s per replica (no replica was saturated yet) | cold start not observed yet | " +
			"SLO 100% of the last 30 minutes, late budget left 100%"},
		{tried, o, "capacity at least 1.5/s per replica, 2/s is tried (no replica was saturated yet) | cold start not observed yet | " +
			"SLO 100% of the last 30 minutes, late budget left 100%"},
		{objective.Learned{}, stated, "capacity 5/s per replica (from the policy) | cold start 90s (from the policy) | SLO not measured yet"},
	} {
		if got := LearnedText(&c.learned, &c.o); got != c.want {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}
