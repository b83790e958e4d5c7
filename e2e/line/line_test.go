// Package line shows the straight line on real components: exporter, Prometheus,
// gpuscaler, the aggregated API, the real HPA controller, a Deployment.
package line

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// shared is the stack of this package's tests, and gpuscaler in it; each test
// has its own namespace.
var (
	shared    *stack.Stack
	gpuscaler *controller.Controller
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if shared, err = stack.Up(ctx, stack.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.Stop()
	if err := up(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		shared.Keep()
		return 1
	}
	code := m.Run()
	if code != 0 {
		shared.Keep()
	}
	return code
}

func up(ctx context.Context) (err error) {
	if err := shared.Nodes(ctx, "gpu", 4, 8); err != nil {
		return err
	}
	if gpuscaler, err = controller.Up(ctx, shared, controller.Options{}); err != nil {
		return err
	}
	return gpuscaler.Policies.Put("platform", controller.Platform(`
dataSources:
- {name: prom, type: prometheus, default: true, address: "`+shared.Prometheus.URL+`", interval: 1s}
`))
}

const briskly = `
minReplicas: 1
maxReplicas: 24
signals:
- {name: queue, type: vllm, metric: requestsWaiting, target: 10, maxAge: 10s}
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 3}
`

func TestAQueueTakesADeploymentFromOneToFiveToTwo(t *testing.T) {
	ns := namespace(t, "queue")
	chat, load := workload.Deployment(ns, "chat", 1), &exporter.Total{}
	workload.Create(t, shared.Client, chat, workload.HPA(ns, "chat", 24))
	if _, err := exporter.Run(t.Context(), shared, workload.Metrics(chat, load)); err != nil {
		t.Fatal(err)
	}
	gpuscaler.Policies.Write(t, "queue", controller.Policy(ns, "chat", briskly))

	load.Set(47) // ten a replica
	stack.Eventually(t, 30*time.Second, "five replicas", workload.Has(shared.Client, ns, "chat", 5))
	e := explain(t, ns+"/chat")
	if e.Target != 5 || e.Signals[0].Asks == nil || *e.Signals[0].Asks != 5 {
		t.Errorf("explained as %+v", e)
	}
	if e.Follower == nil || e.Follower.Kind != "HorizontalPodAutoscaler" || !e.Follower.Exact {
		t.Errorf("the HPA that follows exactly is told as %+v", e.Follower)
	}

	load.Set(15)
	stack.Eventually(t, 30*time.Second, "two replicas", workload.Has(shared.Client, ns, "chat", 2))
	stack.Eventually(t, 10*time.Second, "explain says why", func(ctx context.Context) error {
		text, err := gpuscaler.CLI(ctx, "explain", ns+"/chat", "--server", gpuscaler.PageURL())
		for _, part := range []string{ns + "/chat  5 -> 2", "queue 15 asks for 1.5", "HorizontalPodAutoscaler chat wants 2: follows exactly"} {
			if err == nil && !strings.Contains(text, part) {
				err = fmt.Errorf("no %q in\n%s", part, text)
			}
		}
		return err
	})
}
