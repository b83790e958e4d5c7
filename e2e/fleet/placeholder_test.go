package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// The autoscaler must add a node for the placeholder pod that `gpuscaler manifests placeholder` prints, and a real replica must use this
// node at once. Placeholders have the lowest priority for which Cluster Autoscaler adds nodes. The test also shows that Cluster
// Autoscaler adds no node for a lower priority.
func TestPlaceholderAddsANodeThatAReplicaUses(t *testing.T) {
	ns, a100 := suite.Namespace(t, "placeholder"), map[string]string{"accelerator": "a100"}
	nodes := &autoscaler{client: suite.Stack.Client, group: nodeGroup{name: "a100", labels: a100, gpus: 1, max: 1}}
	go nodes.run(t.Context())
	chat := workload.Deployment(ns, "chat", 0)
	chat.Spec.Template.Spec.NodeSelector = a100
	lower := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "below-the-cutoff"}, Value: priorityCutoff - 1}
	expendable := workload.Deployment(ns, "expendable", 1)
	expendable.Spec.Template.Spec.NodeSelector, expendable.Spec.Template.Spec.PriorityClassName = a100, lower.Name
	workload.Create(t, suite.Stack.Client, chat, lower, expendable)
	hasNodes := func(want int) func(context.Context) error {
		return func(context.Context) error {
			if n := nodes.greatest(); n != want {
				return fmt.Errorf("%d nodes, want %d", n, want)
			}
			return nil
		}
	}
	stack.Always(t, 10*scanInterval, "no node for a pod below the cutoff", hasNodes(0))

	class, placeholder := workload.Placeholder(t, suite.Binary, chat)
	workload.Create(t, suite.Stack.Client, class, placeholder)
	workload.Scale(t, suite.Stack.Client, placeholder, 1)
	stack.Eventually(t, time.Minute, "a node for the placeholder", hasNodes(1))
	stack.Eventually(t, time.Minute, "the placeholder runs", workload.HasReplicas(suite.Stack.Client, ns, placeholder.GetName(), 1))
	workload.Scale(t, suite.Stack.Client, chat, 1)
	stack.Eventually(t, time.Minute, "the replica runs", workload.HasReplicas(suite.Stack.Client, ns, "chat", 1))
	if err := hasNodes(1)(t.Context()); err != nil {
		t.Errorf("the replica does not use the node of the placeholder: %v", err)
	}
}
