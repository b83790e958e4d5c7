package keda

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// says returns a check of an explanation: it must name the annotation as the cause, and have the given target.
func (s *scaledWorkload) says(annotation string, target int32) func(explain.Explanation) error {
	return func(e explain.Explanation) error {
		if e.Operator == nil || !strings.Contains(e.Operator.By, annotation) || e.Target != target {
			return fmt.Errorf("target %d, operator %+v", e.Target, e.Operator)
		}
		return nil
	}
}

func TestPausesOfKEDAApplyAndAreExplained(t *testing.T) {
	t.Parallel()
	s := place(t, "pause", 1)
	s.policy(t, fmt.Sprintf(jobsPolicy, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	s.backlog(t, 25)
	stack.Eventually(t, time.Minute, "three replicas", s.has(3))

	for _, c := range []struct {
		annotation, value string
		backlog           int
		held, free        int32 // expected replicas during the pause, and after it
	}{
		{"autoscaling.keda.sh/paused", "true", 55, 3, 6},
		{"autoscaling.keda.sh/paused-scale-in", "true", 15, 6, 2},
		{"autoscaling.keda.sh/paused-scale-out", "true", 45, 2, 5},
		{"autoscaling.keda.sh/paused-replicas", "4", 15, 4, 2},
	} {
		s.annotate(t, c.annotation, c.value)
		stack.Eventually(t, time.Minute, c.annotation+" is explained", s.explained(func(e explain.Explanation) error {
			if e.Operator == nil || !strings.Contains(e.Operator.By, c.annotation) {
				return fmt.Errorf("operator %+v", e.Operator)
			}
			return nil
		}))
		s.backlog(t, c.backlog)
		stack.Eventually(t, time.Minute, "the target equals the replicas", s.explained(s.says(c.annotation, c.held)))
		// KEDA applies the annotation paused-replicas without gpuscaler
		stack.Eventually(t, time.Minute, "KEDA keeps the replicas", s.spec(c.held))
		stack.Always(t, 5*time.Second, c.annotation, s.spec(c.held))
		s.annotate(t, c.annotation, nil)
		stack.Eventually(t, time.Minute, "after "+c.annotation, s.has(c.free))
	}
	stack.Eventually(t, time.Minute, "no pause is in force", s.explained(func(e explain.Explanation) error {
		if e.Operator != nil || e.ScaledBy == nil || !e.ScaledBy.Exact {
			return fmt.Errorf("operator %+v, scaled by %+v", e.Operator, e.ScaledBy)
		}
		return nil
	}))
	if err := s.noted("ScaledObjectMisconfigured")(t.Context()); err == nil {
		t.Error("an Event reports a pause as an error")
	}
}

// withoutWindow is the part of a ScaledObject that disables the scale-down stabilization window of KEDA's HPA.
const withoutWindow = `  advanced: {horizontalPodAutoscalerConfig: {behavior: {scaleDown: {stabilizationWindowSeconds: 0}}}}`

// The owner of a ScaledObject allows gpuscaler to set KEDA's annotations. gpuscaler must set force-activation for a schedule and
// paused-scale-in for a pause, and must remove them afterwards.
func TestKEDAsAnnotationsAreSetWithConsentAndRemoved(t *testing.T) {
	t.Parallel()
	s := place(t, "manage", 0)
	apply(t, s.kedasOwn(10, withoutWindow))
	s.annotate(t, "gpuscaler.io/manage-keda", "activation,hold")
	now := time.Now().UTC()
	s.policy(t, fmt.Sprintf(jobsPolicy+`
schedules:
- {name: prewarm, timezone: UTC, from: %s, until: %s, minReplicas: 1}`, s.queue(), now.Format("2006-01-02T15:04"),
		now.Add(time.Hour).Format("2006-01-02T15:04")))
	carries := func(annotation, value string) func(explain.Explanation) error {
		return func(explain.Explanation) error {
			if got := s.scaledObject(t).GetAnnotations()[annotation]; got != value {
				return fmt.Errorf("%s is %q, want %q", annotation, got, value)
			}
			return nil
		}
	}
	stack.Eventually(t, time.Minute, "force-activation is set before the first job",
		s.explained(carries("autoscaling.keda.sh/force-activation", "true")))
	stack.Eventually(t, time.Minute, "KEDA keeps one replica without gpuscaler's trigger", s.has(1))

	s.backlog(t, 35)
	stack.Eventually(t, time.Minute, "four replicas for 35 jobs by KEDA's trigger", s.has(4))
	s.annotate(t, "gpuscaler.io/paused", "true")
	stack.Eventually(t, time.Minute, "a pause sets paused-scale-in", s.explained(carries("autoscaling.keda.sh/paused-scale-in", "true")))
	stack.Eventually(t, time.Minute, "KEDA has updated its HPA", func(ctx context.Context) error {
		var h autoscalingv2.HorizontalPodAutoscaler
		if err := suite.Stack.Client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "keda-hpa-" + name}, &h); err != nil {
			return err
		}
		if b := h.Spec.Behavior; b == nil || b.ScaleDown == nil || b.ScaleDown.SelectPolicy == nil ||
			*b.ScaleDown.SelectPolicy != autoscalingv2.DisabledPolicySelect {
			return fmt.Errorf("behavior %+v", b)
		}
		return nil
	})
	s.backlog(t, 5)
	stack.Always(t, 10*time.Second, "the replicas stay, although one is enough", s.spec(4))
	s.annotate(t, "gpuscaler.io/paused", nil)
	stack.Eventually(t, time.Minute, "resumed", s.explained(carries("autoscaling.keda.sh/paused-scale-in", "")))
	stack.Eventually(t, time.Minute, "one for 5", s.has(1))
	s.backlog(t, 0)
	stack.Always(t, 30*time.Second, "force-activation keeps one replica after KEDA's cooldown of 20 s", s.spec(1))

	if err := suite.Policies.Remove(s.ns); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the annotations are removed with the policy", func(context.Context) error {
		return carries("autoscaling.keda.sh/force-activation", "")(explain.Explanation{})
	})
	stack.Eventually(t, time.Minute, "KEDA scales to zero again", s.has(0))
	for _, m := range s.scaledObject(t).GetManagedFields() {
		if strings.HasPrefix(m.Manager, "gpuscaler") {
			t.Errorf("%s still owns %s", m.Manager, m.FieldsV1)
		}
	}
}
