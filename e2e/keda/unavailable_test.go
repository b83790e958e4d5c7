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

// away ends gpuscaler as kill -9 does and keeps it away until the returned
// function is called.
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
	scaleTo(0) // or it would be back in a second
	away := true
	t.Cleanup(func() { // for the other tests, whatever became of this one
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

// one leaves one gpuscaler that serves, for the other tests, also after a test
// is over.
func one() {
	_ = suite.Stack.Client.Patch(context.Background(), suite.Deployment(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`)))
	_ = stack.Poll(context.Background(), time.Minute, suite.Ready(1))
}

// sooner has KEDA look at its triggers more often than every 30 s.
func sooner(manifest string) string {
	return strings.Replace(manifest, "\n  cooldownPeriod: 60\n", "\n  cooldownPeriod: 60\n  pollingInterval: 3\n", 1)
}

// No parallel test: everybody's gpuscaler goes away here.
func TestKilledInTheMiddleOfARiseAndOfAFallNobodyGoesDark(t *testing.T) {
	rising, falling, asleep, formula := place(t, "rising", 1), place(t, "falling", 1), place(t, "asleep", 0), place(t, "formula", 1)
	for _, s := range []*scaledWorkload{rising, falling, asleep, formula} {
		s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	}
	rising.follow(t, sooner(rising.manifest(t)))
	falling.follow(t, sooner(falling.manifest(t)))
	asleep.follow(t, sooner(asleep.manifest(t)))
	formula.follow(t, sooner(formula.manifest(t, "--formula")))

	rising.backlog(t, 25)
	falling.backlog(t, 75)
	formula.backlog(t, 35)
	stack.Eventually(t, 30*time.Second, "three", rising.has(3))
	stack.Eventually(t, 30*time.Second, "eight", falling.has(8))
	stack.Eventually(t, 30*time.Second, "four", formula.has(4))

	rising.backlog(t, 55) // under way when it dies
	falling.backlog(t, 45)
	time.Sleep(time.Second)
	killed := time.Now()
	back := away(t)
	// A stall before the kill, and 45 jobs are five replicas; an HPA that had read a number writes it a moment later.
	settled := time.Now().Add(3 * time.Second)
	rising.backlog(t, 230)
	falling.backlog(t, 1)
	formula.backlog(t, 55)
	asleep.backlog(t, 1)
	stack.Eventually(t, 40*time.Second, "the coarse mirror raises: 230 jobs at 40 a replica", rising.has(6))
	stack.Eventually(t, 40*time.Second, "the formula follows the list in full: 55 jobs at 10", formula.has(6))
	stack.Eventually(t, 40*time.Second, "the mirror wakes from zero", asleep.has(1))
	stack.Always(t, 5*time.Second, "and nothing falls", func(ctx context.Context) error {
		for _, s := range []*scaledWorkload{rising, falling, asleep} {
			if fall := s.course(t).Since(killed).Fall(); fall != nil && s != falling {
				return fmt.Errorf("%s fell to %d", s.ns, fall.N)
			}
		}
		return nil
	})
	gone := time.Now()
	back()
	for _, s := range []*scaledWorkload{rising, falling, formula, asleep} {
		course := s.course(t)
		n, _ := course.At(killed)
		for i, step := range course.Since(killed) {
			decided := s == falling && step.N >= 5 && step.At.Before(settled)
			if step.At.Before(gone) && i > 0 && step.N < n && !decided {
				t.Errorf("%d replicas when gpuscaler was killed, and %d while it was away: %v", n, step.N, course)
			}
			if decided {
				n = min(n, step.N)
			}
		}
	}
	stack.Eventually(t, 60*time.Second, "back, the number is exact again: 230 jobs at 10, at most 8", rising.has(8))
	stack.Eventually(t, 60*time.Second, "and what had to wait falls", falling.has(1))
}

// No parallel test: everybody's KEDA goes away here.
func TestKEDARestartedInTheMiddleOfARise(t *testing.T) {
	s := place(t, "restart", 1)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	s.backlog(t, 25)
	stack.Eventually(t, 30*time.Second, "three", s.has(3))
	killed := time.Now()
	keda.Kill()
	s.backlog(t, 55)
	stack.Always(t, 5*time.Second, "without KEDA everything stays", s.spec(3))
	if err := keda.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 60*time.Second, "with it the rise goes on", s.has(6))
	if fall := s.course(t).Since(killed).Fall(); fall != nil {
		t.Errorf("it fell to %d: %v", fall.N, s.course(t))
	}
}

// No parallel test: everybody's gpuscaler changes here. KEDA keeps one connection
// to whoever leads; it must find the next one, and nothing falls meanwhile.
func TestKEDAFindsTheNextLeader(t *testing.T) {
	s := place(t, "leaders", 1)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	s.backlog(t, 35)
	stack.Eventually(t, 30*time.Second, "four", s.has(4))
	patch(t, suite.Deployment(), map[string]any{"spec": map[string]any{"replicas": int64(2)}})
	t.Cleanup(one)
	stack.Eventually(t, time.Minute, "two gpuscalers, one of which leads", suite.Ready(2))
	first, err := suite.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	drained := time.Now()
	if err := suite.Stack.Client.Delete(t.Context(), first); err != nil { // as a drain does
		t.Fatal(err)
	}
	s.backlog(t, 65)
	stack.Eventually(t, 60*time.Second, "the next leader's number arrives", s.has(7))
	t.Logf("seven replicas %s after the leader was told to go", time.Since(drained).Round(100*time.Millisecond))
	if fall := s.course(t).Since(drained).Fall(); fall != nil {
		t.Errorf("it fell to %d: %v", fall.N, s.course(t))
	}
}
