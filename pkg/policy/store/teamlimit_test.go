package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// busyCluster simulates a cluster in which every workload needs 500 replicas, and each replica requests one GPU.
type busyCluster struct{ now time.Time }

func (c *busyCluster) Read(_ *scaling.Workload, out []scaling.Reading) {
	for i := range out {
		out[i] = scaling.Reading{Value: 5000, At: c.now, Coverage: 1, Reported: -1, Known: true}
	}
}

func (*busyCluster) View(*scaling.Workload) (engine.View, bool) {
	return engine.View{Replicas: 1, Ready: 1, GPUs: 1, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}, true
}

func (*busyCluster) Apply(context.Context, []engine.Change) error { return nil }

func (*busyCluster) Request(_ *scaling.Workload, resource string) (int64, bool, int64) {
	if resource == "nvidia.com/gpu" {
		return 1, true, 1
	}
	return 0, true, 0
}

func (*busyCluster) Unmanaged(*scaling.Team, []*scaling.Workload, string) int64 { return 0 }

// targets returns the sum of the served targets after ten simulated minutes with the policies of the store.
func targets(t *testing.T, s *store.Store) (sum int32) {
	t.Helper()
	c := &busyCluster{now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)}
	e := engine.New(s, c, c, engine.Options{})
	for range 600 {
		c.now = c.now.Add(time.Second)
		e.Tick(context.Background(), c.now)
	}
	for _, w := range s.Current() {
		served, err := e.Decisions().Lookup(w.Key, c.now)
		if err != nil {
			t.Fatal(err)
		}
		sum += served.Replicas
	}
	return sum
}

// Two policies of one team need 500 replicas each, and each replica requests one GPU. The sum of the targets must not exceed the GPU limit
// of the team.
func TestTheLimitOfATeamAppliesToServedTargets(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", simple("a", 500)+"---\n"+simple("b", 500))
	policies := store.New(store.Options{})
	for _, step := range []struct {
		platform string
		want     int32
	}{
		{"teams: [{name: chat, namespaces: [team-chat], limits: {nvidia.com/gpu: 4}}]", 4},
		{"teams: [{name: chat, namespaces: [team-chat], limits: {nvidia.com/gpu: 0}}]", 0},
		{"teams: [{name: chat, namespaces: [team-chat], limits: {nvidia.com/gpu: 7, nvidia.com/mig-1g.10gb: 1}}]", 7},
		{"teams: [{name: chat, namespaces: [team-chat], limits: {amd.com/gpu: 4}}]", 1000},
		{"teams: [{name: chat, namespaces: [team-chat]}]", 1000},
		{"teams: [{name: other, namespaces: [team-other], limits: {nvidia.com/gpu: 4}}]", 1000},
	} {
		f.write("p.yaml", platform(step.platform))
		if report := policies.Load(f.path); policy.Errors(report.Problems) > 0 {
			t.Fatalf("%s:\n%s", step.platform, policy.Render(report.Problems))
		}
		if got := targets(t, policies); got != step.want {
			t.Errorf("%s: %d replicas are served, want %d", step.platform, got, step.want)
		}
	}
}

func TestTheLimitOfATeamAppliesToALastValidVersion(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", simple("a", 500))
	f.write("p.yaml", platform("cluster: c"))
	policies := store.New(store.Options{})
	policies.Load(f.path)
	f.write("a.yaml", strings.Replace(simple("a", 500), "target: 10", "target: 0", 1))
	f.write("p.yaml", platform("teams: [{name: chat, namespaces: [team-chat], limits: {nvidia.com/gpu: 3}}]"))
	policies.Load(f.path)
	if st := state(policies, "ScalingPolicy team-chat/a"); st.State != store.LastValid {
		t.Fatalf("a is %+v", st)
	}
	if got := targets(t, policies); got != 3 {
		t.Errorf("%d replicas are served, want 3", got)
	}
}
