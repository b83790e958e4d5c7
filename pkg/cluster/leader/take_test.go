package leader

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// With Expire, which is set before an uninstallation, no replica may lead between the end of the command and the deletion of the
// controller. Without Expire, a replica must be able to lead soon after the command.
func TestTakenLeaseIsReleasedUnlessItShallExpire(t *testing.T) {
	for _, expire := range []bool{false, true} {
		client := fake.NewClientset()
		name := types.NamespacedName{Namespace: "gpuscaler-system", Name: "gpuscaler"}
		taking := Taking{Client: client, Lease: name, Identity: "restore-1", Log: slog.New(slog.DiscardHandler), Expire: expire}
		_, release, err := taking.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		release()
		lease, err := client.CoordinationV1().Leases(name.Namespace).Get(t.Context(), name.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		holder, seconds := *lease.Spec.HolderIdentity, *lease.Spec.LeaseDurationSeconds
		if expire != (holder == "restore-1") || expire != (seconds == 30) {
			t.Errorf("expire %v: the holder is %q for %d s", expire, holder, seconds)
		}
	}
}

// A leader renews its Lease every few seconds. A renewal can therefore occur between the command's read and its write of the Lease.
func TestLeaseIsTakenAlthoughTheLeaderRenewsIt(t *testing.T) {
	client := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "gpuscaler-system", Name: "gpuscaler"}})
	conflicts := 2
	client.PrependReactor("update", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
		if conflicts == 0 {
			return false, nil, nil
		}
		conflicts--
		return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "gpuscaler", errors.New("it was modified"))
	})
	name := types.NamespacedName{Namespace: "gpuscaler-system", Name: "gpuscaler"}
	taking := Taking{Client: client, Lease: name, Identity: "restore-1", Log: slog.New(slog.DiscardHandler)}
	held, release, err := taking.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if held.Err() != nil || conflicts != 0 {
		t.Errorf("the command holds the Lease: %v, conflicts left: %d", held.Err(), conflicts)
	}
}

// Errors of the API server that last for a shorter time than the command's Lease must not end the command. A replica that takes the Lease
// must end it immediately.
func TestCommandStopsOnlyWhenItsLeaseIsLost(t *testing.T) {
	for _, c := range []struct {
		name   string
		fail   time.Duration // how long the API server returns errors
		holder string        // the replica that takes the Lease after a minute; empty: no replica takes it
		want   bool          // whether the command must still run after two minutes
	}{
		{name: "one error", fail: 11 * time.Second, want: true},
		{name: "errors for longer than the Lease is valid", fail: time.Minute, want: false},
		{name: "another holder", holder: "gpuscaler-0", want: false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { commandWithLease(t, c.fail, c.holder, c.want) })
		})
	}
}

func commandWithLease(t *testing.T, fail time.Duration, holder string, want bool) {
	client := fake.NewClientset()
	name := types.NamespacedName{Namespace: "gpuscaler-system", Name: "gpuscaler"}
	taking := Taking{Client: client, Lease: name, Identity: "restore-1", Log: slog.New(slog.DiscardHandler)}
	held, release, err := taking.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	until := time.Now().Add(fail)
	client.PrependReactor("update", "leases", func(k8stesting.Action) (bool, runtime.Object, error) {
		return time.Now().Before(until), nil, apierrors.NewInternalError(errors.New("etcd has no leader"))
	})
	time.Sleep(time.Minute)
	if holder != "" {
		leases := client.CoordinationV1().Leases(name.Namespace)
		lease, err := leases.Get(context.Background(), name.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lease.Spec.HolderIdentity = &holder
		if _, err := leases.Update(context.Background(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Minute)
	if got := held.Err() == nil; got != want {
		t.Errorf("the command still runs: %v, want %v", got, want)
	}
}
