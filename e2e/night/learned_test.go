package night

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// promise is a policy with an objective. The exporter serves one value, which the policy reads as both arriving work and served work.
const promise = `
minReplicas: 2
maxReplicas: 2
objective: {wait: 10s, percentile: 99}
signals:
- {name: in, type: prometheus, metric: "vllm:num_requests_waiting", matchLabels: {model_name: llama}, measures: arrivals, maxAge: 10s}
- {name: out, type: prometheus, metric: "vllm:num_requests_waiting", matchLabels: {model_name: llama}, measures: served, maxAge: 10s}
`

// learnedCapacity returns the capacity of a replica in explain's output for a decision after the given time, or an error if there is no
// such decision.
func learnedCapacity(ctx context.Context, s controller.Workload, after time.Time) (float64, error) {
	e, err := suite.Explain(ctx, s.Policy())
	switch {
	case err != nil:
		return 0, err
	case !e.At.After(after):
		return 0, fmt.Errorf("decided at %s, not after %s", e.At, after)
	case e.Objective == nil || e.Objective.Capacity == nil:
		return 0, errors.New("no capacity was learned")
	}
	return e.Objective.Capacity.P50, nil
}

// The leader learns the capacity of a replica under load. It is killed when there is little load, so that the next leader cannot observe
// this capacity. The next leader must know it nevertheless.
func TestTheNextLeaderKnowsWhatTheKilledLeaderLearned(t *testing.T) {
	ns, load := suite.Namespace(t, "learned"), &exporter.Total{}
	load.Set(20)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	s := suite.Workload(t, workload.Deployment(ns, "chat", 2), promise)
	stack.Eventually(t, 2*time.Minute, "the capacity is learned: 20/s by 2 replicas", func(ctx context.Context) error {
		if c, err := learnedCapacity(ctx, s, time.Time{}); err != nil || c < 9.9 || c > 10.1 {
			return fmt.Errorf("capacity %v: %w", c, err)
		}
		return nil
	})
	load.Set(2)
	store := types.NamespacedName{Namespace: controller.Namespace, Name: controller.Name + "-learned"}
	stack.Eventually(t, 2*time.Minute, "what was learned is stored", func(ctx context.Context) error {
		var found corev1.ConfigMap
		if err := suite.Stack.Client.Get(ctx, store, &found); err != nil {
			return err
		}
		if found.BinaryData[ns+"_chat"] == nil {
			return fmt.Errorf("%s has %d documents, and none of %s", store, len(found.BinaryData), s.Policy())
		}
		return nil
	})
	old, killed := leader(t), time.Now()
	suite.Kubelet.Process(controller.Namespace, old.Name).Kill()
	if err := suite.Stack.Client.Delete(t.Context(), old, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, lease+afterLease, "the next leader explains the learned capacity", func(ctx context.Context) error {
		c, err := learnedCapacity(ctx, s, killed)
		if err == nil && (c < 9.9 || c > 10.1) {
			err = fmt.Errorf("capacity %v, want 10", c)
		}
		return errors.Join(ledByAnother(ctx, old.UID), err)
	})
	stack.Eventually(t, time.Minute, "two replicas again", suite.Ready(2))
}
