package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// MinimumsAboveLimit is the name of the check in the findings that TeamLimits returns.
const MinimumsAboveLimit = "MinReplicasAboveTeamLimit"

// Requests returns how much of a resource one replica of a workload requests. known is false if the pod template of the workload was not
// read.
type Requests func(w *scaling.Workload, resource string) (perReplica int64, known bool)

// TeamLimits returns a finding for each resource limit of a team that is too low for the minReplicas of the team's policies. This is the
// case if the sum of minReplicas times the requests of a replica exceeds the limit. Some of these replicas would never run, because
// gpuscaler applies the limit even below minReplicas.
//
// If the requests of a workload are unknown, TeamLimits assumes the least that a replica can request: 1 of the resource of its capacity
// group, and 0 of other resources.
func TeamLimits(policies []*policy.Compiled, platform *policy.Platform, requests Requests) (all []Finding) {
	for i := range platform.Teams {
		team := &platform.Teams[i]
		for _, resource := range sortedResources(team.Limits) {
			limit := team.Limits[resource]
			sum, exact, parts := minimums(policies, platform, team.Name, resource, requests)
			if sum <= limit {
				continue
			}
			least := ""
			if !exact {
				least = "at least "
			}
			all = append(all, Finding{Severity: Warning, Check: MinimumsAboveLimit, About: "PlatformConfig " + platform.Name + " team " + team.Name,
				What: fmt.Sprintf("minReplicas of the team's policies request %s%d %s, and the limit is %d: %s", least, sum, resource, limit,
					strings.Join(parts, ", ")),
				Why: fmt.Sprintf("the limit applies below minReplicas: replicas that request %s%d %s never run", least, sum-limit, resource),
				Fix: fmt.Sprintf("set limits.%s of the team to %d or more, or lower minReplicas", resource, sum)})
		}
	}
	return all
}

func sortedResources(limits map[string]int64) (names []string) {
	for name := range limits {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// minimums returns the sum of minReplicas times the requests of a replica over the policies of a team. parts contains a text for each
// policy. exact is false if the requests of a workload are unknown.
func minimums(policies []*policy.Compiled, platform *policy.Platform, team, resource string, requests Requests,
) (sum int64, exact bool, parts []string) {
	exact = true
	for _, c := range policies {
		w := &c.Workload
		if c.Team != team || w.Policy.MinReplicas == 0 {
			continue
		}
		each, known := requests(w, resource)
		if !known {
			exact = false
			if g := platform.Group(w.Group); g != nil && g.Resource == resource {
				each = 1
			}
		}
		if each > 0 {
			sum += int64(w.Policy.MinReplicas) * each
			parts = append(parts, fmt.Sprintf("%s %d x %d", w.Key, w.Policy.MinReplicas, each))
		}
	}
	return sum, exact, parts
}
