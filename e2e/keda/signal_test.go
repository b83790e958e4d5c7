package keda

import (
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// kedasOwn returns a ScaledObject that scales on a Redis list and does not use gpuscaler, as before a migration. The parameter rest is
// inserted into the spec.
func (s *scaledWorkload) kedasOwn(listLength int, rest string) string {
	return fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 0
  maxReplicaCount: 8
  pollingInterval: 5
  cooldownPeriod: 20
%[3]s
  triggers:
  - {type: redis, name: list, metadata: {address: "%[4]s", listName: %[5]s, listLength: "%[6]d"}}
`, name, s.ns, rest, redis, s.queue(), listLength)
}

// shortCooldown replaces KEDA's cooldownPeriod of 60 s in a manifest by 10 s, and sets pollingInterval to 5 s, so that a test takes less
// time.
func shortCooldown(manifest string) string {
	return strings.Replace(manifest, "\n  cooldownPeriod: 60\n", "\n  cooldownPeriod: 10\n  pollingInterval: 5\n", 1)
}

// Only KEDA's trigger contains the address and the credentials of the queue. gpuscaler must read the trigger's value from KEDA by the
// name of the trigger.
func TestTriggerOfKEDAIsASignal(t *testing.T) {
	t.Parallel()
	s := place(t, "signal", 1)
	s.policy(t, `
minReplicas: 0
maxReplicas: 8
cooldownPeriod: 3s
signals:
- {name: backlog, type: keda, trigger: list, target: 10}`+promptly)
	s.follow(t, shortCooldown(s.manifest(t, "--from", write(t, "so.yaml", s.kedasOwn(10, "")))))
	s.backlog(t, 37)
	stack.Eventually(t, time.Minute, "four replicas for 37 jobs", s.has(4))
	stack.Eventually(t, time.Minute, "explain shows the trigger's reading", s.explained(func(e explain.Explanation) error {
		if v := e.Signals[0].Value; e.Signals[0].Type != "keda" || v == nil || *v != 37 || e.ScaledBy == nil || !e.ScaledBy.Exact {
			return fmt.Errorf("signals %+v, scaled by %+v", e.Signals, e.ScaledBy)
		}
		return nil
	}))
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := suite.Stack.Client.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: "keda-hpa-" + name}, &h); err != nil {
		t.Fatal(err)
	}
	if len(h.Spec.Metrics) != 2 || h.Spec.Metrics[1].External.Target.AverageValue.String() != "40" {
		t.Errorf("the HPA's metrics are %+v: want gpuscaler's metric, and the list at four times its target", h.Spec.Metrics)
	}
	s.backlog(t, 8)
	stack.Eventually(t, time.Minute, "one for 8", s.has(1))
	s.backlog(t, 0)
	stack.Eventually(t, time.Minute, "no replicas for no jobs", s.has(0))
	s.backlog(t, 11)
	stack.Eventually(t, time.Minute, "two replicas for 11 jobs, from zero", s.has(2))
}

// A schedule raises minReplicas from zero for one minute. The workload must scale up, and back to zero afterwards.
func TestScheduleScalesFromZeroAndBack(t *testing.T) {
	t.Parallel()
	s := place(t, "cron", 0)
	opens := time.Now().UTC().Add(20 * time.Second).Truncate(time.Minute).Add(time.Minute)
	closes := opens.Add(time.Minute)
	cron := func(at time.Time) string { return fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()) }
	s.policy(t, fmt.Sprintf(jobsPolicy+`
schedules:
- {name: morning, timezone: UTC, start: "%s", end: "%s", minReplicas: 2}`, s.queue(), cron(opens), cron(closes)))
	s.follow(t, shortCooldown(s.manifest(t, "--mirror=false")))
	stack.Always(t, time.Until(opens)-2*time.Second, "zero replicas before the window", s.spec(0))
	stack.Eventually(t, time.Minute, "two replicas in the window", s.has(2))
	stack.Eventually(t, 2*time.Minute, "zero replicas after the window", s.has(0))
	if down := s.course(t); down[len(down)-1].At.Before(closes) {
		t.Errorf("the replicas decreased before the end of the window at %s: %v", closes, down)
	}
}
