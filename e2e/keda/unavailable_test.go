package keda

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// away makes gpuscaler unavailable: it kills the leader with SIGKILL and scales the Deployment to zero. The returned function starts
// gpuscaler again and waits until gpuscaler serves targets.
func away(t *testing.T) (back func()) {
	t.Helper()
	leader, err := suite.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	suite.Kubelet.Process(leader.Namespace, leader.Name).Kill()
	scaleTo := func(n int64) {
		patch(t, suite.Deployment(), map[string]any{"spec": map[string]any{"replicas": n}})
	}
	scaleTo(0) // otherwise the killed container would be restarted within a second
	away := true
	t.Cleanup(func() { // start gpuscaler for the other tests, even if this test fails
		if away {
			one()
		}
	})
	back = func() {
		away = false
		scaleTo(1)
		stack.Eventually(t, time.Minute, "gpuscaler serves again", func(ctx context.Context) error {
			if _, err := suite.Leader(ctx); err != nil {
				return err
			}
			return suite.Ready(1)(ctx)
		})
	}
	return back
}

// one scales gpuscaler's Deployment to one replica and waits until the replica is ready. Tests call it when they end, so that gpuscaler
// runs in the next test.
func one() {
	_ = suite.Stack.Client.Patch(context.Background(), suite.Deployment(),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`)))
	_ = stack.Poll(context.Background(), time.Minute, suite.Ready(1))
}

// sooner sets pollingInterval in a manifest to 3 s instead of KEDA's default of 30 s.
func sooner(manifest string) string {
	return strings.Replace(manifest, "\n  cooldownPeriod: 60\n", "\n  cooldownPeriod: 60\n  pollingInterval: 3\n", 1)
}

// This test is not parallel, because it stops the gpuscaler that all tests share.
func TestWorkloadsScaleUpWhileGpuscalerIsStopped(t *testing.T) {
	rising, falling, idle, formula := place(t, "rising", 1), place(t, "falling", 1), place(t, "idle", 0), place(t, "formula", 1)
	for _, s := range []*scaledWorkload{rising, falling, idle, formula} {
		s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	}
	rising.follow(t, sooner(rising.manifest(t)))
	falling.follow(t, sooner(falling.manifest(t)))
	idle.follow(t, sooner(idle.manifest(t)))
	formula.follow(t, sooner(formula.manifest(t, "--formula")))

	rising.backlog(t, 25)
	falling.backlog(t, 75)
	formula.backlog(t, 35)
	stack.Eventually(t, time.Minute, "three", rising.has(3))
	stack.Eventually(t, time.Minute, "eight", falling.has(8))
	stack.Eventually(t, time.Minute, "four", formula.has(4))

	rising.backlog(t, 55) // kill gpuscaler while the replicas increase
	falling.backlog(t, 45)
	time.Sleep(time.Second)
	killed := time.Now()
	back := away(t)
	// On a slow machine gpuscaler may have decreased the target of the workload "falling" to five, for 45 jobs, before it was killed. The
	// HPA may write that target up to three seconds later. Such a decrease is not an error.
	settled := time.Now().Add(3 * time.Second)
	rising.backlog(t, 230)
	falling.backlog(t, 1)
	formula.backlog(t, 55)
	idle.backlog(t, 1)
	stack.Eventually(t, time.Minute, "the trigger with the high target scales up: 230 jobs at 40 for each replica", rising.has(6))
	stack.Eventually(t, time.Minute, "the formula follows the list: 55 jobs at 10", formula.has(6))
	stack.Eventually(t, time.Minute, "the trigger with the high target scales from zero", idle.has(1))
	stack.Always(t, 5*time.Second, "no replicas decrease", func(ctx context.Context) error {
		for _, s := range []*scaledWorkload{rising, falling, idle} {
			if fall := s.course(t).Since(killed).Fall(); fall != nil && s != falling {
				return fmt.Errorf("%s fell to %d", s.ns, fall.N)
			}
		}
		return nil
	})
	gone := time.Now()
	back()
	for _, s := range []*scaledWorkload{rising, falling, formula, idle} {
		course := s.course(t)
		n, _ := course.At(killed)
		for i, step := range course.Since(killed) {
			decided := s == falling && step.N >= 5 && step.At.Before(settled)
			if step.At.Before(gone) && i > 0 && step.N < n && !decided {
				t.Errorf("%d replicas when gpuscaler was killed, and %d while it was stopped: %v", n, step.N, course)
			}
			if decided {
				n = min(n, step.N)
			}
		}
	}
	stack.Eventually(t, time.Minute, "the target is exact again: 230 jobs at 10, at most 8", rising.has(8))
	stack.Eventually(t, time.Minute, "the delayed decrease happens", falling.has(1))
}

// This test is not parallel, because it stops the KEDA that all tests share.
func TestKEDARestartDuringAnIncrease(t *testing.T) {
	s := place(t, "restart", 1)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	s.backlog(t, 25)
	stack.Eventually(t, time.Minute, "three", s.has(3))
	killed := time.Now()
	keda.Kill()
	s.backlog(t, 55)
	stack.Always(t, 5*time.Second, "without KEDA the replicas do not change", s.spec(3))
	if err := keda.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "with KEDA the increase continues", s.has(6))
	if fall := s.course(t).Since(killed).Fall(); fall != nil {
		t.Errorf("the replicas decreased to %d: %v", fall.N, s.course(t))
	}
}

// KEDA opens one connection to the leader and keeps it. After a change of the leader KEDA must connect to the next leader, and the replicas
// must not decrease during this time. This test is not parallel, because it deletes the leader that all tests use.
func TestKEDAFindsTheNextLeader(t *testing.T) {
	s := place(t, "leaders", 1)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	s.backlog(t, 35)
	stack.Eventually(t, time.Minute, "four", s.has(4))
	patch(t, suite.Deployment(), map[string]any{"spec": map[string]any{"replicas": int64(2)}})
	t.Cleanup(one)
	stack.Eventually(t, time.Minute, "two gpuscalers, one of which leads", suite.Ready(2))
	first, err := suite.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	drained := time.Now()
	if err := suite.Stack.Client.Delete(t.Context(), first); err != nil { // the pod is deleted, as in a drain of its node
		t.Fatal(err)
	}
	s.backlog(t, 65)
	stack.Eventually(t, time.Minute, "the next leader's target arrives", s.has(7))
	t.Logf("seven replicas %s after the leader was deleted", time.Since(drained).Round(100*time.Millisecond))
	if fall := s.course(t).Since(drained).Fall(); fall != nil {
		t.Errorf("the replicas decreased to %d: %v", fall.N, s.course(t))
	}
}
