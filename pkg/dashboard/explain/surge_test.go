package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	reasons "github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// The explanation of a workload must name the node for which the capacity group adds a replica, and the cause. The explanations of other
// workloads must not contain this text.
func TestExplanationNamesTheNodeOfASurge(t *testing.T) {
	r := &engine.GroupRecord{Group: &capacity.Group{Name: "gpu"}}
	r.Reasons = []reasons.Reason{{Rule: reasons.RuleDemand, Name: "team/chat"}, {Rule: reasons.RuleSurge, Pool: -1, Name: "team/chat",
		Node: "node-7", Cause: reasons.CauseDrifted}}
	e := Explanation{Policy: "team/chat", At: time.Unix(1, 0), Served: Served, Surge: SurgeOf(r, "team/chat")}
	var text strings.Builder
	if err := e.WriteText(&text, time.UTC); err != nil || !strings.Contains(text.String(),
		"SURGE       Karpenter replaces node node-7, which has drifted: team/chat gets one more replica") {
		t.Errorf("%v: %s", err, text.String())
	}
	if other := SurgeOf(r, "team/other"); other != "" {
		t.Errorf("another workload: %q", other)
	}
}
