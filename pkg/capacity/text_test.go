package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// The test compares the message of every reason, finding and action with a golden file.
func TestTextsOfReasonsFindingsAndActions(t *testing.T) {
	zone := berlin(t)
	g := &Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"l40s-spot", Spot}, {"l40s-ondemand", OnDemand}}}
	at := time.Date(2026, 11, 23, 9, 19, 0, 0, time.UTC)
	unix := float64(at.Unix())
	var b strings.Builder
	for _, r := range []explain.Reason{
		{Rule: explain.RuleDemand, Pool: -1, A: 9, B: 8},
		{Rule: explain.RuleForeignEdit, Pool: 0, Name: "limits[nvidia.com/gpu]", A: 1, Until: at},
		{Rule: explain.RuleForeignEdit, Pool: 0, Name: "weight", A: 3, Until: at},
		{Rule: explain.RuleSchedule, Pool: -1, Name: "office", Until: at.In(zone)},
		{Rule: explain.RuleBase, Pool: 1, A: 2, B: 5},
		{Rule: explain.RuleFallback, Pool: 1, Cause: explain.CauseRefused, A: 4, B: 5, Until: at},
		{Rule: explain.RuleFallback, Pool: 1, Cause: explain.CauseLost, A: 3, B: 7, Until: at.Add(12 * time.Second)},
		{Rule: explain.RuleFallback, Pool: 1, Cause: explain.CauseSpotWaitTimeout, Until: at},
		{Rule: explain.RuleFallback, Pool: 1, Cause: explain.CauseProbe, Until: at},
		{Rule: explain.RuleFallback, Pool: 0, Cause: explain.CauseRefused},
		{Rule: explain.RuleFallback, Pool: 0, Cause: explain.CauseLimit},
		{Rule: explain.RuleFallback, Pool: 0, Cause: explain.CauseNotReady},
		{Rule: explain.RuleProbe, Pool: 0, A: 4, Until: at},
		{Rule: explain.RuleProbe, Pool: 0, Cause: explain.CauseRefused},
		{Rule: explain.RuleReturn, Pool: 1, A: 3, B: 4, Until: at},
		{Rule: explain.RuleReturn, Pool: 1, A: 1, B: 1},
		{Rule: explain.RuleReturn, Pool: 0, Cause: explain.CauseLimit, Name: "cpu", A: 2},
		{Rule: explain.RuleReturn, Pool: 4, Cause: explain.CauseLimit, Name: explain.StaticReplicas, A: 2},
		{Rule: explain.RuleMove, Pool: 0, Name: "team-chat/llama", A: 7, B: 6},
		{Rule: explain.RuleSpotWaitTimeout, Pool: 1, A: 2},
		{Rule: explain.RuleSpotWaitTimeout, Pool: 1, A: 2, Until: at},
		{Rule: explain.RuleZeroLimit, Pool: -1},
		{Rule: explain.RuleNoZeroLimit, Pool: -1, A: float64(explain.LiftedByDemand)},
		{Rule: explain.RuleNoZeroLimit, Pool: -1, A: float64(explain.LiftedByPendingPod)},
		{Rule: explain.RuleNoZeroLimit, Pool: -1, A: float64(explain.LiftedByUnknownDemand)},
		{Rule: explain.RuleNoZeroLimit, Pool: -1, A: float64(explain.LiftedByKnownDemand)},
		{Rule: explain.RuleNoZeroLimit, Pool: -1, A: float64(explain.LiftedByPods)},
		{Rule: explain.RuleNoZeroLimit, Pool: -1, A: float64(explain.NotLifted), Until: at},
		{Rule: explain.RuleConsolidationFreeze, Pool: 0, A: unix, Until: at.Add(time.Hour)},
		{Rule: explain.RuleConsolidationFreeze, Pool: 1, Until: at},
		{Rule: explain.RuleConsolidationFreeze, Pool: 1, B: 1, Until: at},
		{Rule: explain.RuleConsolidationFreeze, Pool: 1, B: 2, Until: at},
		{Rule: explain.RuleShield, Pool: -1, A: 1},
		{Rule: explain.RuleShield, Pool: -1, A: 2},
		{Rule: explain.RulePacking, Pool: -1, A: 1},
		{Rule: explain.RulePacking, Pool: -1, A: 3},
		{Rule: explain.RuleAtRisk, Pool: -1, A: 1, B: 2},
		{Rule: explain.RuleSurge, Pool: -1, Name: "team-chat/llama", Node: "ip-10-0-1-7", Cause: explain.CauseDrifted, Until: at},
		{Rule: explain.RuleSurge, Pool: -1, Name: "team-chat/llama", Node: "ip-10-0-1-7", Cause: explain.CauseDisrupted, Until: at},
		{Rule: explain.RuleSurge, Pool: -1, Name: "team-chat/llama", Node: "ip-10-0-1-7", Cause: explain.CauseDrifted, A: 1, Until: at},
		{Rule: explain.RuleSurge, Pool: -1, Name: "team-chat/llama", Node: "ip-10-0-1-7", Cause: explain.CauseDrifted, A: 2, Until: at},
		{Rule: explain.RuleConstrained, Pool: 0, Cause: explain.CauseRefused, A: 4, Until: at},
		{Rule: explain.RuleConstrained, Pool: 0, Cause: explain.CauseLimit, A: 1, Until: at},
		{Rule: explain.RuleConstrained, Pool: 0, Cause: explain.CauseLimit, Name: "memory", A: 1, Until: at},
		{Rule: explain.RuleConstrained, Pool: 0, Cause: explain.CauseNotReady, A: 1, Until: at},
		{Rule: explain.RuleConstrained, Pool: -1, Cause: explain.CauseQuota, A: 2},
		{Rule: explain.RuleConstrained, Pool: -1, Cause: explain.CauseInfeasible, A: 2},
		{Rule: explain.RuleBuffer, Pool: -1, A: 3, Until: at},
		{Rule: explain.RuleRelease, Pool: -1},
	} {
		b.WriteString(r.Rule.String() + ": " + r.Text(g.Names()) + "\n")
	}
	b.WriteString("\n")
	for kind := range explain.NumFindings {
		names := g.Names()
		if kind >= explain.FindNoNodes && kind <= explain.FindKeepNodes {
			names.Selector, names.MaxNodes = "accelerator=l40s", 8
		}
		b.WriteString(sampleFinding(kind, at).Text(names) + "\n")
	}
	for why := range explain.NumMoveBlockers {
		for _, n := range []int{1, 3} {
			b.WriteString(explain.Finding{Kind: explain.FindUnmovable, Pool: 1, Name: "team-chat/llama", Count: n,
				Blocker: why}.Text(g.Names()) + "\n")
		}
	}
	for _, f := range []explain.Finding{
		{Kind: explain.FindNotConsented, Pool: 0, Field: nodepool.FieldLimit, Resource: "nvidia.com/gpu", Rule: explain.RuleZeroLimit},
		{Kind: explain.FindUnsupported, Pool: -1, Rule: explain.RuleShield},
		{Kind: explain.FindUnsupported, Pool: -1, Rule: explain.RuleBuffer},
		{Kind: explain.FindBlockingPods, Pool: 0, Count: 1},
	} {
		b.WriteString(f.Text(g.Names()) + "\n")
	}
	b.WriteString("\n")
	for _, a := range []Action{
		NodePoolPatch{"l40s-spot", override.Patch{Changes: []override.Change{
			{Field: nodepool.FieldLimit, Resource: "nvidia.com/gpu", From: "16", To: `"4"`, Rule: explain.RuleProbe},
			{Field: nodepool.FieldConsolidateAfter, From: `"10m"`, To: `"Never"`, Rule: explain.RuleSchedule},
			{Field: nodepool.FieldWeight, From: "81", To: "", Restore: true},
		}}},
		NodePoolPatch{"l40s-spot", override.Patch{Record: "{}"}},
		PodAnnotation{Namespace: "team-chat", Name: "llama-1", Kind: DeletionCost, Value: lowestCost, Rule: explain.RuleMove},
		PodAnnotation{Namespace: "team-chat", Name: "llama-1", Kind: DoNotDisrupt, Rule: explain.RuleShield},
		Buffer{Workload: "team-chat/llama", Replicas: 1},
	} {
		b.WriteString(a.Text())
	}
	b.WriteString("\n")
	several := &Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []Pool{{"spot-a", Spot}, {"spot-b", Spot}, {"spot-c", Spot},
		{"ondemand-a", OnDemand}, {"ondemand-b", OnDemand}}}
	for _, r := range []explain.Reason{
		{Rule: explain.RuleBase, Pool: 3, A: 2, B: 1},
		{Rule: explain.RuleFallback, Pool: 3, Cause: explain.CauseRefused, A: 4, B: 5, Until: at},
		{Rule: explain.RuleFallback, Pool: 3, Cause: explain.CauseSpotWaitTimeout, Until: at},
		{Rule: explain.RuleFallback, Pool: 0, Cause: explain.CauseNotReady},
		{Rule: explain.RuleProbe, Pool: 1, A: 4, Until: at},
		{Rule: explain.RuleReturn, Pool: 3, A: 3, B: 4, Until: at},
		{Rule: explain.RuleReturn, Pool: 0, Cause: explain.CauseLimit, Name: "cpu", A: 2},
		{Rule: explain.RuleMove, Pool: 0, Name: "team-chat/llama", A: 7, B: 6},
		{Rule: explain.RuleSpotWaitTimeout, Pool: 4, A: 2, Until: at},
	} {
		b.WriteString(r.Rule.String() + ": " + r.Text(several.Names()) + "\n")
	}
	b.WriteString(explain.Finding{Kind: explain.FindWeights, Pool: 4, Name: "spot-b"}.Text(several.Names()) + "\n")
	for problem := explain.PoolNotReady; problem <= explain.PoolStatic; problem++ {
		b.WriteString(explain.Finding{Kind: explain.FindNoRoom, Pool: 1, Problem: problem}.Text(several.Names()) + "\n")
	}
	golden.Compare(t, "testdata/words.golden", b.String())
}

// sampleFinding returns a finding of a kind with a field and a rule that can occur together.
func sampleFinding(kind explain.FindingKind, at time.Time) explain.Finding {
	f := explain.Finding{Kind: kind, Pool: 1, Field: nodepool.FieldWeight, Rule: explain.RuleFallback, Count: 3, Until: at}
	switch kind {
	case explain.FindPermanentLimit:
		f.Field, f.Resource, f.Rule = nodepool.FieldLimit, "nvidia.com/gpu", explain.RuleSpotWaitTimeout
	case explain.FindUnreadable:
		f.Field, f.Rule = nodepool.FieldBudgets, explain.RuleConsolidationFreeze
	case explain.FindConsentWithdrawn:
		f.Name = "20"
	case explain.FindMixed, explain.FindNever, explain.FindZeroBudget, explain.FindDoNotDisrupt, explain.FindBlockingPods,
		explain.FindBuffered, explain.FindStaticIdle:
		f.Hourly = 5.58
	case explain.FindNoRoom:
		f.Problem = explain.PoolNotReady
	case explain.FindNewerRecord:
		f.Name = "/spec/template/spec/expireAfter"
	case explain.FindUnmovable, explain.FindForeignAnnotation, explain.FindClaims, explain.FindPendingClaims, explain.FindHeld,
		explain.FindGangSize:
		f.Name = "team-chat/llama"
	}
	return f
}

func TestEveryRuleAndFindingHasAText(t *testing.T) {
	g := &Group{Name: "chat"}
	for r := explain.RuleNone + 1; r < explain.NumRules; r++ {
		if r.String() == "" || (explain.Reason{Rule: r, Pool: -1}).Text(g.Names()) == "" {
			t.Errorf("the reason of rule %d has no text", r)
		}
	}
	for k := range explain.NumFindings {
		if (explain.Finding{Kind: k, Pool: -1}).Text(g.Names()) == "" {
			t.Errorf("finding %d has no text", k)
		}
	}
	if got := (nodepool.ConsentLimits | nodepool.ConsentDisruption).String(); got != "limits,disruption" {
		t.Error(got)
	}
}
