package keda

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// annotated returns a ScaledObject that needs no policy file: its annotations and its spec define the whole policy.
func (s *scaledWorkload) annotated() string {
	return fmt.Sprintf(`
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: %[1]s
  namespace: %[2]s
  annotations:
    gpuscaler.io/queue-source: jobs/%[3]s
    gpuscaler.io/queue-depth-per-replica: "10"
spec:
  scaleTargetRef: {name: %[1]s}
  minReplicaCount: 0
  maxReplicaCount: 8
  cooldownPeriod: 60
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp: {tolerance: "0", stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 1000, periodSeconds: 15}]}
        scaleDown: {tolerance: "0", stabilizationWindowSeconds: 0, policies: [{type: Percent, value: 100, periodSeconds: 15}]}
  triggers:
  - type: external-push
    name: gpuscaler
    metadata: {scalerAddress: "%[4]s"}
    authenticationRef: {name: gpuscaler, kind: ClusterTriggerAuthentication}
`, name, s.ns, s.queue(), scaler.Address)
}

// Each annotation is tested in three steps. A valid value must take effect. An invalid value must have no effect and must be reported by an
// Event. Removing the annotation must restore the previous state.
func TestEachAnnotationValidInvalidAndRemoved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, good, bad string
		shows          func(e explain.Explanation) string
		want           string // texts in the explanation while the value is valid
		allowed        string // the allowed values that the Event must contain
	}{
		{"queue-depth-per-replica", "7", "many", func(e explain.Explanation) string { return fmt.Sprint(e.Signals[0].Target) }, "7",
			"a number such as 10"},
		{"gpu-utilization-target", "70", "7 of 10", func(e explain.Explanation) string { return e.Signals[0].Name }, "gpu",
			"a percentage such as 80%"},
		{"mode", "advisory", "careful", func(e explain.Explanation) string { return e.Mode }, "advisory", "auto, advisory"},
		{"schedule", `day UTC "0 0 * * *" "59 23 * * *" min=6`, "at night", func(e explain.Explanation) string { return fmt.Sprint(e.Target) },
			"6", "min="},
		{"capacity-group", "batch", "nobodys", func(e explain.Explanation) string { return e.Mode }, "auto", "batch"},
		{"policy", "jobs-of-embed", "Not A Name", func(e explain.Explanation) string { return e.Policy }, "key-policy/jobs-of-embed",
			"lower-case"},
		{"spec", "signals: [{name: second, type: redis, source: jobs, listName: other, target: 5}]", "signals: [{name: x, type: redsi}]",
			func(e explain.Explanation) string { return fmt.Sprint(len(e.Signals)) }, "2", "prometheus"},
		{"queue-source", "jobs/elsewhere", "jobs/", func(e explain.Explanation) string {
			return fmt.Sprint(e.Signals[0].Recommends != nil && *e.Signals[0].Recommends == 0)
		}, "true", "<list>"},
		{"paused", "true", "perhaps", func(e explain.Explanation) string { return fmt.Sprint(e.Operator != nil && e.Operator.Paused) }, "true",
			`"true" or "false"`},
		{"override", "min=5 until=2030-01-01T00:00Z", "min=5", func(e explain.Explanation) string { return fmt.Sprint(e.Target) }, "5", "an end"},
		{"manage-keda", "hold", "everything", func(e explain.Explanation) string { return e.Mode }, "auto", "activation"},
	} {
		t.Run(c.key, func(t *testing.T) {
			t.Parallel()
			s := place(t, "key-"+c.key, 1)
			apply(t, s.annotated())
			s.backlog(t, 35)
			stack.Eventually(t, time.Minute, "a target of four for 35 jobs", s.target(4))
			key, policy := "gpuscaler.io/"+c.key, s.ns+"/"+name
			before := s.scaledObject(t).GetAnnotations()[key]
			s.annotate(t, key, c.good)
			if c.key == "policy" {
				policy = s.ns + "/" + c.good
			}
			began := time.Now()
			shows := func(ctx context.Context) error {
				e, err := suite.Explain(ctx, policy)
				if err != nil || len(e.Signals) == 0 {
					return fmt.Errorf("signals %+v, %w", e.Signals, err)
				}
				if got := c.shows(e); got != c.want {
					return fmt.Errorf("%q, want %q", got, c.want)
				}
				return nil
			}
			stack.Eventually(t, time.Minute, c.good, shows)
			t.Logf("it took effect within %s", time.Since(began).Round(100*time.Millisecond))

			s.annotate(t, key, c.bad)
			stack.Eventually(t, time.Minute, c.bad+" is reported", func(ctx context.Context) error {
				if s.noted("AnnotationInvalid", c.key, c.allowed)(ctx) == nil {
					return nil
				}
				return s.noted("PolicyInvalid", c.key, c.allowed)(ctx)
			})
			// the invalid value must have no effect: the last valid version of the policy still applies
			if c.key != "override" && c.key != "manage-keda" {
				if err := shows(t.Context()); err != nil {
					t.Errorf("with the invalid value: %v", err)
				}
			}

			restore := any(nil)
			if before != "" {
				restore = before
			}
			s.annotate(t, key, restore)
			stack.Eventually(t, time.Minute, "the previous state after the removal", s.explained(func(e explain.Explanation) error {
				if e.Mode != "auto" || len(e.Signals) != 1 || e.Signals[0].Target != 10 || e.Operator != nil {
					return fmt.Errorf("mode %s, signals %+v, operator %+v", e.Mode, e.Signals, e.Operator)
				}
				return nil
			}))
		})
	}
}

// Trigger metadata takes precedence over annotations. Annotations take precedence over a file.
func TestTriggerMetadataOverAnnotationsOverFile(t *testing.T) {
	t.Parallel()
	s := place(t, "layers", 1)
	s.backlog(t, 12)
	targets := func(want float64) func(explain.Explanation) error {
		return func(e explain.Explanation) error {
			if len(e.Signals) != 1 || e.Signals[0].Target != want {
				return fmt.Errorf("signals %+v, want a target of %g", e.Signals, want)
			}
			return nil
		}
	}
	s.policy(t, fmt.Sprintf(`
minReplicas: 0
maxReplicas: 8
signals:
- {name: queue, type: redis, source: jobs, listName: %s, target: 12}`, s.queue()))
	s.follow(t, s.manifest(t, "--mirror=false"))
	stack.Eventually(t, time.Minute, "the file alone", s.explained(targets(12)))
	s.annotate(t, "gpuscaler.io/queue-depth-per-replica", "6")
	stack.Eventually(t, time.Minute, "the annotation over it", s.explained(targets(6)))
	so := s.scaledObject(t)
	triggers := so.Object["spec"].(map[string]any)["triggers"].([]any)
	triggers[0].(map[string]any)["metadata"].(map[string]any)["queueDepthPerReplica"] = "4"
	patch(t, ScaledObject(s.ns, name), map[string]any{"spec": map[string]any{"triggers": triggers}})
	stack.Eventually(t, time.Minute, "the trigger's metadata over that", s.explained(targets(4)))
	stack.Eventually(t, time.Minute, "three for 12 at 4", s.has(3))
}

// gpuscaler must compute and explain the target of an advisory policy, but must not change the replicas. The ScaledObject must not have
// gpuscaler's trigger. If it has this trigger, an Event must report the problem.
func TestAdvisoryPolicyHasNoEffect(t *testing.T) {
	t.Parallel()
	s := place(t, "advisory", 1)
	apply(t, s.kedasOwn(5, ""))
	s.annotate(t, "gpuscaler.io/mode", "advisory", "gpuscaler.io/queue-source", "jobs/"+s.queue(), "gpuscaler.io/queue-depth-per-replica",
		"10")
	s.backlog(t, 35)
	stack.Eventually(t, time.Minute, "seven replicas by KEDA's trigger", s.has(7))
	stack.Eventually(t, time.Minute, "the explanation has a target of four", s.explained(func(e explain.Explanation) error {
		if e.Mode != "advisory" || e.Target != 4 || e.Current != 7 || e.ScaledBy != nil {
			return fmt.Errorf("%s: target %d, current %d, scaled by %+v", e.Mode, e.Target, e.Current, e.ScaledBy)
		}
		return nil
	}))
	stack.Always(t, 4*time.Second, "the replicas do not change", s.spec(7))

	apply(t, s.annotated())
	s.annotate(t, "gpuscaler.io/mode", "advisory")
	stack.Eventually(t, time.Minute, "an Event reports gpuscaler's trigger",
		s.noted("ScaledObjectMisconfigured", "advisory", "remove the trigger"))
	stack.Always(t, 4*time.Second, "the replicas do not change", s.spec(7))
}

// An advisory policy is in the annotations of an HPA that scales on CPU. gpuscaler must explain the target of the policy, and the
// replicas must not change.
func TestAdvisoryPolicyInAnnotationsOfAnHPA(t *testing.T) {
	t.Parallel()
	s := place(t, "advisory-hpa", 2)
	s.backlog(t, 35)
	apply(t, fmt.Sprintf(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: %[1]s
  namespace: %[2]s
  annotations:
    gpuscaler.io/mode: advisory
    gpuscaler.io/queue-source: jobs/%[3]s
    gpuscaler.io/queue-depth-per-replica: "10"
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %[1]s}
  minReplicas: 1
  maxReplicas: 8
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
`, name, s.ns, s.queue()))
	stack.Eventually(t, time.Minute, "the explanation has a target of four and two replicas",
		s.explained(func(e explain.Explanation) error {
			if e.Mode != "advisory" || e.Target != 4 || e.Current != 2 || e.ScaledBy != nil {
				return fmt.Errorf("%s: target %d, current %d, scaled by %+v", e.Mode, e.Target, e.Current, e.ScaledBy)
			}
			return nil
		}))
	stack.Always(t, 4*time.Second, "the replicas do not change", s.spec(2))
}

// The ScaledObject has two wrong settings: KEDA's default cooldownPeriod, which delays the scale to zero in addition to the policy's
// cooldownPeriod, and a fallback to zero replicas. Events must report both settings. The manifests that gpuscaler generates never have
// these settings.
func TestDoubledIdleDelayIsReported(t *testing.T) {
	t.Parallel()
	s := place(t, "lint", 1)
	apply(t, s.annotated())
	patch(t, ScaledObject(s.ns, name), map[string]any{"spec": map[string]any{
		"cooldownPeriod": nil, "fallback": map[string]any{"failureThreshold": int64(3), "replicas": int64(0)},
	}})
	stack.Eventually(t, time.Minute, "KEDA's 300 s after the policy's five minutes",
		s.noted("ScaledObjectMisconfigured", "5m0s", "spec.cooldownPeriod: 60"))
	stack.Eventually(t, time.Minute, "a fallback to zero", s.noted("ScaledObjectMisconfigured", "fallback.replicas"))
}
