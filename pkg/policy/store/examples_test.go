package store_test

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const examples = "../../../config/examples"

func TestTheShippedExamplesHaveNoProblems(t *testing.T) {
	if problems := store.Validate(examples); len(problems) > 0 {
		t.Errorf("%s", policy.Render(problems))
	}
}

func TestTheChatExampleCompilesAsDocumented(t *testing.T) {
	policies := store.New(store.Options{})
	policies.Load(examples)
	c := policies.Find(scaling.Key{Namespace: "team-chat", Name: "llama-chat"})
	if c == nil {
		t.Fatal("llama-chat is not in force")
	}
	p, w := c.Workload.Policy, c.Workload
	if w.Target != (scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "llama-chat"}) || w.Group != "chat" ||
		c.Team != "chat" || w.Mode != scaling.Auto {
		t.Errorf("workload = %+v, team %s", w, c.Team)
	}
	if p.MinReplicas != 0 || p.MaxReplicas != 12 || p.CooldownPeriod != 15*time.Minute {
		t.Errorf("bounds %d..%d, cooldown %s", p.MinReplicas, p.MaxReplicas, p.CooldownPeriod)
	}
	want := []scaling.Signal{
		{Name: "gateway", Type: "prometheus", Target: 10, MaxAge: 2 * time.Minute, MinCoverage: 0.8},
		{Name: "queue", Type: "vllm", Target: 10, MaxAge: 2 * time.Minute, MinCoverage: 0.8},
		{Name: "kv", Type: "vllm", Kind: scaling.Mean, Class: scaling.Utilization, Unit: scaling.Percent, Target: 0.8, MaxAge: 2 * time.Minute,
			MinCoverage: 0.8},
		{Name: "gpu", Type: "dcgm", Kind: scaling.Mean, Class: scaling.Utilization, Unit: scaling.Percent, Target: 0.85,
			MaxAge: 2 * time.Minute, MinCoverage: 0.8},
	}
	for i, s := range p.Signals {
		if s.Source == 0 {
			t.Errorf("signal %d has no Source", i)
		}
		if s.Source = 0; s != want[i] {
			t.Errorf("signal %d = %+v, want %+v", i, s, want[i])
		}
	}
	gateway := c.Sources[0]
	if gateway.DataSource != "prom" || gateway.WorkloadLabel != "inference_pool" || gateway.LabelValue != "" ||
		gateway.Query != `sum by (namespace, inference_pool) (inference_extension_flow_control_queue_size{cluster="prod-use1"})` {
		t.Errorf("gateway is read from %+v", gateway)
	}
	if len(p.Schedules) != 1 || p.Schedules[0].Min != 2 || p.Schedules[0].Max != -1 {
		t.Errorf("schedules = %+v", p.Schedules)
	}
	if p.Fallback != (scaling.Fallback{FailureThreshold: 3, Behavior: scaling.FallbackCurrentReplicasIfHigher}) {
		t.Errorf("fallback = %+v, want the platform's default", p.Fallback)
	}
}

func TestStagingExampleIsZeroAtNight(t *testing.T) {
	policies := store.New(store.Options{})
	policies.Load(examples)
	c := policies.Find(scaling.Key{Namespace: "team-chat", Name: "staging"})
	if c == nil {
		t.Fatal("staging is not in force")
	}
	if s := c.Workload.Policy.Schedules; len(s) != 2 || s[0].Max != 0 || s[1].Max != 0 || s[0].Min > 0 || s[1].Min > 0 {
		t.Errorf("schedules = %+v", s)
	}
}
