package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// The test compares the message of every reason, finding and action with a golden file.
func TestTextsOfReasonsFindingsAndActions(t *testing.T) {
	zone := berlin(t)
	g := &Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"l40s-spot", Spot}, {"l40s-ondemand", OnDemand}}}
	at := time.Date(2026, 11, 23, 9, 19, 0, 0, time.UTC)
	unix := float64(at.Unix())
	var b strings.Builder
	for _, r := range []Reason{
		{Rule: RuleDemand, Pool: -1, A: 9, B: 8},
		{Rule: RuleForeignEdit, Pool: 0, Name: "limits[nvidia.com/gpu]", A: 1, Until: at},
		{Rule: RuleForeignEdit, Pool: 0, Name: "weight", A: 3, Until: at},
		{Rule: RuleSchedule, Pool: -1, Name: "office", Until: at.In(zone)},
		{Rule: RuleBase, Pool: 1, A: 2, B: 5},
		{Rule: RuleFallback, Pool: 1, Cause: CauseRefused, A: 4, B: 5, Until: at},
		{Rule: RuleFallback, Pool: 1, Cause: CauseLost, A: 3, B: 7, Until: at.Add(12 * time.Second)},
		{Rule: RuleFallback, Pool: 1, Cause: CauseSpotWaitTimeout, Until: at},
		{Rule: RuleFallback, Pool: 1, Cause: CauseProbe, Until: at},
		{Rule: RuleFallback, Pool: 0, Cause: CauseRefused},
		{Rule: RuleFallback, Pool: 0, Cause: CauseLimit},
		{Rule: RuleFallback, Pool: 0, Cause: CauseNotReady},
		{Rule: RuleProbe, Pool: 0, A: 4, Until: at},
		{Rule: RuleProbe, Pool: 0, Cause: CauseRefused},
		{Rule: RuleReturn, Pool: 1, A: 3, B: 4, Until: at},
		{Rule: RuleReturn, Pool: 1, A: 1, B: 1},
		{Rule: RuleReturn, Pool: 0, Cause: CauseLimit, Name: "cpu", A: 2},
		{Rule: RuleMove, Pool: 0, Name: "team-chat/llama", A: 7, B: 6},
		{Rule: RuleSpotWaitTimeout, Pool: 1, A: 2},
		{Rule: RuleSpotWaitTimeout, Pool: 1, A: 2, Until: at},
		{Rule: RuleZeroLimit, Pool: -1},
		{Rule: RuleNoZeroLimit, Pool: -1, A: float64(LiftedByDemand)},
		{Rule: RuleNoZeroLimit, Pool: -1, A: float64(LiftedByPendingPod)},
		{Rule: RuleNoZeroLimit, Pool: -1, A: float64(LiftedByUnknownDemand)},
		{Rule: RuleNoZeroLimit, Pool: -1, A: float64(LiftedByKnownDemand)},
		{Rule: RuleNoZeroLimit, Pool: -1, A: float64(LiftedByPods)},
		{Rule: RuleNoZeroLimit, Pool: -1, A: float64(NotLifted), Until: at},
		{Rule: RuleConsolidationFreeze, Pool: 0, A: unix, Until: at.Add(time.Hour)},
		{Rule: RuleConsolidationFreeze, Pool: 1, Until: at},
		{Rule: RuleConsolidationFreeze, Pool: 1, B: 1, Until: at},
		{Rule: RuleConsolidationFreeze, Pool: 1, B: 2, Until: at},
		{Rule: RuleShield, Pool: -1, A: 1},
		{Rule: RuleShield, Pool: -1, A: 2},
		{Rule: RulePacking, Pool: -1, A: 1},
		{Rule: RulePacking, Pool: -1, A: 3},
		{Rule: RuleAtRisk, Pool: -1, A: 1, B: 2},
		{Rule: RuleConstrained, Pool: 0, Cause: CauseRefused, A: 4, Until: at},
		{Rule: RuleConstrained, Pool: 0, Cause: CauseLimit, A: 1, Until: at},
		{Rule: RuleConstrained, Pool: 0, Cause: CauseLimit, Name: "memory", A: 1, Until: at},
		{Rule: RuleConstrained, Pool: 0, Cause: CauseNotReady, A: 1, Until: at},
		{Rule: RuleConstrained, Pool: -1, Cause: CauseQuota, A: 2},
		{Rule: RuleBuffer, Pool: -1, A: 3, Until: at},
		{Rule: RuleRelease, Pool: -1},
	} {
		b.WriteString(r.Rule.String() + ": " + r.Text(g) + "\n")
	}
	b.WriteString("\n")
	for kind := range numFindings {
		b.WriteString(sampleFinding(kind, at).Text(g) + "\n")
	}
	for why := range numMoveBlockers {
		for _, n := range []int{1, 3} {
			b.WriteString(Finding{Kind: FindUnmovable, Pool: 1, Name: "team-chat/llama", Count: n, Blocker: why}.Text(g) + "\n")
		}
	}
	for _, f := range []Finding{
		{Kind: FindNotConsented, Pool: 0, Field: FieldLimit, Resource: "nvidia.com/gpu", Rule: RuleZeroLimit},
		{Kind: FindUnsupported, Pool: -1, Rule: RuleShield},
		{Kind: FindUnsupported, Pool: -1, Rule: RuleBuffer},
		{Kind: FindBlockingPods, Pool: 0, Count: 1},
	} {
		b.WriteString(f.Text(g) + "\n")
	}
	b.WriteString("\n")
	for _, a := range []Action{
		NodePoolPatch{Pool: "l40s-spot", Changes: []Change{
			{Field: FieldLimit, Resource: "nvidia.com/gpu", From: "16", To: `"4"`, Rule: RuleProbe},
			{Field: FieldConsolidateAfter, From: `"10m"`, To: `"Never"`, Rule: RuleSchedule},
			{Field: FieldWeight, From: "81", To: "", Restore: true},
		}},
		NodePoolPatch{Pool: "l40s-spot", Record: "{}"},
		PodAnnotation{Namespace: "team-chat", Name: "llama-1", Kind: DeletionCost, Value: lowestCost, Rule: RuleMove},
		PodAnnotation{Namespace: "team-chat", Name: "llama-1", Kind: DoNotDisrupt, Rule: RuleShield},
		Buffer{Workload: "team-chat/llama", Replicas: 1},
	} {
		b.WriteString(a.Text())
	}
	b.WriteString("\n")
	several := &Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"spot-a", Spot}, {"spot-b", Spot}, {"spot-c", Spot},
		{"ondemand-a", OnDemand}, {"ondemand-b", OnDemand}}}
	for _, r := range []Reason{
		{Rule: RuleBase, Pool: 3, A: 2, B: 1},
		{Rule: RuleFallback, Pool: 3, Cause: CauseRefused, A: 4, B: 5, Until: at},
		{Rule: RuleFallback, Pool: 3, Cause: CauseSpotWaitTimeout, Until: at},
		{Rule: RuleFallback, Pool: 0, Cause: CauseNotReady},
		{Rule: RuleProbe, Pool: 1, A: 4, Until: at},
		{Rule: RuleReturn, Pool: 3, A: 3, B: 4, Until: at},
		{Rule: RuleReturn, Pool: 0, Cause: CauseLimit, Name: "cpu", A: 2},
		{Rule: RuleMove, Pool: 0, Name: "team-chat/llama", A: 7, B: 6},
		{Rule: RuleSpotWaitTimeout, Pool: 4, A: 2, Until: at},
	} {
		b.WriteString(r.Rule.String() + ": " + r.Text(several) + "\n")
	}
	b.WriteString(Finding{Kind: FindWeights, Pool: 4, Name: "spot-b"}.Text(several) + "\n")
	for problem := PoolNotReady; problem <= PoolStatic; problem++ {
		b.WriteString(Finding{Kind: FindNoRoom, Pool: 1, Problem: problem}.Text(several) + "\n")
	}
	golden.Compare(t, "testdata/words.golden", b.String())
}

// sampleFinding returns a finding of a kind as it occurs: about the field, and caused by the rule, for which a group has it.
func sampleFinding(kind FindingKind, at time.Time) Finding {
	f := Finding{Kind: kind, Pool: 1, Field: FieldWeight, Rule: RuleFallback, Count: 3, Until: at}
	switch kind {
	case FindPermanentLimit:
		f.Field, f.Resource, f.Rule = FieldLimit, "nvidia.com/gpu", RuleSpotWaitTimeout
	case FindUnreadable:
		f.Field, f.Rule = FieldBudgets, RuleConsolidationFreeze
	case FindConsentWithdrawn:
		f.Name = "20"
	case FindMixed, FindNever, FindZeroBudget, FindDoNotDisrupt, FindBlockingPods, FindBuffered:
		f.Hourly = 5.58
	case FindNoRoom:
		f.Problem = PoolNotReady
	case FindUnmovable, FindForeignAnnotation, FindClaims, FindPendingClaims:
		f.Name = "team-chat/llama"
	}
	return f
}

func TestEveryRuleAndFindingHasAText(t *testing.T) {
	g := &Group{Name: "chat"}
	for r := RuleNone + 1; r < numRules; r++ {
		if r.String() == "" || (Reason{Rule: r, Pool: -1}).Text(g) == "" {
			t.Errorf("rule %d says nothing", r)
		}
	}
	for k := range numFindings {
		if (Finding{Kind: k, Pool: -1}).Text(g) == "" {
			t.Errorf("finding %d says nothing", k)
		}
	}
	if got := (ConsentLimits | ConsentDisruption).String(); got != "limits,disruption" {
		t.Error(got)
	}
}
