package leader

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
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func replicaPod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "gpuscaler-system", UID: "uid-" + "1", Labels: labels}}
}

// callLog records the order of calls.
type callLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *callLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *callLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func testOptions(pod string, calls *callLog) Options {
	return Options{
		Namespace: "gpuscaler-system", Pod: pod,
		Duration: time.Second, RenewDeadline: 400 * time.Millisecond, RetryPeriod: 50 * time.Millisecond,
		OnStartedLeading: func(ctx context.Context) {
			calls.add(pod + " started")
			<-ctx.Done()
			calls.add(pod + " work ended")
		},
		OnStoppedLeading: func() { calls.add(pod + " stopped") },
		Log:              slog.New(slog.DiscardHandler),
	}
}

// runCandidate runs a candidate until the test ends or stop is called. stop ends the candidate and waits until Run has returned.
func runCandidate(t *testing.T, client *fake.Clientset, pod string, calls *callLog) (c *Candidate, stop func()) {
	t.Helper()
	c, err := newCandidate(client, testOptions(pod, calls))
	if err != nil {
		t.Fatal(err)
	}
	return c, run(t, c)
}

func run(t *testing.T, c *Candidate) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

func labeledPods(t *testing.T, client *fake.Clientset) (pods []string) {
	t.Helper()
	list, err := client.CoreV1().Pods("gpuscaler-system").List(t.Context(), metav1.ListOptions{LabelSelector: Label + "=true"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		pods = append(pods, p.Name)
	}
	return pods
}

func TestLeaderStopsWorkThenRemovesLabelThenReleasesLease(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", nil), replicaPod("b", nil))
	var calls callLog
	_, stopA := runCandidate(t, client, "a", &calls)
	eventually(t, "a is labeled", func() bool { return slices.Equal(labeledPods(t, client), []string{"a"}) })
	b, _ := runCandidate(t, client, "b", &calls)
	if b.Leading() {
		t.Fatal("two leaders")
	}
	stopA()
	if got := labeledPods(t, client); slices.Contains(got, "a") {
		t.Fatalf("a stopped and is still labeled: %v", got)
	}
	eventually(t, "b is labeled", func() bool { return slices.Equal(labeledPods(t, client), []string{"b"}) })
	if got, want := calls.all(), []string{"a started", "a work ended", "a stopped", "b started"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// The candidate stops while a write of its label is in progress. It must wait for the end of this write before it removes the label.
// Otherwise the write would set the label again.
func TestLabelIsRemovedAfterTheLastWriteOfTheLabel(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", nil))
	var calls callLog
	c, err := newCandidate(client, testOptions("a", &calls))
	if err != nil {
		t.Fatal(err)
	}
	writing, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.label.valid = func() bool { // the first write of the label takes a long time
		once.Do(func() { close(writing) })
		<-proceed
		return true
	}
	stop := run(t, c)
	<-writing
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	eventually(t, "the work ends", func() bool { return slices.Contains(calls.all(), "a work ended") })
	select {
	case <-stopped:
		t.Error("the candidate stopped while its label was being written")
	case <-time.After(300 * time.Millisecond):
	}
	close(proceed)
	<-stopped
	if got := labeledPods(t, client); len(got) > 0 {
		t.Errorf("no pod leads, and %v are labeled", got)
	}
}

func TestNewLeaderRemovesTheLabelOfAKilledLeader(t *testing.T) {
	client := fake.NewClientset(replicaPod("killed", map[string]string{Label: "true"}), replicaPod("b", nil))
	var calls callLog
	runCandidate(t, client, "b", &calls)
	eventually(t, "only b is labeled", func() bool { return slices.Equal(labeledPods(t, client), []string{"b"}) })
}

func TestRestartedContainerRemovesItsOwnLabelWhileAnotherPodLeads(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", map[string]string{Label: "true"}), replicaPod("b", nil))
	var calls callLog
	runCandidate(t, client, "b", &calls)
	eventually(t, "b leads", func() bool { return slices.Contains(calls.all(), "b started") })
	a, _ := runCandidate(t, client, "a", &calls)
	eventually(t, "only b is labeled", func() bool { return slices.Equal(labeledPods(t, client), []string{"b"}) })
	if a.Leading() {
		t.Error("two leaders")
	}
}

func TestLeaderThatCannotReachTheAPIServerStops(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", nil))
	var unreachable atomic.Bool
	client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return unreachable.Load(), nil, errors.New("connection refused")
	})
	var calls callLog
	c, _ := runCandidate(t, client, "a", &calls)
	eventually(t, "a leads", func() bool { return slices.Equal(calls.all(), []string{"a started"}) })
	unreachable.Store(true)
	eventually(t, "a stops", func() bool { return slices.Equal(calls.all(), []string{"a started", "a work ended", "a stopped"}) })
	if c.Leading() {
		t.Error("Leading() is true after the work stopped")
	}
}

func TestInvalidDurationsAreRejectedAtTheStart(t *testing.T) {
	_, err := newCandidate(fake.NewClientset(), Options{Namespace: "n", Pod: "p", Duration: time.Second, RenewDeadline: 2 * time.Second})
	if err == nil {
		t.Error("a renew deadline after the end of the Lease was accepted")
	}
	_, err = newCandidate(fake.NewClientset(), Options{Namespace: "n", Pod: "p", RenewDeadline: 11 * time.Second,
		RetryPeriod: 10 * time.Second})
	if err == nil {
		t.Error("a leader that would renew only once before its deadline was accepted")
	}
}

// A process that was suspended still acts as the leader when it resumes, although another replica has taken the Lease in the meantime. The
// process must stop as soon as it reads the Lease with the other holder. The election alone would stop it only after RenewDeadline, for
// which the test does not wait.
func TestLeaderStopsWhenItSeesAnotherHolder(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", nil), replicaPod("b", nil))
	var lost atomic.Bool
	client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return lost.Load(), nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "gpuscaler", errors.New("another holder"))
	})
	var calls callLog
	o := testOptions("a", &calls)
	o.Duration, o.RenewDeadline = time.Minute, 40*time.Second
	a, err := newCandidate(client, o)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = a.Run(t.Context()) }()
	eventually(t, "a is labeled", func() bool { return slices.Equal(labeledPods(t, client), []string{"a"}) })

	lease, err := client.CoordinationV1().Leases("gpuscaler-system").Get(t.Context(), "gpuscaler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, now := "b", metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &b, &now
	lost.Store(true)
	if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, "gpuscaler-system"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a stops", func() bool { return slices.Contains(calls.all(), "a stopped") && !a.Leading() })
}

// leaseRecord returns the content of a Lease whose holder is the given pod.
func leaseRecord(pod string) resourcelock.LeaderElectionRecord {
	now := metav1.Now()
	return resourcelock.LeaderElectionRecord{HolderIdentity: pod, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now}
}

// client-go records an Event when a candidate becomes the leader, but also when a leader stops. Only a successful write of the Lease must
// therefore count as a won election.
func TestOnlyAWrittenLeaseIsAWin(t *testing.T) {
	client := fake.NewClientset(replicaPod("a", nil))
	var refuse atomic.Bool
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refuse.Load(), nil, errors.New("connection refused")
	})
	var calls callLog
	o := testOptions("a", &calls)
	o.Duration, o.RenewDeadline = time.Minute, 40*time.Second
	c, err := newCandidate(client, o)
	if err != nil {
		t.Fatal(err)
	}
	lock := observedLock{c.lock(), c.validity}
	refuse.Store(true)
	if lock.Create(t.Context(), leaseRecord("a")) == nil || c.Leading() {
		t.Error("a Lease that could not be created counts as won")
	}
	refuse.Store(false)
	if err := lock.Create(t.Context(), leaseRecord("a")); err != nil || !c.Leading() {
		t.Errorf("a Lease that was created does not count as won: %v", err)
	}
	c.finish(t.Context())
	lock.RecordEvent("stopped leading")
	if c.Leading() {
		t.Error(`the Event "stopped leading" counts as a win`)
	}
}

func TestLeaseThatWasNotRenewedInTimeIsNotValid(t *testing.T) {
	var calls callLog
	o := testOptions("a", &calls)
	o.Duration, o.RenewDeadline = time.Minute, 40*time.Second
	c, err := newCandidate(fake.NewClientset(), o)
	if err != nil {
		t.Fatal(err)
	}
	if c.validity.valid() || c.Leading() {
		t.Error("valid before the Lease was written")
	}
	c.validity.written(time.Now())
	if !c.validity.valid() || !c.Leading() {
		t.Error("not valid right after the Lease was written")
	}
	c.validity.renewed = c.validity.renewed.Add(-2 * time.Minute)
	if c.validity.valid() {
		t.Error("a Lease of one minute is valid two minutes later")
	}
	if c.Leading() {
		t.Error("Leading() is true two minutes after the last renewal of a Lease of one minute")
	}
	p := &podLabel{valid: c.validity.valid} // without a client: a write would panic
	if err := p.set(t.Context()); err == nil {
		t.Error("the label was set without a valid Lease")
	}
}
