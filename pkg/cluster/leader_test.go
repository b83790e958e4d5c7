package cluster

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func replicaPod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "gpuscaler-system", UID: "uid-" + "1", Labels: labels}}
}

// diary records what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func campaign(t *testing.T, client *fake.Clientset, pod string, d *diary) (l *Leader, stop func()) {
	t.Helper()
	l, err := newLeader(client, LeaderOptions{
		Namespace: "gpuscaler-system", Pod: pod,
		Duration: 600 * time.Millisecond, RenewDeadline: 400 * time.Millisecond, RetryPeriod: 50 * time.Millisecond,
		OnStartedLeading: func(ctx context.Context) {
			d.add(pod + " works")
			<-ctx.Done()
			d.add(pod + " ends")
		},
		OnStoppedLeading: func() { d.add(pod + " stopped") },
		Log:              slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return l, stop
}

func marked(t *testing.T, client *fake.Clientset) (pods []string) {
	t.Helper()
	list, err := client.CoreV1().Pods("gpuscaler-system").List(t.Context(), metav1.ListOptions{LabelSelector: LeaderLabel + "=true"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		pods = append(pods, p.Name)
	}
	return pods
}

func TestALeaderStopsThenLosesItsMarkThenGivesTheLeaseUpAndTheStandbyFollowsAtOnce(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", nil), replicaPod("b", nil))
	var d diary
	_, stopA := campaign(t, client, "a", &d)
	eventually(t, "a is marked", func() bool { return slices.Equal(marked(t, client), []string{"a"}) })
	b, _ := campaign(t, client, "b", &d)
	if b.Leading() {
		t.Fatal("two leaders")
	}
	stopA()
	if got := marked(t, client); slices.Contains(got, "a") {
		t.Fatalf("a stopped and is marked still: %v", got)
	}
	eventually(t, "b is marked", func() bool { return slices.Equal(marked(t, client), []string{"b"}) })
	if got, want := d.all(), []string{"a works", "a ends", "a stopped", "b works"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestTheNewLeaderTakesTheMarkFromOneThatWasKilled(t *testing.T) {
	client := fake.NewClientset(replicaPod("killed", map[string]string{LeaderLabel: "true"}), replicaPod("b", nil))
	var d diary
	campaign(t, client, "b", &d)
	eventually(t, "b alone is marked", func() bool { return slices.Equal(marked(t, client), []string{"b"}) })
}

func TestAContainerThatCrashedAsLeaderComesBackUnmarkedWhileAnotherLeads(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", map[string]string{LeaderLabel: "true"}), replicaPod("b", nil))
	var d diary
	campaign(t, client, "b", &d)
	eventually(t, "b leads", func() bool { return slices.Contains(d.all(), "b works") })
	a, _ := campaign(t, client, "a", &d)
	eventually(t, "b alone is marked", func() bool { return slices.Equal(marked(t, client), []string{"b"}) })
	if a.Leading() {
		t.Error("two leaders")
	}
}

func TestALeaderThatCannotReachTheServerEndsItsWorkByItself(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", nil))
	var cut atomic.Bool
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if cut.Load() {
			return refuse(a)
		}
		return false, nil, nil
	})
	var d diary
	l, _ := campaign(t, client, "a", &d)
	eventually(t, "a works", func() bool { return slices.Equal(d.all(), []string{"a works"}) })
	cut.Store(true)
	eventually(t, "a stops", func() bool { return slices.Equal(d.all(), []string{"a works", "a ends", "a stopped"}) })
	if l.Leading() {
		t.Error("it still thinks that it leads")
	}
}

func TestDurationsThatCannotWorkAreRefusedBeforeTheyAreNeeded(t *testing.T) {
	_, err := newLeader(fake.NewClientset(), LeaderOptions{Namespace: "n", Pod: "p", Duration: time.Second, RenewDeadline: 2 * time.Second})
	if err == nil {
		t.Error("a deadline after the end of the lease was taken")
	}
}

// A machine that was suspended, or a container that was throttled, wakes up as the leader that it was. The election alone would
// notice only after RenewDeadline, which here is longer than the test waits.
func TestALeaderThatWasOvertakenEndsItsWorkAtTheNextLookAtTheLease(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", nil), replicaPod("b", nil))
	var overtaken atomic.Bool
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return overtaken.Load(), nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "gpuscaler", errors.New("overtaken"))
	})
	var d diary
	a, err := newLeader(client, LeaderOptions{
		Namespace: "gpuscaler-system", Pod: "a", Duration: time.Minute, RenewDeadline: 40 * time.Second, RetryPeriod: 50 * time.Millisecond,
		OnStartedLeading: func(ctx context.Context) { <-ctx.Done() }, OnStoppedLeading: func() { d.add("a stopped") },
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = a.Run(t.Context()) }()
	eventually(t, "a is marked", func() bool { return slices.Equal(marked(t, client), []string{"a"}) })

	lease, err := client.CoordinationV1().Leases("gpuscaler-system").Get(t.Context(), "gpuscaler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, now := "b", metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &b, &now
	overtaken.Store(true)
	if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, "gpuscaler-system"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a ends", func() bool { return slices.Contains(d.all(), "a stopped") && !a.Leading() })
}

func TestALeaseThatWasNotRenewedIsNotOursByEitherClock(t *testing.T) {
	lease := &tenure{length: time.Minute}
	if lease.valid() {
		t.Error("valid before it was held")
	}
	lease.renew()
	if !lease.valid() {
		t.Error("not valid when it was renewed just now")
	}
	lease.renewed = lease.renewed.Add(-2 * time.Minute)
	if lease.valid() {
		t.Error("valid two minutes later")
	}
	m := &leaderMark{valid: lease.valid} // without a client: writing would panic
	if err := m.set(t.Context()); err == nil {
		t.Error("it marked its pod")
	}
}
