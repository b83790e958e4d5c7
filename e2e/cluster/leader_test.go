package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
)

func campaign(t *testing.T, pod string, duration time.Duration) (l *leader.Candidate, stop func()) {
	t.Helper()
	create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: pod, Labels: map[string]string{"app": "gpuscaler"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "gpuscaler", Image: "gpuscaler"}},
		}})
	l, err := leader.New(account, leader.Options{
		Namespace: home, Pod: pod, Selector: "app=gpuscaler", Log: logger(t),
		Duration: duration, RenewDeadline: duration * 2 / 3, RetryPeriod: duration / 15,
		OnStartedLeading: func(ctx context.Context) { <-ctx.Done() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, background(t, l.Run)
}

// labeled returns a check that the given pods have the leader label and no other pod has it.
func labeled(want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := shared.Client.List(ctx, &pods, client.InNamespace(home), client.MatchingLabels{leader.Label: "true"}); err != nil {
			return err
		}
		var got []string
		for _, p := range pods.Items {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("labeled: %v", got)
		}
		return nil
	}
}

func TestLeadershipMovesWhenTheLeaderReleasesTheLease(t *testing.T) {
	// The lease expires after ten minutes, so b can lead within this test only if a releases it.
	_, stopA := campaign(t, "a", 10*time.Minute)
	stack.Eventually(t, time.Minute, "a has the label", labeled("a"))
	campaignB(t)
	stack.Always(t, 2*time.Second, "b does not lead", labeled("a"))
	stopA()
	stack.Eventually(t, 2*time.Minute, "b leads, and only b has the label", labeled("b"))

	var lease coordinationv1.Lease
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "gpuscaler"}, &lease); err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "b" {
		t.Errorf("the lease is held by %v", lease.Spec.HolderIdentity)
	}
	stale := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"gpuscaler.io/leader":"true"}}}`))
	if err := shared.Client.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "a"}}, stale); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the label of another pod is removed", labeled("b"))
}

// campaignB starts the candidate b with a lease duration of 15 s. The retry interval depends on the lease duration, so b becomes the leader
// within seconds after the Lease is free.
func campaignB(t *testing.T) { campaign(t, "b", 15*time.Second) }

func TestRegistrationIsCreatedKeptAndNeverReplaced(t *testing.T) {
	ca := shared.CA.PEM
	service := types.NamespacedName{Namespace: home, Name: "gpuscaler"}
	guard, err := apiservice.New(account, apiservice.Options{
		Service: service, Port: 6443, CABundle: func() []byte { return ca }, Log: logger(t), Instance: "gpuscaler-0",
	})
	if err != nil {
		t.Fatal(err)
	}
	background(t, guard.Run)
	key := client.ObjectKey{Name: apiservice.Name}
	named := func(namespace, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			var a apiregistration.APIService
			if err := shared.Client.Get(ctx, key, &a); err != nil {
				return err
			}
			if s := a.Spec.Service; s.Namespace != namespace || s.Name != name {
				return fmt.Errorf("%s/%s", s.Namespace, s.Name)
			}
			return nil
		}
	}
	stack.Eventually(t, time.Minute, "it registers if no server is registered", named(home, "gpuscaler"))

	stolen := &apiregistration.APIService{}
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // a concurrent write of the status causes a conflict
		if err := shared.Client.Get(t.Context(), key, stolen); err != nil {
			return err
		}
		stolen.Spec.CABundle, stolen.Spec.InsecureSkipTLSVerify = nil, true
		stolen.Spec.Service = &apiregistration.ServiceReference{Namespace: "keda", Name: "keda-metrics-apiserver"}
		return shared.Client.Update(t.Context(), stolen)
	}); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "an Event reports the other server",
		reported("default", "APIService", key.Name, events.APIServiceConflict))
	stack.Always(t, 12*time.Second, "the other registration is not replaced", named("keda", "keda-metrics-apiserver"))
	if err := shared.Client.Delete(t.Context(), stolen); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "it registers again after the other registration is deleted", named(home, "gpuscaler"))
	if err := shared.Client.Delete(t.Context(), stolen); err != nil {
		t.Log("the registration was not deleted:", err)
	}
}
