package keda

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

const (
	// statusNamespace is the namespace of a team with policyStatus.
	statusNamespace = "policy-status"

	statusKey     = "gpuscaler.io/policy-status"
	statusManager = "gpuscaler-policy-status"
)

// status returns the status annotation of the ScaledObject, and whether gpuscaler owns a field of the ScaledObject.
func (s *scaledWorkload) status(ctx context.Context) (text string, owned bool, err error) {
	o := ScaledObject(s.ns, name)
	err = suite.Stack.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	owned = slices.ContainsFunc(o.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return m.Manager == statusManager })
	return o.GetAnnotations()[statusKey], owned, err
}

// hasStatus returns a check that the status annotation of the ScaledObject contains a text and is owned by gpuscaler. If the text is
// empty, the ScaledObject must have no status annotation.
func (s *scaledWorkload) hasStatus(text string) func(context.Context) error {
	return func(ctx context.Context) error {
		value, owned, err := s.status(ctx)
		if err != nil {
			return err
		}
		if !strings.Contains(value, text) || owned != (text != "") || (value == "") != (text == "") {
			return fmt.Errorf("annotation %q, owned by gpuscaler: %t, want %q", value, owned, text)
		}
		return nil
	}
}

// hpaOf returns the HPA that KEDA creates for the ScaledObject.
func (s *scaledWorkload) hpaOf(ctx context.Context) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	return hpa, suite.Stack.Client.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: "keda-hpa-" + name}, hpa)
}

// edit changes a field of the ScaledObject, and waits until KEDA has updated its HPA.
func (s *scaledWorkload) edit(t *testing.T, maxReplicas int64) {
	t.Helper()
	patch(t, ScaledObject(s.ns, name), map[string]any{"spec": map[string]any{"maxReplicaCount": maxReplicas}})
	stack.Eventually(t, time.Minute, "KEDA updates its HPA", func(ctx context.Context) error {
		hpa, err := s.hpaOf(ctx)
		if err == nil && hpa.Spec.MaxReplicas != int32(maxReplicas) {
			err = fmt.Errorf("maxReplicas %d", hpa.Spec.MaxReplicas)
		}
		return err
	})
}

// written returns how often gpuscaler has written the status annotation, and how often it could not write it because another field
// manager owns the annotation.
func written(t *testing.T) [2]float64 {
	t.Helper()
	var counts [2]float64
	for i, result := range []string{"written", "conflict"} {
		var err error
		if counts[i], err = suite.Metric(t.Context(), "gpuscaler_policy_status_writes_total", "result", result); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

// A team reads the status of its policy on its ScaledObject. When KEDA updates its HPA, KEDA copies all annotations of the ScaledObject
// to the HPA. This must neither remove the annotation from the ScaledObject nor cause more writes, and gpuscaler must not write to KEDA's
// HPA. In the end, `gpuscaler restore` must remove the annotation. This test is not parallel, because restore takes the Lease from the
// controller.
func TestStatusOfAPolicyOnAScaledObject(t *testing.T) {
	s := place(t, statusNamespace, 1)
	apply(t, strings.Replace(s.annotated(), `queue-depth-per-replica: "10"`, `queue-depth-per-replica: "ten"`, 1))
	stack.Eventually(t, time.Minute, "the refusal names the annotation and the value", s.hasStatus("refused: "))
	if text, _, _ := s.status(t.Context()); !strings.Contains(text, "queue-depth-per-replica") || !strings.Contains(text, "ten") {
		t.Errorf("the refusal is %q", text)
	}
	s.annotate(t, "gpuscaler.io/queue-depth-per-replica", "10")
	stack.Eventually(t, 3*time.Minute, "the policy is accepted", s.hasStatus("accepted: "))

	s.edit(t, 7)
	stack.Eventually(t, 3*time.Minute, "the status has the new maximum", s.hasStatus("0 to 7 replicas"))
	before := written(t)
	s.annotate(t, "team.example.com/note", "checked")
	stack.Always(t, 5*time.Second, "KEDA does not remove the annotation", s.hasStatus("0 to 7 replicas"))
	if now := written(t); now != before || now[1] != 0 {
		t.Errorf("writes and conflicts %v, after %v", now, before)
	}
	hpa, err := s.hpaOf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the copy on KEDA's HPA, which can be outdated: %q", hpa.Annotations[statusKey])
	for _, m := range hpa.ManagedFields {
		if m.Manager == statusManager {
			t.Error("gpuscaler wrote to KEDA's HPA")
		}
	}

	// With --keep-lease the controller does not lead for another 30 s, so it does not write the annotation again before the check.
	text, err := suite.CLI(t.Context(), "restore", "--kubeconfig", suite.Stack.Kubeconfig, "--capacity=false", "--keep-lease")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.hasStatus("")(t.Context()); err != nil || !strings.Contains(text, "ScaledObject "+s.ns+"/"+name) {
		t.Errorf("%v, after restore printed:\n%s", err, text)
	}
	stack.Eventually(t, 3*time.Minute, "the next leader writes the annotation again", s.hasStatus("0 to 7 replicas"))
}
