package mission

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// One workload with an HPA has a policy with a queue, GPU activity and a cron window as inputs. The test changes these inputs so that
// each of them determines the target once. Karpenter provides the nodes.
func TestQueueGPUActivityAndScheduleEachDetermineTheTarget(t *testing.T) {
	ns, gpus := suite.Namespace(t, "combined"), &exporter.Work{}
	suite.Export(t, workload.Metrics(ns, "chat", gpus))
	queue := jobs(t, "combined")
	opens := time.Now().UTC().Add(100 * time.Second).Truncate(time.Minute).Add(time.Minute)
	closes := opens.Add(time.Minute)
	s := suite.Workload(t, workload.Deployment(ns, "chat", 0), fmt.Sprintf(`
minReplicas: 0
maxReplicas: 12
cooldownPeriod: 3s
activate: true
capacityGroup: chat
signals:
- {name: queue, type: redis, source: jobs, listName: combined, target: 10}
- {name: gpu, type: dcgm, target: 70%%}
schedules:
- {name: office, timezone: UTC, start: "%d %d * * *", end: "%d %d * * *", minReplicas: 5}
behavior:
  scaleUp: {tolerance: 0, policies: [{type: Pods, value: 100, periodSeconds: 15}]}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 3}
`, opens.Minute(), opens.Hour(), closes.Minute(), closes.Hour()))
	stack.Eventually(t, time.Minute, "night: the target is 0", s.HasTarget(0))

	gpus.Set(1)
	queue(27)
	stack.Eventually(t, time.Minute, "27 jobs need three replicas", s.HasReplicas(3))
	stack.Eventually(t, time.Minute, "the queue determines the target", determinedBy(s, "queue", 3))
	stack.Eventually(t, time.Minute, "three spot nodes", nodes(3, 0))

	queue(4)
	gpus.Set(2.7)
	stack.Eventually(t, time.Minute, "2.7 GPUs of work at 70% need four replicas", s.HasReplicas(4))
	stack.Eventually(t, time.Minute, "the GPU activity determines the target", determinedBy(s, "gpu", 4))
	stack.Eventually(t, time.Minute, "four spot nodes", nodes(4, 0))
	if !time.Now().Before(opens) {
		t.Fatalf("the window opened at %s before the GPU activity was tested", opens.Format("15:04"))
	}

	stack.Eventually(t, time.Until(opens)+time.Minute, "five replicas in the window", s.HasReplicas(5))
	scheduled := false
	for _, e := range s.Transitions(t) {
		scheduled = scheduled || e.Target == 5 && strings.Contains(e.Why, "schedule office")
	}
	if !scheduled {
		t.Error("no transition to 5 replicas names the schedule")
	}
	stack.Eventually(t, time.Minute, "five spot nodes", nodes(5, 0))

	queue(0)
	gpus.Set(0)
	stack.Eventually(t, max(time.Until(closes), 0)+2*time.Minute, "no replicas after the window", s.HasReplicas(0))
	stack.Eventually(t, 2*time.Minute, "no nodes", nodes(0, 0))
}

// determinedBy returns a check that one signal alone determines the target: it needs as many replicas as the target, every other signal
// needs fewer, and the explanation names it.
func determinedBy(s controller.Workload, signal string, target int32) func(context.Context) error {
	return s.Explained(func(e explain.Explanation) error {
		if e.Target != target || !strings.Contains(e.Why, signal) {
			return fmt.Errorf("target %d: %s", e.Target, e.Why)
		}
		for _, g := range e.Signals {
			if g.Recommends == nil || (g.Name == signal) != (*g.Recommends == target) || *g.Recommends > target {
				return fmt.Errorf("signals %+v", e.Signals)
			}
		}
		return nil
	})
}
