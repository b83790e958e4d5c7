package objective

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
)

// One replica has more requests than it can serve, and for a minute the cluster has no free GPU. gpuscaler must learn the capacity of the
// replica in this time, and explain must name it. Then a rollout of gpuscaler and a crash of its leader follow. Each new leader must
// continue with the learned capacity, and the number of replicas must not decrease.
func TestCapacityIsLearnedAndSurvivesARolloutAndACrash(t *testing.T) {
	if wholeHour {
		t.Skip("the test of the whole hour has other intervals and includes this story")
	}
	const slots, service = 4, 2 * time.Second
	const truth = slots / 2.0 // requests per second
	requests, _ := hour(t, service)
	ns, load := suite.Namespace(t, "story"), serving(requests, slots, 1)
	suite.Export(t, workload.Metrics(ns, "chat", load))
	s := suite.Workload(t, workload.Deployment(ns, "chat", 1), policy)
	load.Begin(time.Now())

	checked := 0
	learned := func(ctx context.Context, after time.Time) error {
		time.Sleep(time.Second)
		e, err := read(ctx, s)
		if err != nil {
			return err
		}
		if err := errors.Join(e.sentence(), e.recordedState(load)); err != nil {
			t.Errorf("%s: %v", e.At.Format("15:04:05"), err)
		}
		checked++
		c := e.Objective.Capacity
		switch {
		case !e.At.After(after):
			return fmt.Errorf("decided at %s", e.At)
		case c == nil || c.Count == 0:
			return fmt.Errorf("not learned: %s", e.Objective.Learned)
		case truth < 0.9*c.P10 || truth > 1.1*c.P90:
			return fmt.Errorf("the capacity is %v: %s", truth, e.Objective.Learned)
		}
		t.Logf("%s | %s", e.Why, e.Objective.Learned)
		return nil
	}
	stack.Eventually(t, 3*time.Minute, "the capacity is learned", func(ctx context.Context) error { return learned(ctx, time.Time{}) })
	if err := suite.Stack.Nodes(t.Context(), "late", 2, 8); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 2*time.Minute, "the replicas are ready and serve the waiting requests", func(context.Context) error {
		if v := load.At(time.Now(), 0); v.Upstream > 0 {
			return fmt.Errorf("%v requests wait", v.Upstream)
		}
		return nil
	})

	began := time.Now()
	rollController(t)
	hasLearned := func(after time.Time) func(context.Context) error {
		return func(ctx context.Context) error { return learned(ctx, after) }
	}
	stack.Eventually(t, 2*time.Minute, "the new leader has the learned capacity", hasLearned(began))
	stack.Eventually(t, 2*time.Minute, "the next leader has the learned capacity", hasLearned(killLeader(t)))
	neverLowered(t, s, began)
	if checked < 20 {
		t.Errorf("only %d explanations were checked", checked)
	}
}

// neverLowered fails the test if the target or the Deployment's replicas have decreased since the given time.
func neverLowered(t *testing.T, s controller.Workload, since time.Time) {
	t.Helper()
	replicas, err := s.Replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if fall := replicas.Since(since).Fall(); fall != nil {
		t.Errorf("the Deployment's replicas decreased to %d at %s: %v", fall.N, fall.At, replicas)
	}
	if fall := s.Targets(t).Since(since).Fall(); fall != nil {
		t.Errorf("the target decreased to %d at %s", fall.N, fall.At)
	}
}

// rollController replaces both replicas of gpuscaler, as `kubectl rollout restart` does, and waits until another replica leads.
func rollController(t *testing.T) {
	t.Helper()
	old, err := suite.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, time.Now())
	change := client.RawPatch(types.MergePatchType, []byte(patch))
	if err := suite.Stack.Client.Patch(t.Context(), suite.Deployment(), change); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 2*time.Minute, "another replica leads", ledByAnother(old.Name))
}

// killLeader kills the process of the leader, deletes its pod, and waits until another replica leads. It returns the time of the kill.
func killLeader(t *testing.T) time.Time {
	t.Helper()
	stack.Eventually(t, 2*time.Minute, "two replicas of gpuscaler", suite.Ready(2))
	old, err := suite.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	suite.Kubelet.Process(controller.Namespace, old.Name).Kill()
	if err := suite.Stack.Client.Delete(t.Context(), old, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 2*time.Minute, "another replica leads", ledByAnother(old.Name))
	return killed
}

func ledByAnother(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := suite.Leader(ctx)
		if err == nil && pod.Name == name {
			err = fmt.Errorf("%s still leads", name)
		}
		return errors.Join(err, suite.Ready(2)(ctx))
	}
}
