package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// mostReplicas is the maxReplicas of every HPA in the tests. The targets in the tests are lower, so that the HPA does not limit them.
const mostReplicas = 32

// Workload is a Deployment under test, with an HPA and a policy of the same name and the recorded changes of the replicas.
type Workload struct {
	Namespace, Name string
	HPA             *record.Watched // recorded values of the HPA's status.desiredReplicas
	Replicas        *record.Watched // recorded values of the Deployment's spec.replicas

	suite *Suite
}

// Workload creates a Deployment and its HPA, waits until the replicas are ready, starts the recording, and then writes the policy. At the
// end of the test, it deletes these objects.
func (s *Suite) Workload(t testing.TB, d *appsv1.Deployment, spec string) Workload {
	t.Helper()
	u := Workload{Namespace: d.Namespace, Name: d.Name, suite: s}
	hpa := workload.HPA(d.Namespace, d.Name, mostReplicas)
	workload.Create(t, s.Stack.Client, d, hpa)
	t.Cleanup(func() { // deletes the objects, so that the next test can use the GPUs
		for _, o := range []client.Object{hpa, d} {
			if err := s.Stack.Client.Delete(context.Background(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				t.Error(err)
			}
		}
	})
	stack.Eventually(t, 3*time.Minute, fmt.Sprintf("%d replicas", *d.Spec.Replicas), u.HasReplicas(*d.Spec.Replicas))
	var err, failed error
	u.HPA, err = record.HPA(t.Context(), s.Stack.Client, d.Namespace, d.Name)
	u.Replicas, failed = record.Deployment(t.Context(), s.Stack.Client, d.Namespace, d.Name)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	s.Policies.Write(t, u.File(), Policy(d.Namespace, d.Name, spec))
	return u
}

// Policy returns the policy's name as namespace/name.
func (u Workload) Policy() string { return u.Namespace + "/" + u.Name }

// File returns the name of the policy's file for Policies.Put.
func (u Workload) File() string { return u.Namespace + "-" + u.Name }

// HasReplicas returns a check that the Deployment has the given number of replicas and all of them are ready.
func (u Workload) HasReplicas(replicas int32) func(context.Context) error {
	return workload.HasReplicas(u.suite.Stack.Client, u.Namespace, u.Name, replicas)
}

// Transitions returns the logged changes of the policy's decision, from all leaders, oldest first.
func (u Workload) Transitions(t testing.TB) []explain.Explanation {
	t.Helper()
	all, err := record.Transitions(u.suite.Logs(), u.Policy())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Targets returns the policy's targets with the times at which they began, from the log of gpuscaler.
func (u Workload) Targets(t testing.TB) record.Steps {
	t.Helper()
	return record.Targets(u.Transitions(t))
}

// Explained returns a function that reads the leader's explanation of the policy and passes it to check.
func (u Workload) Explained(check func(explain.Explanation) error) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := u.suite.Explain(ctx, u.Policy())
		if err != nil {
			return err
		}
		return check(e)
	}
}

// HasTarget returns a check that the policy has the given target, computed without missing signals.
func (u Workload) HasTarget(replicas int32) func(context.Context) error {
	return u.Explained(func(e explain.Explanation) error {
		if e.Target != replicas || e.Degraded {
			return fmt.Errorf("target %d (degraded: %t), want %d: %+v", e.Target, e.Degraded, replicas, e.Signals)
		}
		return nil
	})
}

// Followed returns a check that the HPA desires the given number of replicas and that the Deployment has this number.
func (u Workload) Followed(replicas int32) func(context.Context) error {
	return func(ctx context.Context) error {
		steps, err := u.HPA.Steps()
		if n, ok := steps.At(time.Now()); err == nil && (!ok || n != replicas) {
			err = fmt.Errorf("the HPA's desired replicas are %d", n)
		}
		return errors.Join(err, u.HasReplicas(replicas)(ctx))
	}
}

// Event returns a check that an object has an Event with the given reason, whose message contains all texts.
func (s *Suite) Event(namespace, kind, name, reason string, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.Stack.Client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		var found []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind != kind || e.InvolvedObject.Name != name || e.Reason != reason {
				continue
			}
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(e.Message, text) }) {
				return nil
			}
			found = append(found, e.Message)
		}
		return fmt.Errorf("no Event %s about %s %s with %q; found %q", reason, kind, name, texts, found)
	}
}

// Export serves the metrics of workloads until the end of the test.
func (s *Suite) Export(t testing.TB, workloads ...*exporter.Workload) *exporter.Exporter {
	t.Helper()
	e, err := exporter.Run(t.Context(), s.Stack, workloads...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
