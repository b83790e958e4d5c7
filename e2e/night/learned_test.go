package night

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/learned"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// promise is a policy with an objective. The exporter serves one value, which the policy uses both as arriving work and as served work.
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

// storedCapacity returns the capacity of a replica in the stored model, which a new leader of gpuscaler would read. A model is stored at
// most once a minute, so that the first stored model can contain the capacity of a sample at the start of the load.
func storedCapacity(ctx context.Context, s controller.Workload) (float64, error) {
	store, err := learned.New(suite.Stack.Config, learned.Options{Namespace: controller.Namespace, ConfigMap: controller.Name + "-learned",
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		return 0, err
	}
	store.Load(ctx)
	saved, model := store.Recall(scaling.Key{Namespace: s.Namespace, Name: s.Name}), objective.New()
	if saved == nil {
		return 0, errors.New("no model is stored")
	}
	if err := model.UnmarshalBinary(saved.Data); err != nil {
		return 0, err
	}
	return model.Learned().Capacity.P50, nil
}

// The leader learns the capacity of a replica under load. The test kills the leader when there is little load, so that the next leader
// cannot observe this capacity. The next leader must nevertheless use the learned capacity.
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
	stack.Eventually(t, 3*time.Minute, "the learned capacity is stored", func(ctx context.Context) error {
		if c, err := storedCapacity(ctx, s); err != nil || c < 9.9 || c > 10.1 {
			return fmt.Errorf("capacity %v: %w", c, err)
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
