package lint

import (
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestUnofferedResources(t *testing.T) {
	var policies []*policy.Compiled
	for name, group := range map[string]string{"mig": "chat", "shared": "chat", "whole": "chat", "without-a-group": ""} {
		policies = append(policies, &policy.Compiled{Workload: scaling.Workload{
			Key: scaling.Key{Namespace: "team-chat", Name: name}, Target: scaling.Target{Kind: "Deployment", Name: name}, Group: group,
		}})
	}
	needs := map[string][]string{"mig": {"nvidia.com/mig-1g.10gb"}, "shared": {"nvidia.com/gpu.shared"},
		"without-a-group": {"nvidia.com/mig-1g.10gb"}}
	found := UnofferedResources(policies, &policy.Platform{}, func(w *scaling.Workload) []string { return needs[w.Key.Name] },
		func(resource string) bool { return resource == "nvidia.com/gpu.shared" })
	if len(found) != 1 || found[0].About != "ScalingPolicy team-chat/mig" || found[0].Check != ResourceNotOffered ||
		found[0].Severity != Warning || !strings.Contains(found[0].What, "nvidia.com/mig-1g.10gb") {
		t.Errorf("%+v", found)
	}
}
