package keda

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// The whole day of a queue worker, by the manifest that we print alone.
func TestFromZeroToManyToZero(t *testing.T) {
	t.Parallel()
	s := place(t, "zero", 0)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	s.backlog(t, 37)
	stack.Eventually(t, 20*time.Second, "four replicas for 37 jobs", s.has(4))
	s.backlog(t, 15)
	stack.Eventually(t, 20*time.Second, "two for 15", s.has(2))
	s.backlog(t, 0)
	stack.Eventually(t, 2*time.Minute, "none for none", s.has(0)) // KEDA looks every 30 s whether it may go to zero
	if got := s.course(t).Numbers(); !slices.Equal(got, []int32{0, 1, 4, 2, 1, 0}) {
		t.Errorf("the Deployment went %v", s.course(t))
	}
}

// KEDA would look every 30 s: what wakes a workload within two is our push.
func TestFromZeroByPushWithinTwoSecondsOfAJob(t *testing.T) {
	t.Parallel()
	s := place(t, "push", 0)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	if n, _, _ := unstructured.NestedInt64(s.scaledObject(t).Object, "spec", "pollingInterval"); n != 0 && n != 30 {
		t.Fatalf("pollingInterval %d, want KEDA's 30", n)
	}
	const rounds = 5
	var took []time.Duration
	for range rounds {
		// KEDA alone would take it to zero at its next look.
		stack.Eventually(t, 20*time.Second, "wants none", s.target(0))
		s.scale(t, 0)
		stack.Eventually(t, 20*time.Second, "asleep", s.has(0))
		before := len(s.course(t))
		pushed := time.Now()
		s.backlog(t, 1)
		stack.Eventually(t, 20*time.Second, "awake", func(context.Context) error {
			if len(s.course(t)) == before {
				return errors.New("still asleep")
			}
			return nil
		})
		took = append(took, s.course(t)[before].At.Sub(pushed).Round(time.Millisecond))
		s.backlog(t, 0)
	}
	slices.Sort(took)
	t.Logf("from a job in Redis to a replica: %v", took)
	// A machine that also compiles stalls; KEDA alone would look half a minute later.
	if usual := took[rounds/2]; took[0] > 2*time.Second || usual > 5*time.Second {
		t.Errorf("it took %s at best and usually %s, want at most 2s and 5s", took[0], usual)
	}
}
