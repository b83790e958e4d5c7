package karpenter_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// This test shows what Karpenter does without gpuscaler when spot has capacity again: it moves replicas to spot, unless the weights or the
// consolidation policy Balanced prevent that. gpuscaler's return to spot depends on this behavior.
func TestLongKarpenterReturnsToSpotUnlessWeightsOrBalancedPreventIt(t *testing.T) {
	if os.Getenv("GPUSCALER_E2E_LONG") == "" {
		t.Skip("Karpenter looks again at everything after 5 minutes: GPUSCALER_E2E_LONG=1, or make test-long")
	}
	t.Parallel()
	type pair struct {
		suite             string
		weight, spots     int64
		policy            string
		returns, oneByOne bool
	}
	pairs := []pair{
		{suite: "normal", weight: 20, spots: 80, policy: "WhenEmptyOrUnderutilized", returns: true, oneByOne: true},
		{suite: "swapped", weight: 80, spots: 20, policy: "WhenEmptyOrUnderutilized"},
		// no return expected: a spot node costs 0.60 of the on-demand price, so it saves too little
		{suite: "half", weight: 20, spots: 80, policy: "Balanced"},
		// a return is expected: a spot node costs 0.30 of the on-demand price
		{suite: "third", weight: 20, spots: 80, policy: "Balanced", returns: true},
	}
	for _, p := range pairs {
		demand := pool{name: p.suite + "-od", kind: "on-demand", weight: p.weight, by: serverSide, edit: func(spec map[string]any) {
			spec["disruption"].(map[string]any)["consolidationPolicy"] = p.policy
			spec["disruption"].(map[string]any)["budgets"] = []any{map[string]any{"nodes": "1"}}
		}}
		demand.create(t)
		workload.Scale(t, suite.Client, chat(t, p.suite, nil), 2)
	}
	for _, p := range pairs {
		stack.Eventually(t, 2*time.Minute, p.suite+": two on-demand nodes", nodesIn(p.suite, 0, 2))
	}
	deleting := map[string]int{}
	for _, p := range pairs {
		pool{name: p.suite + "-spot", kind: "spot", weight: p.spots, by: serverSide}.create(t)
	}
	// Karpenter evaluates all nodes again after 5 minutes without a change of the cluster. Here it can take longer, because other tests
	// change the cluster.
	const shortest, longest = 6 * time.Minute, 15 * time.Minute
	began, done := time.Now(), map[string]time.Duration{}
	waits := func() bool {
		return slices.ContainsFunc(pairs, func(p pair) bool { return p.returns && done[p.suite] == 0 }) && time.Since(began) < longest
	}
	for time.Since(began) < shortest || waits() {
		for _, p := range pairs {
			deleting[p.suite] = max(deleting[p.suite], leaving(t, p.suite+"-od"))
			if done[p.suite] == 0 && nodesIn(p.suite, 2, 0)(t.Context()) == nil {
				done[p.suite] = time.Since(began)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	for _, p := range pairs {
		switch at := done[p.suite]; {
		case p.returns && at == 0:
			t.Errorf("%s: not all nodes returned in %s: %v", p.suite, longest, nodesIn(p.suite, 2, 0)(t.Context()))
		case !p.returns && nodesIn(p.suite, 0, 2)(t.Context()) != nil:
			t.Errorf("%s: it moved: %v", p.suite, nodesIn(p.suite, 0, 2)(t.Context()))
		case p.returns:
			t.Logf("%s: both on spot after %s", p.suite, at.Round(time.Second))
		}
		if p.oneByOne && deleting[p.suite] != 1 {
			t.Errorf("%s: %d nodes were deleted at once", p.suite, deleting[p.suite])
		}
	}
}

// nodesIn returns a check of the NodeClaims with the label suite=of. There must be exactly `spot` initialized NodeClaims of the capacity
// type spot, and `onDemand` of the type on-demand.
func nodesIn(of string, spot, onDemand int) func(context.Context) error {
	return func(ctx context.Context) error {
		var claims v1.NodeClaimList
		if err := suite.Client.List(ctx, &claims, client.MatchingLabels{"suite": of}); err != nil {
			return err
		}
		have := map[string]int{}
		for _, c := range claims.Items {
			if c.StatusConditions().Get(v1.ConditionTypeInitialized).IsTrue() {
				have[c.Labels[v1.CapacityTypeLabelKey]]++
			}
		}
		if len(claims.Items) != spot+onDemand || have["spot"] != spot || have["on-demand"] != onDemand {
			return fmt.Errorf("%d NodeClaims, ready: %v", len(claims.Items), have)
		}
		return nil
	}
}

// leaving returns the number of terminating NodeClaims of a NodePool.
func leaving(t *testing.T, of string) (n int) {
	t.Helper()
	var claims v1.NodeClaimList
	if err := suite.Client.List(t.Context(), &claims, client.MatchingLabels{"karpenter.sh/nodepool": of}); err != nil {
		t.Fatal(err)
	}
	for _, c := range claims.Items {
		if c.DeletionTimestamp != nil {
			n++
		}
	}
	return n
}
