package controller

import (
	"context"
	"errors"
	"fmt"
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

// mostReplicas is an HPA's bound that no policy of a test reaches.
const mostReplicas = 32

// Workload is a Deployment under test, with its HPA and its policy of the same
// name, and what is written down of them.
type Workload struct {
	Namespace, Name string
	HPA             *record.Watched // status.desiredReplicas
	Replicas        *record.Watched // spec.replicas of the Deployment

	suite *Suite
}

// Workload creates a Deployment with its HPA, waits for its replicas, has both
// recorded and then writes its policy, for the time of the test.
func (s *Suite) Workload(t testing.TB, d *appsv1.Deployment, spec string) Workload {
	t.Helper()
	u := Workload{Namespace: d.Namespace, Name: d.Name, suite: s}
	hpa := workload.HPA(d.Namespace, d.Name, mostReplicas)
	workload.Create(t, s.Stack.Client, d, hpa)
	t.Cleanup(func() { // its GPUs are for the next test
		for _, o := range []client.Object{hpa, d} {
			if err := s.Stack.Client.Delete(context.Background(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				t.Error(err)
			}
		}
	})
	stack.Eventually(t, 30*time.Second, fmt.Sprintf("%d replicas", *d.Spec.Replicas), u.HasReplicas(*d.Spec.Replicas))
	var err, failed error
	u.HPA, err = record.HPA(t.Context(), s.Stack.Client, d.Namespace, d.Name)
	u.Replicas, failed = record.Deployment(t.Context(), s.Stack.Client, d.Namespace, d.Name)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	s.Policies.Write(t, u.File(), Policy(d.Namespace, d.Name, spec))
	return u
}

// Policy is the policy's name as explain wants it.
func (u Workload) Policy() string { return u.Namespace + "/" + u.Name }

// File is the name of the policy's file, for Policies.Put.
func (u Workload) File() string { return u.Namespace + "-" + u.Name }

// Has returns a check that the Deployment wants and has so many ready replicas.
func (u Workload) HasReplicas(replicas int32) func(context.Context) error {
	return workload.HasReplicas(u.suite.Stack.Client, u.Namespace, u.Name, replicas)
}

// Transitions is what gpuscaler logged of the policy, whoever led.
func (u Workload) Transitions(t testing.TB) []explain.Explanation {
	t.Helper()
	all, err := record.Transitions(u.suite.Logs(), u.Policy())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Targets is the course of the number that gpuscaler wanted.
func (u Workload) Targets(t testing.TB) record.Steps {
	t.Helper()
	return record.Targets(u.Transitions(t))
}

// Explained returns a check of the leader's explanation.
func (u Workload) Explained(check func(explain.Explanation) error) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := u.suite.Explain(ctx, u.Policy())
		if err != nil {
			return err
		}
		return check(e)
	}
}

// Wants returns a check of the number, decided with every signal known.
func (u Workload) HasTarget(replicas int32) func(context.Context) error {
	return u.Explained(func(e explain.Explanation) error {
		if e.Target != replicas || e.Degraded {
			return fmt.Errorf("it wants %d (degraded: %t), not %d: %+v", e.Target, e.Degraded, replicas, e.Signals)
		}
		return nil
	})
}

// Followed returns a check that the HPA wants so many, and the Deployment has them.
func (u Workload) Followed(replicas int32) func(context.Context) error {
	return func(ctx context.Context) error {
		steps, err := u.HPA.Steps()
		if n, ok := steps.At(time.Now()); err == nil && (!ok || n != replicas) {
			err = fmt.Errorf("the HPA wants %d", n)
		}
		return errors.Join(err, u.HasReplicas(replicas)(ctx))
	}
}

// Event returns a check that an Event with that reason speaks of an object.
func (s *Suite) Event(namespace, kind, name, reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.Stack.Client.List(ctx, &events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("no Event %s about %s %s", reason, kind, name)
	}
}

// Export serves the metrics of workloads for the time of the test.
func (s *Suite) Export(t testing.TB, workloads ...*exporter.Workload) *exporter.Exporter {
	t.Helper()
	e, err := exporter.Run(t.Context(), s.Stack, workloads...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
