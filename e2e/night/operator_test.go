package night

import (
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

func TestPauseStopsScalingAndExplainNamesItsAuthor(t *testing.T) {
	t.Parallel()
	s, load := busy(t, "paused", 3)
	d := workload.Deployment(s.Namespace, s.Name, 0)
	annotate(t, d, "kubectl-annotate", "gpuscaler.io/paused", "true")
	paused := time.Now()
	stack.Eventually(t, time.Minute, "explain names the pause and its author", s.Explained(func(e explain.Explanation) error {
		if e.Operator == nil || !e.Operator.Paused || !strings.Contains(e.Operator.By, "kubectl-annotate") {
			return fmt.Errorf("operator %+v", e.Operator)
		}
		return nil
	}))
	load.Set(85)
	time.Sleep(4 * time.Second)
	load.Set(5)
	time.Sleep(5 * time.Second)
	still(t, s, paused)
	text, err := suite.CLI(t.Context(), "explain", s.Policy(), "--server", suite.PageURL())
	if err != nil || !strings.Contains(text, "paused") || !strings.Contains(text, "kubectl-annotate") {
		t.Errorf("explain says: %v\n%s", err, text)
	}

	annotate(t, d, "kubectl-annotate", "gpuscaler.io/paused", "")
	stack.Eventually(t, time.Minute, "the target is followed again", s.HasReplicas(1))
}

func TestOverrideRaisesTheMinimumUntilItsEndAndExplainNamesIt(t *testing.T) {
	t.Parallel()
	s, _ := busy(t, "override", 2)
	began := time.Now()
	end := began.Add(time.Minute).Truncate(time.Second)
	annotate(t, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: workload.HPA(s.Namespace, s.Name, 1).ObjectMeta},
		"night-shift", "gpuscaler.io/override", "min=6 until="+end.UTC().Format(time.RFC3339))
	stack.Eventually(t, time.Minute, "six replicas, and explain names the author and the end", s.Explained(func(e explain.Explanation) error {
		if e.Target != 6 || e.Operator == nil || !e.Operator.Until.Equal(end) || !strings.Contains(e.Operator.By, "night-shift") {
			return fmt.Errorf("%d, operator %+v", e.Target, e.Operator)
		}
		return nil
	}))
	stack.Eventually(t, time.Minute, "six replicas", s.HasReplicas(6))
	stack.Eventually(t, time.Until(end)+time.Minute, "two replicas after the end", s.HasReplicas(2))
	for _, step := range s.Targets(t) {
		if step.N == 2 && step.At.After(began) && step.At.Before(end) {
			t.Errorf("the replicas decreased at %s, before the end of the override at %s", step.At, end)
		}
	}
}

// annotate writes or removes an annotation with the given field manager.
func annotate(t *testing.T, object client.Object, who, name, value string) {
	t.Helper()
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, name, text)
	err := suite.Stack.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(who))
	if err != nil {
		t.Fatal(err)
	}
}
