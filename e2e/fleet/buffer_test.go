package fleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// gpuscaler creates a CapacityBuffer for a group of labeled nodes before a schedule begins. The autoscaler reports in the status of the
// CapacityBuffer that no node has space for a replica. The target must then be capped at two replicas, one with a node and one that waits,
// and `gpuscaler explain` must show the autoscaler's report. Without the report, the full target must apply. The CapacityBuffer must be
// deleted when the schedule ends.
func TestInfeasibleBufferOfLabeledNodesCapsTheTarget(t *testing.T) {
	ns, load := suite.Namespace(t, "buffered"), &exporter.Knobs{}
	set := func(replicas int32) { load.Set(exporter.Values{Upstream: float64(replicas)*10 - 3}) }
	set(1)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	b200 := map[string]string{"accelerator": "b200"}
	nodes := &autoscaler{client: suite.Stack.Client, group: nodeGroup{name: "b200", labels: b200, gpus: 1, max: 4}}
	if err := nodes.client.Create(t.Context(), nodes.template()); err != nil {
		t.Fatal(err)
	}
	d := workload.Deployment(ns, "chat", 1)
	d.Spec.Template.Spec.NodeSelector = b200
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{stack.GPU: resource.MustParse("1")}
	from := time.Now().UTC().Truncate(time.Minute).Add(4 * time.Minute).Format("2006-01-02T15:04")
	policy := strings.Replace(chatPolicy, "capacityGroup: chat", "capacityGroup: buffered", 1)
	chat := suite.Workload(t, d, policy+fmt.Sprintf("schedules:\n- {name: peak, timezone: UTC, from: %q, until: \"2099-12-31\", "+
		"minReplicas: 3, leadTime: 1s}\n", from))
	stack.Eventually(t, time.Minute, "a replica runs", workload.HasReplicas(suite.Stack.Client, ns, "chat", 1))
	buffer := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpuscaler-chat"}}
	stack.Eventually(t, time.Minute, "a buffer for the two other replicas of the schedule", func(ctx context.Context) error {
		err := nodes.client.Get(ctx, client.ObjectKeyFromObject(buffer), buffer)
		if err == nil && (buffer.Spec.Replicas == nil || *buffer.Spec.Replicas != 2) {
			err = fmt.Errorf("replicas %v, want 2", buffer.Spec.Replicas)
		}
		return err
	})

	report := func(status metav1.ConditionStatus, reason string) {
		t.Helper()
		buffer.SetCondition(autoscalingv1beta1.ReadyForProvisioningCondition, metav1.ConditionTrue, "Resolved", "")
		buffer.SetCondition(autoscalingv1beta1.ProvisioningCondition, status, reason, "")
		if err := nodes.client.Status().Update(t.Context(), buffer); err != nil {
			t.Fatal(err)
		}
	}
	report(metav1.ConditionFalse, "Infeasible")
	stack.Eventually(t, time.Minute, "the report is read", chat.Explained(func(e explain.Explanation) error {
		for _, rule := range e.Rules {
			if rule.Name == "capacity" {
				return nil
			}
		}
		return fmt.Errorf("no cap in %+v", e.Rules)
	}))
	set(4)
	stack.Eventually(t, time.Minute, "the cap applies", func(context.Context) error {
		return chat.Explained(func(e explain.Explanation) error {
			if by := e.CappedBy; e.Target != 2 || by == nil || by.NodePools[0].Cause != "infeasible" ||
				!strings.Contains(e.Why, "its CapacityBuffer reports Infeasible") {
				return fmt.Errorf("target %d: %s (%+v)", e.Target, e.Why, e.CappedBy)
			}
			return nil
		})(t.Context())
	})
	if err := nodes.client.Get(t.Context(), client.ObjectKeyFromObject(buffer), buffer); err != nil {
		t.Fatal(err)
	}
	report(metav1.ConditionFalse, "RequiresNewCapacity")
	stack.Eventually(t, time.Minute, "the full target", chat.HasTarget(4))

	set(1)
	if err := suite.Policies.Put(chat.File(), controller.Policy(ns, "chat", policy)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "no buffer without the schedule", func(ctx context.Context) error {
		if err := nodes.client.Get(ctx, client.ObjectKeyFromObject(buffer), buffer); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the buffer exists: %w", err)
		}
		return nil
	})
}
