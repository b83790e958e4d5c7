// Package line tests the whole path of a signal with real components: from the replicas' metrics through Prometheus, gpuscaler, the
// aggregated API and the real HPA controller to a Deployment.
package line

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const hpaSync = 2 * time.Second

// newGates enables the feature gates of autoscaling that are off in Kubernetes 1.36 and on by default in 1.37. The suites of the other
// packages run with the defaults of 1.36.
const newGates = "--feature-gates=HPAScaleToZero=true"

var (
	suite controller.Suite
	redis string // address of the data source "jobs"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	recording, err := record.NewRecording()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := suite.Run(m, controller.Setup{
		Stack: stack.Options{HPASync: hpaSync, APIServer: []string{newGates}, ControllerManager: []string{record.LogsSyncs, newGates}},
		Nodes: 16,
		Controller: controller.Options{Args: []string{"--record", recording.File()}, ActivateIn: []string{"jobs", "sharded"},
			ConfigMapsIn: []string{teamNamespace, statusNamespace}, PolicyStatusIn: []string{statusNamespace}},
		Prepare: func(ctx context.Context, s *stack.Stack) (err error) {
			redis, err = s.Redis(ctx)
			return err
		},
		After:    func(c *controller.Controller) error { return recording.Verify(c.Binary, 10, 0) },
		Platform: platform,
	})
	if code == 0 {
		recording.Close()
	}
	return code
}

// platform returns a PlatformConfig with the stack's Prometheus, Redis and direct scrapes as data sources. As in most clusters, the label
// namespace of a series is the namespace of the exporter, and exported_namespace is the namespace of the workload.
func platform(s *stack.Stack) string {
	return fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: "%s", interval: 1s}
- {name: jobs, type: redis, address: "%s", interval: 1s}
- {name: engines, type: scrape, profile: vllm, port: %d, interval: 1s}
queries:
- name: gateway-queue
  source: prom
  query: sum by (exported_namespace, inference_pool) (inference_extension_flow_control_queue_size{namespace="gateway-system"})
  workloadLabel: inference_pool
  namespaceLabel: exported_namespace
teams:
- {name: selfservice, namespaces: [%s], configMaps: true, bounds: {maxReplicas: 5}}
- {name: answered, namespaces: [%s], configMaps: true, policyStatus: true}
`, s.Prometheus.URL, redis, enginePort, teamNamespace, statusNamespace)
}

// enginePort is the port on which each replica of a workload serves its metrics.
const enginePort = 8000

// promptly is the behavior of the policies in these tests. It has no tolerance, and a target decreases when the signals have needed fewer
// replicas for three seconds.
const promptly = `
behavior:
  scaleUp: {tolerance: 0}
  scaleDown: {tolerance: 0, stabilizationWindowSeconds: 3}
`
