package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// requests counts the requests for the Lease by verb. While refuse is true, every request fails.
type requests struct {
	gets, updates atomic.Int64
	refuse        atomic.Bool
}

func (r *requests) count(client *fake.Clientset) {
	client.PrependReactor("*", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
		switch a.GetVerb() {
		case "get":
			r.gets.Add(1)
		case "update":
			r.updates.Add(1)
		}
		return r.refuse.Load(), nil, errors.New("connection refused")
	})
}

// renew writes the Lease with the holder "a", as the process of pod "a" would do.
func renew(t *testing.T, client *fake.Clientset) {
	t.Helper()
	holder, now, seconds := "a", metav1.NowMicro(), int32(15)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "gpuscaler-system", Name: "gpuscaler"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now, LeaseDurationSeconds: &seconds}}
	resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
	err := client.Tracker().Update(resource, lease, lease.Namespace)
	if err != nil {
		err = client.Tracker().Create(resource, lease, lease.Namespace)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// campaign runs a candidate with the default durations until the test ends.
func campaign(t *testing.T, client *fake.Clientset, pod string) (c *Candidate, stop func()) {
	t.Helper()
	c, err := newCandidate(client, Options{Namespace: "gpuscaler-system", Pod: pod, Log: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context) { <-ctx.Done() }})
	if err != nil {
		t.Fatal(err)
	}
	return c, run(t, c)
}

// In each round, a leader renews its Lease of 15 s every 2 s and then crashes. The time of the crash, relative to the attempts of the
// standby, differs in each round. The standby must become the leader within 2 s after the Lease has expired.
func TestStandbyLeadsSoonAfterTheLeaseOfACrashedLeaderExpired(t *testing.T) {
	const lease = 15 * time.Second
	for round := range 40 {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset(replicaPod("b", nil))
			renew(t, client)
			b, stop := campaign(t, client, "b")
			defer stop()
			time.Sleep(time.Duration(round) * 131 * time.Millisecond)
			for range 5 {
				renew(t, client)
				time.Sleep(2 * time.Second)
			}
			renew(t, client)
			crashed := time.Now()
			for !b.Leading() {
				if time.Since(crashed) > lease+2*time.Second {
					t.Fatalf("round %d: the standby does not lead %s after the last renewal", round, time.Since(crashed))
				}
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(crashed); took < lease {
				t.Fatalf("round %d: the standby led %s after the last renewal, while the Lease was valid", round, took)
			}
		})
	}
}

// The election makes an attempt every 0.2 s. In a minute in which the leader does not change, a standby must nevertheless send at most two
// reads a second. The leader must send at most one renewal in 2 s and no read.
func TestAttemptsOfTheElectionAreNotRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(replicaPod("a", nil), replicaPod("b", nil))
		_, stopLeader := campaign(t, client, "a")
		defer stopLeader()
		time.Sleep(10 * time.Second)
		var leader requests
		leader.count(client)
		time.Sleep(time.Minute)
		// The minute can begin and end with a renewal, so 31 renewals are possible.
		if gets, updates := leader.gets.Load(), leader.updates.Load(); gets != 0 || updates < 26 || updates > 31 {
			t.Errorf("in a minute the leader sent %d reads and %d renewals", gets, updates)
		}

		standbys := fake.NewClientset(replicaPod("b", nil))
		renew(t, standbys)
		_, stopStandby := campaign(t, standbys, "b")
		defer stopStandby()
		var standby requests
		standby.count(standbys)
		for range 60 {
			time.Sleep(time.Second)
			renew(t, standbys)
		}
		if gets, updates := standby.gets.Load(), standby.updates.Load(); gets < 60 || gets > 121 || updates != 0 {
			t.Errorf("in a minute the standby sent %d reads and %d writes", gets, updates)
		}
	})
}

// While the API server refuses requests, a leader repeats its renewal at most twice a second. When the API server accepts requests again,
// the leader must renew the Lease and must not stop leading.
func TestLeaderRenewsSoonAfterTheAPIServerAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(replicaPod("a", nil))
		var sent requests
		sent.count(client)
		a, stop := campaign(t, client, "a")
		defer stop()
		time.Sleep(5 * time.Second)
		sent.refuse.Store(true)
		time.Sleep(3 * time.Second)
		before := sent.updates.Load()
		time.Sleep(4 * time.Second)
		if repeated := sent.updates.Load() - before; repeated < 4 || repeated > 9 {
			t.Errorf("in 4 s the leader sent %d renewals", repeated)
		}
		sent.refuse.Store(false)
		renewed := a.validity.renewed
		time.Sleep(time.Second)
		if !a.Leading() || !a.validity.renewed.After(renewed) {
			t.Error("a second after the API server answered, the Lease is not renewed")
		}
		time.Sleep(30 * time.Second)
		if !a.Leading() {
			t.Error("a leader that renews its Lease does not lead")
		}
	})
}
