// Package mission tests the main promises of the project with the real binary, real signals and real time. Unused GPU capacity must be
// scaled to zero, and capacity must be ready before a scheduled window opens. If spot fails, on-demand must be used, and replicas must
// later return to spot at the configured pace. Every change must have a reason in the log.
package mission

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

var (
	suite controller.Suite
	redis string // address of the data source "jobs"
	cloud *karpenter.Karpenter
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	recording, err := record.NewRecording()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := suite.Run(m, controller.Setup{
		Controller: controller.Options{Values: map[string]any{"mode": "all"}, ActivateIn: []string{"mission", "combined", "quota", "limitrange"},
			Args: []string{"--record", recording.File()}},
		After: func(c *controller.Controller) error { return recording.Verify(c.Binary, 10, 10) },
		Prepare: func(ctx context.Context, s *stack.Stack) (err error) {
			if redis, err = s.Redis(ctx); err != nil {
				return err
			}
			if err := s.Nodes(ctx, "system", 1, 0); err != nil { // a node for the pods of gpuscaler
				return err
			}
			cloud, err = karpenter.Start(ctx, s, karpenter.Options{
				InstanceTypes:  []karpenter.InstanceType{{Name: "g6e.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.78, "on-demand": 1.861}}},
				UnavailableFor: 12 * time.Second, // longer than the 10 s between two launches of Karpenter, as is the value on AWS (3 minutes)
			})
			if err != nil {
				return err
			}
			for _, pool := range []string{nodePool("spot", 80), nodePool("on-demand", 20)} {
				u := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(pool), &u.Object); err != nil {
					return err
				}
				if err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("flux")); err != nil {
					return err
				}
			}
			return nil
		},
		Platform: func(s *stack.Stack) string {
			return fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: "%s", interval: 1s}
- {name: jobs, type: redis, address: "%s", interval: 1s}
capacityGroups:
- {name: chat, resource: nvidia.com/gpu, returnNodesPerHour: 240, nodePools: {spot: gpu-spot, on-demand: gpu-on-demand}}
`, s.Prometheus.URL, redis)
		},
	})
	if code == 0 {
		recording.Close()
	}
	return code
}

func nodePool(kind string, weight int) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu-%[1]s
  annotations: {gpuscaler.io/nudge: "limits,weight,disruption"}
spec:
  weight: %[2]d
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s, budgets: [{nodes: 100%%}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [%[1]s]}
`, kind, weight)
}
