// Package fleet tests capacity groups whose nodes are found by their labels, in a cluster without Karpenter: the real API server, scheduler
// and HPA controller, gpuscaler with the roles that the chart grants for such groups in mode auto, and a scripted autoscaler of nodes.
package fleet

import (
	"context"
	"fmt"
	"os"
	"testing"

	"sigs.k8s.io/karpenter/pkg/apis"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

var suite controller.Suite

// groups contains the capacity groups of the PlatformConfig.
const groups = `
capacityGroups:
- {name: chat, resource: nvidia.com/gpu, nodeSelector: {accelerator: l40s}, maxNodes: 3, leadTime: 1m}
- {name: booked, resource: nvidia.com/gpu, nodeSelector: {accelerator: h100}, maxNodes: 4}
- {name: buffered, resource: nvidia.com/gpu, nodeSelector: {accelerator: b200}, maxNodes: 4, buffer: true, leadTime: 5m}
`

func TestMain(m *testing.M) {
	platform := map[string]any{}
	if err := yaml.Unmarshal([]byte(groups), &platform); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(suite.Run(m, controller.Setup{
		Nodes: 1, // a node for the pods of gpuscaler, which is not part of the group
		Controller: controller.Options{Values: map[string]any{"mode": "auto", "platform": platform,
			"karpenter": map[string]any{"capacityBuffers": true}}},
		Prepare: func(ctx context.Context, s *stack.Stack) error {
			for _, crd := range apis.CRDs { // installs the CRD of CapacityBuffers but not the CRD of NodePools
				if crd.Spec.Group != autoscalingv1beta1.Group {
					continue
				}
				if err := s.Client.Create(ctx, crd.DeepCopy()); err != nil {
					return err
				}
			}
			return nil
		},
		Platform: func(s *stack.Stack) string {
			return fmt.Sprintf(`
dataSources:
- {name: prom, type: prometheus, default: true, address: "%s", interval: 1s}
queries:
- name: gateway-queue
  source: prom
  query: sum by (exported_namespace, inference_pool) (inference_extension_flow_control_queue_size{namespace="gateway-system"})
  workloadLabel: inference_pool
  namespaceLabel: exported_namespace
%s`, s.Prometheus.URL, groups)
		},
	}))
}
