// Package objective tests a policy that has only an objective and bounds, with the real HPA. gpuscaler must learn the capacity of a
// replica, which no configuration contains, and keep it across restarts of the controller. The requests of a recorded hour arrive in real
// time. The exporter serves them with the ready pods, and reports arrivals, queue and requests in flight as a gateway and vLLM do.
package objective

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// lease is the lease duration of these tests. A busy machine can delay a leader for some seconds.
const lease = 10 * time.Second

var (
	suite controller.Suite
	// wholeHour is true if only the test of a whole hour runs, with the usual intervals of a cluster. All other tests have shorter
	// intervals.
	wholeHour = os.Getenv("GPUSCALER_E2E_LONG") != ""
)

// replayPolls is the interval of polls in the replay.
const replayPolls = 5 * time.Second

// Intervals of the stack. With GPUSCALER_E2E_LONG they are the defaults of Kubernetes and Prometheus Operator.
var hpaSync, scrapeInterval, pollInterval = 2 * time.Second, time.Second, time.Second

func TestMain(m *testing.M) {
	if wholeHour {
		hpaSync, scrapeInterval, pollInterval = 15*time.Second, 15*time.Second, replayPolls
	}
	os.Exit(suite.Run(m, controller.Setup{
		Stack:      stack.Options{HPASync: hpaSync, ScrapeInterval: scrapeInterval},
		Controller: controller.Options{Replicas: 2, LeaseDuration: lease},
		// nodes for gpuscaler and for the first replica; the tests add more nodes
		Prepare: func(ctx context.Context, s *stack.Stack) error {
			return errors.Join(s.Nodes(ctx, "system", 3, 0), s.Nodes(ctx, "first", 1, 1))
		},
		Platform: func(s *stack.Stack) string { return platform(s.Prometheus.URL, pollInterval) },
	}))
}

// platform returns the spec of the PlatformConfig of README.md, with the labels that a series has if its exporter is in another namespace.
func platform(prometheus string, interval time.Duration) string {
	return fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: "%s", interval: %s}
queries:
- {name: gateway-requests, source: prom, workloadLabel: inference_pool, namespaceLabel: exported_namespace,
   query: "sum by (exported_namespace, inference_pool) (rate(inference_objective_request_total[1m]))"}
- {name: gateway-queue, source: prom, workloadLabel: inference_pool, namespaceLabel: exported_namespace,
   query: "sum by (exported_namespace, inference_pool) (inference_extension_flow_control_queue_size)"}
`, prometheus, interval)
}

// policy is the spec of the policy of README.md: an objective, bounds, and signals without targets.
const policy = `
minReplicas: 1
maxReplicas: 16
objective: {wait: 10s, percentile: 99}
signals:
- {name: requests, type: prometheus, queryRef: gateway-requests, measures: arrivals}
- {name: gateway, type: prometheus, queryRef: gateway-queue, measures: queued}
- {name: running, type: vllm, metric: requestsRunning}
`
