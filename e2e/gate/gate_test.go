// Package gate tests gpuscaler with a Karpenter that ignores CapacityBuffers: the CRD is installed, but Karpenter's feature gate for
// CapacityBuffers is off, which is the default.
package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

var suite controller.Suite

const nodePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu-spot}
spec:
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s}
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
`

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, controller.Setup{
		Controller: controller.Options{Values: map[string]any{"mode": "all", "karpenter": map[string]any{"capacityBuffers": true}}},
		Prepare: func(ctx context.Context, s *stack.Stack) error {
			if err := s.Nodes(ctx, "system", 1, 0); err != nil { // a node without GPUs for the pods of gpuscaler
				return err
			}
			_, err := karpenter.Start(ctx, s, karpenter.Options{
				InstanceTypes: []karpenter.InstanceType{{Name: "g6.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.32, "on-demand": 0.805}}},
			})
			if err != nil {
				return err
			}
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(nodePool), &u.Object); err != nil {
				return err
			}
			return s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("flux"))
		},
		Platform: func(*stack.Stack) string {
			return "capacityGroups:\n- {name: gpu, resource: nvidia.com/gpu, buffer: true, leadTime: 5m, nodePools: {spot: gpu-spot}}\n"
		},
	}))
}

// gpuscaler cannot read Karpenter's feature gate, so it creates a CapacityBuffer. If Karpenter does not set a condition on the buffer
// within a minute, gpuscaler must delete the buffer and must not create another buffer for an hour.
func TestIgnoredBufferIsDeletedAndNotCreatedAgain(t *testing.T) {
	ns := suite.Namespace(t, "gate")
	d := workload.Deployment(ns, "chat", 0)
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{stack.GPU: resource.MustParse("1")}
	workload.Create(t, suite.Stack.Client, d)
	from := time.Now().UTC().Truncate(time.Minute).Add(5 * time.Minute).Format("2006-01-02T15:04")
	suite.Policies.Write(t, "chat", controller.Policy(ns, "chat", fmt.Sprintf(`
minReplicas: 0
maxReplicas: 8
capacityGroup: gpu
schedules:
- {name: peak, timezone: UTC, from: %q, until: "2099-12-31", minReplicas: 2, leadTime: 1s}
`, from)))
	buffer := &unstructured.Unstructured{}
	buffer.SetAPIVersion("autoscaling.x-k8s.io/v1beta1")
	buffer.SetKind("CapacityBuffer")
	buffer.SetNamespace(ns)
	buffer.SetName("gpuscaler-chat")
	stack.Eventually(t, time.Minute, "gpuscaler creates a buffer", func(ctx context.Context) error {
		return suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(buffer), buffer)
	})
	if status := buffer.Object["status"]; status != nil {
		t.Fatalf("Karpenter processes the buffer, so its feature gate is on: %v", status)
	}
	none := func(ctx context.Context) error {
		if err := suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(buffer), buffer); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the buffer exists: %v (%w)", buffer.Object["spec"], err)
		}
		return nil
	}
	stack.Eventually(t, 2*time.Minute, "gpuscaler deletes the buffer", none)
	if log := suite.Log(); !strings.Contains(log, "its feature gate is probably off") || !strings.Contains(log,
		"FEATURE_GATES=CapacityBuffer=true") {
		t.Error("the log does not report that the gate is off and how to enable it")
	}
	stack.Eventually(t, time.Minute, "the group reports that buffers are unavailable", func(ctx context.Context) error {
		n, err := suite.Metric(ctx, "gpuscaler_group_finding", "group", "gpu", "finding", "unsupported")
		if err == nil && n != 1 {
			err = errors.New("no such finding")
		}
		return err
	})
	stack.Always(t, 30*time.Second, "no other buffer is created, and no node was launched for one", func(ctx context.Context) error {
		var claims v1.NodeClaimList
		if err := suite.Stack.Client.List(ctx, &claims); err != nil || len(claims.Items) > 0 {
			return fmt.Errorf("%d NodeClaims (%w)", len(claims.Items), err)
		}
		return none(ctx)
	})
}
