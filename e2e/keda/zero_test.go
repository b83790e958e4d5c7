package keda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const jobsPolicy = `
minReplicas: 0
maxReplicas: 8
cooldownPeriod: 3s
signals:
- {name: backlog, type: redis, source: jobs, listName: %s, target: 10}` + promptly

// The worker of a queue must scale from zero to four replicas and back to zero, with the manifest that gpuscaler generates.
func TestFromZeroToManyToZero(t *testing.T) {
	t.Parallel()
	s := place(t, "zero", 0)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	s.backlog(t, 37)
	stack.Eventually(t, time.Minute, "four replicas for 37 jobs", s.has(4))
	s.backlog(t, 15)
	stack.Eventually(t, time.Minute, "two for 15", s.has(2))
	s.backlog(t, 0)
	stack.Eventually(t, 2*time.Minute, "no replicas for no jobs", s.has(0)) // KEDA checks only every 30 s whether it may scale to zero
	if got := s.course(t).Numbers(); !slices.Equal(got, []int32{0, 1, 4, 2, 1, 0}) {
		t.Errorf("the Deployment had %v", s.course(t))
	}
}

// activation contains two durations since a job was added to the Redis list: the field total until the Deployment has one replica, and
// the field decided until gpuscaler's target is one.
type activation struct{ total, decided time.Duration }

func (a activation) String() string {
	return fmt.Sprintf("%s (gpuscaler's target after %s, KEDA's scale-up %s later)", a.total, a.decided, a.total-a.decided)
}

// activate pushes one job while the workload has zero replicas, and measures the time until spec.replicas of the Deployment is one.
func (s *scaledWorkload) activate(t *testing.T) (took activation) {
	t.Helper()
	before, pushed := len(s.course(t)), time.Now()
	s.backlog(t, 1)
	stack.Eventually(t, time.Minute, "one replica", func(ctx context.Context) error {
		if took.decided == 0 && s.target(1)(ctx) == nil {
			took.decided = time.Since(pushed).Round(time.Millisecond)
		}
		if len(s.course(t)) == before {
			return errors.New("still zero replicas")
		}
		return nil
	})
	took.total = s.course(t)[before].At.Sub(pushed).Round(time.Millisecond)
	return took
}

// By default KEDA polls a scaler only every 30 s. But gpuscaler pushes a change of the activity to KEDA, so KEDA scales from zero without
// waiting for a poll. A wait for a poll would take 15 s on average, so the median must be less than a third of the polling interval. The
// test logs the median. For each round of more than two seconds, it also logs the durations of the steps. `make bench-push` runs the test
// with 25 rounds.
func TestFromZeroByPushDoesNotWaitForAPoll(t *testing.T) {
	t.Parallel()
	s := place(t, "push", 0)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	if n, _, _ := unstructured.NestedInt64(s.scaledObject(t).Object, "spec", "pollingInterval"); n != 0 && n != 30 {
		t.Fatalf("pollingInterval %d, want KEDA's 30", n)
	}
	const usual, limit = 2 * time.Second, 10 * time.Second
	var took []activation
	for range pushes(t) {
		stack.Eventually(t, time.Minute, "the target is zero", s.target(0))
		s.scale(t, 0) // do not wait for KEDA, which would scale to zero only at its next poll
		stack.Eventually(t, time.Minute, "zero replicas", s.has(0))
		took = append(took, s.activate(t))
		s.backlog(t, 0)
	}
	slices.SortFunc(took, func(a, b activation) int { return cmp.Compare(a.total, b.total) })
	slower := 0
	for _, slow := range took {
		if slow.total > usual {
			slower++
			t.Logf("slower than %s: %s", usual, slow)
		}
	}
	median := took[len(took)/2]
	t.Logf("%d jobs in Redis to a replica: median %s, fastest %s, slowest %s, %d slower than %s", len(took), median, took[0].total,
		took[len(took)-1].total, slower, usual)
	if median.total > limit {
		t.Errorf("median %s, want at most %s; all: %v", median, limit, took)
	}
}

// pushes returns the number of rounds, from the environment variable GPUSCALER_E2E_PUSHES.
func pushes(t *testing.T) int {
	text := cmp.Or(os.Getenv("GPUSCALER_E2E_PUSHES"), "9")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("GPUSCALER_E2E_PUSHES is %q, want a number of at least 1", text)
	}
	return n
}
