package line

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

func TestAQueueTakesADeploymentFromOneToFiveToTwo(t *testing.T) {
	t.Parallel()
	ns, load := scene.Space(t, "queue"), &exporter.Total{}
	scene.Export(t, workload.Metrics(ns, "chat", load))
	s := scene.Subject(t, workload.Deployment(ns, "chat", 1), `
maxReplicas: 24
signals:
- {name: queue, type: vllm, metric: requestsWaiting, target: 10}`+promptly)

	load.Set(47) // ten a replica
	stack.Eventually(t, 30*time.Second, "five replicas", s.Has(5))
	e := scene.Why(t, s.Policy())
	if e.Target != 5 || e.Signals[0].Asks == nil || *e.Signals[0].Asks != 5 {
		t.Errorf("explained as %+v", e)
	}
	if e.Follower == nil || e.Follower.Kind != "HorizontalPodAutoscaler" || !e.Follower.Exact {
		t.Errorf("the HPA that follows exactly is told as %+v", e.Follower)
	}

	load.Set(15)
	stack.Eventually(t, 30*time.Second, "two replicas", s.Has(2))
	stack.Eventually(t, 10*time.Second, "explain says why", func(ctx context.Context) error {
		text, err := scene.CLI(ctx, "explain", s.Policy(), "--server", scene.PageURL())
		for _, part := range []string{s.Policy(), "-> 2", "queue 15 asks for 1.5", "HPA      chat wants 2: follows exactly"} {
			if err == nil && !strings.Contains(text, part) {
				err = fmt.Errorf("no %q in\n%s", part, text)
			}
		}
		return err
	})
}
