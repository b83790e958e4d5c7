package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// oneRecord is a PolicyReader with one record.
type oneRecord engine.Record

func (r *oneRecord) Keys() []scaling.Key { return []scaling.Key{r.Workload.Key} }
func (r *oneRecord) CopyRecord(_ scaling.Key, out *engine.Record) bool {
	*out = engine.Record(*r)
	return true
}

// The collectors must export the learned values of an objective. The metric of a value that was not learned must have no series.
func TestWhatWasLearnedIsExported(t *testing.T) {
	names := []string{"gpuscaler_learned_capacity", "gpuscaler_cold_start_seconds", "gpuscaler_slo_attained_ratio",
		"gpuscaler_late_budget_left_ratio", "gpuscaler_objective_safe_policy", "gpuscaler_objective_missing_replicas"}
	r := &oneRecord{At: time.Unix(1, 0), Workload: scaling.Workload{Key: scaling.Key{Namespace: "team-chat", Name: "llama"},
		Policy: &scaling.Policy{Objective: &objective.Objective{Percentile: 99}}}}
	c := allOf(NewPolicyCollectors(r))
	if n := testutil.CollectAndCount(c, names...); n != 0 {
		t.Errorf("%d series before anything was learned", n)
	}
	r.Learned = &objective.Learned{Capacity: objective.Distribution{P50: 1.2},
		ColdStart: objective.Distribution{P50: 70, P90: 100, P95: 110, Count: 3},
		Node:      objective.Distribution{P50: 40, P90: 60, P95: 65, Count: 2},
		Attained:  0.993, Budget: 0.3, Observed: time.Hour}
	r.Learned.Phase[objective.ImagePull] = objective.Distribution{P50: 20, P90: 25, P95: 26, Count: 3}
	r.Decision.Plan = &objective.Plan{Safe: objective.FeedbackFails}
	r.Decision.Plan.Added[objective.TermLimits] = -3
	if err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP gpuscaler_cold_start_seconds Quantiles of the observed cold starts; total: until the replica is ready; node: until it has one.
# TYPE gpuscaler_cold_start_seconds gauge
gpuscaler_cold_start_seconds{namespace="team-chat",phase="image pull",policy="llama",quantile="0.5"} 20
gpuscaler_cold_start_seconds{namespace="team-chat",phase="image pull",policy="llama",quantile="0.9"} 25
gpuscaler_cold_start_seconds{namespace="team-chat",phase="image pull",policy="llama",quantile="0.95"} 26
gpuscaler_cold_start_seconds{namespace="team-chat",phase="node",policy="llama",quantile="0.5"} 40
gpuscaler_cold_start_seconds{namespace="team-chat",phase="node",policy="llama",quantile="0.9"} 60
gpuscaler_cold_start_seconds{namespace="team-chat",phase="node",policy="llama",quantile="0.95"} 65
gpuscaler_cold_start_seconds{namespace="team-chat",phase="total",policy="llama",quantile="0.5"} 70
gpuscaler_cold_start_seconds{namespace="team-chat",phase="total",policy="llama",quantile="0.9"} 100
gpuscaler_cold_start_seconds{namespace="team-chat",phase="total",policy="llama",quantile="0.95"} 110
# HELP gpuscaler_learned_capacity Work per second that one replica serves, as learned for the objective of the policy (median).
# TYPE gpuscaler_learned_capacity gauge
gpuscaler_learned_capacity{namespace="team-chat",policy="llama"} 1.2
# HELP gpuscaler_objective_missing_replicas Replicas that the objective of the policy needs above its limits, such as maxReplicas.
# TYPE gpuscaler_objective_missing_replicas gauge
gpuscaler_objective_missing_replicas{namespace="team-chat",policy="llama"} 3
# HELP gpuscaler_slo_attained_ratio Share of the work that met the objective of the policy, over its window; absent until work was observed.
# TYPE gpuscaler_slo_attained_ratio gauge
gpuscaler_slo_attained_ratio{namespace="team-chat",policy="llama"} 0.993
`), names[0], names[1], names[2], names[5]); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(c, names...); n != 14 {
		t.Errorf("%d series, want 14", n)
	}
}
