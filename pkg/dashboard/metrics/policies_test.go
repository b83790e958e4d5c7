package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// allOf is a collector that sends the metrics of several collectors.
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

func TestPolicyMetrics(t *testing.T) {
	s := explaintest.New(nil)
	s.Readings[2] = scaling.Reading{Cause: scaling.CauseForbidden, Reported: -1}
	s.Tick(0)
	c := allOf(NewPolicyCollectors(s.Engine.Decisions()))
	err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP gpuscaler_policy_degraded 1 while inputs are missing: the target can increase, it cannot decrease.
# TYPE gpuscaler_policy_degraded gauge
gpuscaler_policy_degraded{namespace="team-chat",policy="llama-chat"} 1
# HELP gpuscaler_signal_missing 1 while a signal cannot lower the target because its last poll returned no usable value, by cause.
# TYPE gpuscaler_signal_missing gauge
gpuscaler_signal_missing{cause="forbidden",namespace="team-chat",policy="llama-chat",signal="gpu",type="dcgm"} 1
# HELP gpuscaler_signal_value Newest value of a signal in its own unit (percentages as fractions); absent while it is unknown.
# TYPE gpuscaler_signal_value gauge
gpuscaler_signal_value{namespace="team-chat",policy="llama-chat",signal="gateway",type="prometheus"} 57
gpuscaler_signal_value{namespace="team-chat",policy="llama-chat",signal="kv",type="vllm"} 0.78
# HELP gpuscaler_target_replicas Target of the policy in replicas.
# TYPE gpuscaler_target_replicas gauge
gpuscaler_target_replicas{namespace="team-chat",policy="llama-chat"} 6
`), "gpuscaler_policy_degraded", "gpuscaler_signal_missing", "gpuscaler_signal_value", "gpuscaler_target_replicas")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// gpuscaler_target_replicas must have no series for a policy whose scale target does not exist or was deleted.
func TestUnseenTargetIsNoMetric(t *testing.T) {
	s := explaintest.New(nil)
	c := allOf(NewPolicyCollectors(s.Engine.Decisions()))
	expect := func(notFound string, targets int) {
		t.Helper()
		if err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP gpuscaler_policy_target_not_found 1 while the scale target of the policy is not in the cluster: no target is computed.
# TYPE gpuscaler_policy_target_not_found gauge
gpuscaler_policy_target_not_found{namespace="team-chat",policy="llama-chat"} `+notFound+"\n"),
			"gpuscaler_policy_target_not_found"); err != nil {
			t.Error(err)
		}
		if n := testutil.CollectAndCount(c, "gpuscaler_target_replicas"); n != targets {
			t.Errorf("%d series of gpuscaler_target_replicas, want %d", n, targets)
		}
	}
	s.Unseen = true
	s.Tick(0)
	expect("1", 0)
	s.Unseen = false
	s.Tick(time.Second)
	expect("0", 1)
	s.Unseen = true // an hour later the scale target is deleted
	s.Tick(time.Hour)
	expect("1", 0)
}

// If a policy was edited and the decision about the new version fails, no series may contain the target of the previous version.
func TestTargetOfThePreviousVersionIsNoMetric(t *testing.T) {
	s := explaintest.New(nil)
	s.Tick(0)
	p := *s.Workload.Policy
	p.MaxReplicas, s.Panics = 4, true
	s.Workload.Policy = &p
	s.Tick(time.Second)
	if n := testutil.CollectAndCount(allOf(NewPolicyCollectors(s.Engine.Decisions())), "gpuscaler_target_replicas"); n != 0 {
		t.Error("the target of the previous version is a metric")
	}
}

func TestCrashingReplicasAreAMetric(t *testing.T) {
	s := explaintest.New(nil)
	s.Replicas.Ready, s.Replicas.Crashing, s.Replicas.CrashingPod = s.Replicas.Ready-2, 2, "llama-chat-7d9f-x2x4z"
	s.Tick(0)
	err := testutil.CollectAndCompare(allOf(NewPolicyCollectors(s.Engine.Decisions())), strings.NewReader(`
# HELP gpuscaler_crashing_replicas Replicas that restart in a loop: they count neither as ready nor as loading.
# TYPE gpuscaler_crashing_replicas gauge
gpuscaler_crashing_replicas{namespace="team-chat",policy="llama-chat"} 2
`), "gpuscaler_crashing_replicas")
	if err != nil {
		t.Error(err)
	}
}

func TestRejectedReplicasAreAMetricWithTheQuota(t *testing.T) {
	s := explaintest.New(nil)
	s.Replicas.Rejected, s.Replicas.Rejection = 3, engine.Rejection{Kind: "ResourceQuota", Name: "gpus", Text: "exceeded quota: gpus"}
	s.Tick(0)
	collectors := allOf(NewPolicyCollectors(s.Engine.Decisions()))
	err := testutil.CollectAndCompare(collectors, strings.NewReader(`
# HELP gpuscaler_rejected_replicas Replicas whose pods the API server rejects, by the kind and name of the object that rejects them; `+
		`absent while it rejects none.
# TYPE gpuscaler_rejected_replicas gauge
gpuscaler_rejected_replicas{kind="ResourceQuota",name="gpus",namespace="team-chat",policy="llama-chat"} 3
`), "gpuscaler_rejected_replicas")
	if err != nil {
		t.Error(err)
	}
	s.Replicas.Rejected, s.Replicas.Rejection = 0, engine.Rejection{}
	s.Tick(time.Second)
	if n := testutil.CollectAndCount(collectors, "gpuscaler_rejected_replicas"); n != 0 {
		t.Error("the metric exists although no pod is rejected")
	}
}
