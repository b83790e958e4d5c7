package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// LeaderOptions say who campaigns for which Lease, and what leading means.
type LeaderOptions struct {
	Namespace string // of the Lease and of the pods
	Lease     string // name of the Lease; empty means gpuscaler
	Pod       string // our own pod, which is marked while we lead; also our identity in the Lease
	// Selector narrows the pods among which a stale mark is looked for, where two releases share a namespace.
	Selector string

	// Duration is how long a silent leader is believed, RenewDeadline when it gives up by itself, RetryPeriod how often both try.
	// Zero values mean 15 s, 10 s and 2 s. Duration > RenewDeadline > RetryPeriod * 1.2.
	Duration, RenewDeadline, RetryPeriod time.Duration

	// OnStartedLeading runs while we lead, and returns soon after its context ends: only then is the Lease given up.
	OnStartedLeading func(context.Context)
	// OnStoppedLeading runs after OnStartedLeading has returned.
	OnStoppedLeading func()
	Log              *slog.Logger // nil: slog.Default()
}

// Leader campaigns for the Lease and, while it holds it, keeps the leader label on its own pod and on no other.
type Leader struct {
	options LeaderOptions
	log     *slog.Logger
	client  kubernetes.Interface
	mark    *leaderMark
	tenure  *tenure
	leading atomic.Bool
}

// NewLeader prepares a campaign; nothing is written before Run.
func NewLeader(cfg *rest.Config, o LeaderOptions) (*Leader, error) {
	o.defaults()
	own := rest.CopyConfig(cfg)
	own.Timeout = o.RenewDeadline // a hung connection must not outlive the lease
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("leader election client: %w", err)
	}
	return newLeader(client, o)
}

func newLeader(client kubernetes.Interface, o LeaderOptions) (*Leader, error) {
	o.defaults()
	if o.Namespace == "" || o.Pod == "" {
		return nil, errors.New("leader election needs the namespace and the name of this pod")
	}
	l := &Leader{options: o, log: o.Log, client: client, tenure: &tenure{length: o.Duration}}
	l.mark = &leaderMark{client: client, namespace: o.Namespace, pod: o.Pod, selector: o.Selector, valid: l.tenure.valid, log: o.Log}
	_, err := l.elector(nil, nil) // refuse durations that cannot work before they are needed
	return l, err
}

func (o *LeaderOptions) defaults() {
	if o.Lease == "" {
		o.Lease = "gpuscaler"
	}
	if o.Duration == 0 {
		o.Duration = 15 * time.Second
	}
	if o.RenewDeadline == 0 {
		o.RenewDeadline = 10 * time.Second
	}
	if o.RetryPeriod == 0 {
		o.RetryPeriod = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Leading reports whether we hold the Lease, and renewed it lately enough that nobody else can.
func (l *Leader) Leading() bool { return l.leading.Load() && l.tenure.valid() }

// Run campaigns until ctx ends, again after each loss. A graceful stop ends the work first, then takes the mark away, then gives
// the Lease up, so that the next leader starts at once and never beside this one.
func (l *Leader) Run(ctx context.Context) error {
	l.mark.clearOwn(ctx) // a container that crashed as the leader comes back in the same pod, marked still
	for ctx.Err() == nil {
		if err := l.term(ctx); err != nil {
			return err
		}
	}
	return nil
}

// term is one campaign and, where it is won, one time of leading.
func (l *Leader) term(ctx context.Context) error {
	// The election goes on while the work ends: it is told to stop only after that, so the Lease is held to the last.
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	working := make(chan struct{})
	elector, err := l.elector(
		func(held context.Context) {
			defer close(working)
			l.tenure.begin(endElection)
			l.lead(ctx, held)
			endElection()
		},
		func() {},
	)
	if err != nil {
		return err
	}
	// Until the election is won there is no work to wait for.
	defer context.AfterFunc(ctx, func() {
		if !l.leading.Load() {
			endElection()
		}
	})()
	elector.Run(election)
	if !l.leading.Load() {
		return nil
	}
	<-working
	l.finish(ctx)
	return nil
}

// lead works until the process stops or the Lease is lost.
func (l *Leader) lead(stop, held context.Context) {
	l.log.Info("leading", "lease", l.options.Lease, "pod", l.options.Pod)
	work, end := context.WithCancel(held)
	defer end()
	defer context.AfterFunc(stop, end)()
	go l.mark.keep(work)
	if l.options.OnStartedLeading != nil {
		l.options.OnStartedLeading(work)
	}
	<-work.Done()
}

// finish gives up what marks a leader. The API server may be the reason why we stopped: each step is bounded and may fail, as
// the next leader takes away a mark that stayed.
func (l *Leader) finish(ctx context.Context) {
	l.leading.Store(false)
	if l.options.OnStoppedLeading != nil {
		l.options.OnStoppedLeading()
	}
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.options.RetryPeriod)
	defer cancel()
	l.mark.clearOwn(ended)
	l.release(ended)
	l.log.Info("no longer leading", "lease", l.options.Lease, "pod", l.options.Pod)
}

func (l *Leader) elector(started func(context.Context), stopped func()) (*leaderelection.LeaderElector, error) {
	if started == nil {
		started, stopped = func(context.Context) {}, func() {}
	}
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          tenuredLock{l.lock(), l.tenure},
		LeaseDuration: l.options.Duration,
		RenewDeadline: l.options.RenewDeadline,
		RetryPeriod:   l.options.RetryPeriod,
		Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: started, OnStoppedLeading: stopped},
		// Not ReleaseOnCancel: it releases before it tells the work to stop, and where the API server does not answer it would
		// keep the work going past the end of the lease.
		Name: l.options.Lease,
	})
}

func (l *Leader) lock() *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.options.Namespace, Name: l.options.Lease},
		Client:     l.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.options.Pod, EventRecorder: won{l}},
	}
}

// won hears of a won election in the very call that won it. OnStartedLeading runs in a goroutine of its own and cannot tell an
// election that was stopped before it was won from one that was stopped right after.
type won struct{ leader *Leader }

func (w won) Eventf(runtime.Object, string, string, string, ...any) { w.leader.leading.Store(true) }

// release empties the Lease where it is still ours, so that a standby need not wait for it to run out.
func (l *Leader) release(ctx context.Context) {
	lock := l.lock()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != l.options.Pod {
		return
	}
	now := metav1.Now() // I/O edge: the Lease's own clock fields
	err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, LeaderTransitions: record.LeaderTransitions, AcquireTime: now, RenewTime: now,
	})
	if err != nil {
		l.log.Warn("the lease was not released and will run out", "error", err)
	}
}
