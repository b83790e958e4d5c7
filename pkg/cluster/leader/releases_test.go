package leader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

const own, other = "gpuscaler-system/gpuscaler", "gpu-platform/gpuscaler"

// heldLease returns a Lease (NAMESPACE/NAME) with the given holder. ago is the time since the holder renewed the Lease.
func heldLease(lease, identity string, ago time.Duration) *coordinationv1.Lease {
	namespace, name, _ := strings.Cut(lease, "/")
	renewed, seconds := metav1.NewMicroTime(time.Now().Add(-ago)), int32(15)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity, RenewTime: &renewed, LeaseDurationSeconds: &seconds}}
}

func TestReleaseLeadsWhileItsLeaseIsHeld(t *testing.T) {
	for name, w := range map[string]struct {
		lease string
		found []runtime.Object
		want  string // part of the reason; empty: the release does not lead
	}{
		"another release leads":             {other, []runtime.Object{heldLease(other, "other-0", time.Second)}, "held by other-0"},
		"another release restarts":          {other, []runtime.Object{heldLease(other, "other-0", 40*time.Second)}, "held by other-0"},
		"another release died":              {other, []runtime.Object{heldLease(other, "other-0", time.Minute)}, ""},
		"another release released the lock": {other, []runtime.Object{heldLease(other, "", time.Second)}, ""},
		"another release was uninstalled":   {other, nil, ""},
		"this release":                      {own, []runtime.Object{heldLease(own, "own-1", time.Second)}, ""},
		"no holder":                         {"", nil, ""},
		"a holder that is no Lease":         {"nonsense", nil, "not NAMESPACE/NAME"},
	} {
		got := NewReleases(fake.NewClientset(w.found...), own).Leads(t.Context(), w.lease)
		if (got == "") != (w.want == "") || !strings.Contains(got, w.want) {
			t.Errorf("%s: %q, want %q", name, got, w.want)
		}
	}
}

func TestLeaseThatCannotBeReadCountsAsHeld(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), "gpuscaler", errors.New("no"))
	})
	if why := NewReleases(client, own).Leads(t.Context(), other); !strings.Contains(why, "cannot be read") {
		t.Errorf("%q", why)
	}
}

// Leads is called at each tick but must not read the Lease each time. It must nevertheless notice within seconds that the other release has
// stopped.
func TestAnswerAboutALeaseIsReusedForAFewSeconds(t *testing.T) {
	client, requests := fake.NewClientset(heldLease(other, "other-0", 0)), 0
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		requests++
		return false, nil, nil
	})
	r := NewReleases(client, own)
	for range 50 {
		if r.Leads(t.Context(), other) == "" {
			t.Fatal("the other release is taken for one that does not lead")
		}
	}
	if requests != 1 {
		t.Errorf("%d requests for 50 questions within a moment", requests)
	}
	if err := client.CoordinationV1().Leases("gpu-platform").Delete(context.Background(), "gpuscaler", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.known[other] = release{time.Now().Add(-releaseCheckInterval), "held"}
	if why := r.Leads(t.Context(), other); why != "" {
		t.Errorf("the Lease was deleted: %q", why)
	}
}
