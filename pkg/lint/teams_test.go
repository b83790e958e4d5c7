package lint

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// gpuscaler applies a team's limit even below minReplicas. If the limit is below the requests of all minReplicas together, the linter must
// return a finding that contains the requests of each policy.
func TestMinReplicasAboveTheLimitOfATeam(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	policyOf := func(name, team, group string, minimum int32) *policy.Compiled {
		return &policy.Compiled{Team: team, Workload: scaling.Workload{
			Key: scaling.Key{Namespace: "team-" + team, Name: name}, Group: group, Policy: &scaling.Policy{MinReplicas: minimum, MaxReplicas: 100},
		}}
	}
	policies := []*policy.Compiled{policyOf("llama", "chat", "chat", 3), policyOf("small", "chat", "", 4), policyOf("idle", "chat", "chat", 0),
		policyOf("other", "embed", "chat", 50)}
	each := map[string]int64{"llama": 8, "small": 1, "idle": 8, "other": 1}
	platform := func(limit int64) *policy.Platform {
		return &policy.Platform{Name: "prod", Groups: []policy.Group{{Group: spec.Group{Name: "chat", Resource: gpu}}},
			Teams: []policy.Team{{Name: "chat", Limits: map[string]int64{gpu: limit, "amd.com/gpu": 0}}, {Name: "embed"}}}
	}
	known := func(w *scaling.Workload, resource string) (int64, bool) {
		if resource != gpu {
			return 0, true
		}
		return each[w.Key.Name], true
	}
	unknown := func(*scaling.Workload, string) (int64, bool) { return 0, false }
	for _, c := range []struct {
		name     string
		limit    int64
		requests Requests
		want     Finding
	}{
		{"at the limit", 28, known, Finding{}},
		{"above the limit", 27, known, Finding{
			What: "minReplicas of the team's policies request 28 nvidia.com/gpu, and the limit is 27: team-chat/llama 3 x 8, team-chat/small 4 x 1",
			Why:  "the limit applies below minReplicas: replicas that request 1 nvidia.com/gpu never run",
			Fix:  "set limits.nvidia.com/gpu of the team to 28 or more, or lower minReplicas"}},
		{"unknown requests within the limit", 3, unknown, Finding{}},
		{"unknown requests above the limit", 2, unknown, Finding{
			What: "minReplicas of the team's policies request at least 3 nvidia.com/gpu, and the limit is 2: team-chat/llama 3 x 1",
			Why:  "the limit applies below minReplicas: replicas that request at least 1 nvidia.com/gpu never run",
			Fix:  "set limits.nvidia.com/gpu of the team to 3 or more, or lower minReplicas"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := TeamLimits(policies, platform(c.limit), c.requests)
			if c.want == (Finding{}) {
				if len(all) != 0 {
					t.Errorf("got %+v", all)
				}
				return
			}
			c.want.Severity, c.want.Check, c.want.About = Warning, MinimumsAboveLimit, "PlatformConfig prod team chat"
			if len(all) != 1 || all[0] != c.want {
				t.Errorf("got %+v, want %+v", all, c.want)
			}
		})
	}
}
