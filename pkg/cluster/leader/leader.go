// Package leader elects one replica of gpuscaler as the leader by a Lease. The leader sets the label gpuscaler.io/leader on its own pod and
// removes it from all other pods, so that the Services select only the leader. Leading returns false as soon as another replica may hold
// the Lease, even in a process that was suspended for some time.
//
// The package also takes the Lease for a command (Taking) and reports whether another release leads (Releases).
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Options configure a Candidate.
type Options struct {
	Namespace string // namespace of the Lease and of the pods
	Lease     string // name of the Lease; empty: "gpuscaler"
	Pod       string // name of this process's pod, which is also the identity in the Lease; the pod has the label while this process leads
	// Selector selects the pods of this release. The leader removes the label only from these pods, because two releases may share a
	// namespace.
	Selector string

	// Duration is the time after which a Lease that is not renewed expires. RenewDeadline is the time after which a leader that cannot renew
	// its Lease stops leading. RetryPeriod is the time between two renewals. A standby reads the Lease about three times per RetryPeriod. Zero
	// values mean 15 s, 10 s and 2 s. Required: Duration > RenewDeadline > RetryPeriod * 1.2.
	Duration, RenewDeadline, RetryPeriod time.Duration

	// OnStartedLeading is called when this process becomes the leader. It must return soon after its context ends, because the Lease is
	// released only after its return.
	OnStartedLeading func(context.Context)
	// OnStoppedLeading runs after OnStartedLeading has returned.
	OnStoppedLeading func()
	Log              *slog.Logger // nil: slog.Default()
}

// Candidate takes part in the election. While it holds the Lease, it keeps the leader label on its own pod and on no other pod.
type Candidate struct {
	options  Options
	log      *slog.Logger
	client   kubernetes.Interface
	label    *podLabel
	validity *leaseValidity
	leading  atomic.Bool
}

// New returns a Candidate. It writes nothing before Run.
func New(cfg *rest.Config, o Options) (*Candidate, error) {
	o.defaults()
	own := rest.CopyConfig(cfg)
	own.Timeout = o.RenewDeadline // so that a request without a response ends before the Lease expires
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("leader election client: %w", err)
	}
	return newCandidate(client, o)
}

func newCandidate(client kubernetes.Interface, o Options) (*Candidate, error) {
	o.defaults()
	if o.Namespace == "" || o.Pod == "" {
		return nil, errors.New("leader election needs the namespace and the name of this pod")
	}
	c := &Candidate{options: o, log: o.Log, client: client}
	c.validity = &leaseValidity{duration: o.Duration, won: func() { c.leading.Store(true) }}
	c.label = &podLabel{client: client, namespace: o.Namespace, pod: o.Pod, selector: o.Selector, valid: c.validity.valid, log: o.Log}
	if o.RenewDeadline <= o.RetryPeriod*6/5 {
		return nil, fmt.Errorf("leader election: the renew deadline %s must be longer than 1.2 retry periods of %s",
			o.RenewDeadline, o.RetryPeriod)
	}
	_, err := c.elector(nil, nil) // checks the other conditions on the durations before the election starts
	return c, err
}

func (o *Options) defaults() {
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

// Leading reports whether this process holds the Lease and renewed the Lease so recently that no other replica can hold it.
func (c *Candidate) Leading() bool { return c.leading.Load() && c.validity.valid() }

// Run takes part in the election until ctx ends. After a loss of the Lease it takes part in the next election. When ctx ends, Run first
// waits until OnStartedLeading has returned, then removes the label, and then releases the Lease. The next leader can therefore start
// immediately, and two replicas never lead at the same time.
func (c *Candidate) Run(ctx context.Context) error {
	c.label.clearOwn(ctx) // after a crash of the container, the pod may still have the label
	for ctx.Err() == nil {
		if err := c.elect(ctx); err != nil {
			return err
		}
	}
	return nil
}

// elect takes part in one election. If this process becomes the leader, elect returns when the process no longer leads.
func (c *Candidate) elect(ctx context.Context) error {
	// not derived from ctx, because the election must renew the Lease until OnStartedLeading has returned
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	working := make(chan struct{})
	elector, err := c.elector(
		func(held context.Context) {
			defer close(working)
			c.validity.onLoss(endElection)
			c.lead(ctx, held)
			endElection()
		},
		func() {},
	)
	if err != nil {
		return err
	}
	// while this process does not lead, OnStartedLeading is not running, so the election can end together with ctx
	defer context.AfterFunc(ctx, func() {
		if !c.leading.Load() {
			endElection()
		}
	})()
	elector.Run(election)
	if !c.leading.Load() {
		return nil
	}
	<-working
	c.finish(ctx)
	return nil
}

// lead calls OnStartedLeading and keeps the label on this process's pod. It ends when the context stop ends (this process stops) or the
// context held ends (the Lease is lost). It returns only after its goroutines have ended. Otherwise a goroutine could set the label on the
// pod after this process has stopped leading.
func (c *Candidate) lead(stop, held context.Context) {
	c.log.Info("became the leader", "lease", c.options.Lease, "pod", c.options.Pod)
	work, end := context.WithCancel(held)
	var labeling sync.WaitGroup
	defer labeling.Wait()
	defer end()
	defer context.AfterFunc(stop, end)()
	labeling.Go(func() { c.label.keep(work) })
	if c.options.OnStartedLeading != nil {
		c.options.OnStartedLeading(work)
	}
	<-work.Done()
}

// finish removes the label and releases the Lease, within a time limit. If the API server is unreachable, both steps fail. The next leader
// then removes the label, and the Lease expires.
func (c *Candidate) finish(ctx context.Context) {
	c.leading.Store(false)
	if c.options.OnStoppedLeading != nil {
		c.options.OnStoppedLeading()
	}
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.RetryPeriod)
	defer cancel()
	c.label.clearOwn(ended)
	c.release(ended)
	c.log.Info("no longer the leader", "lease", c.options.Lease, "pod", c.options.Pod)
}

func (c *Candidate) elector(started func(context.Context), stopped func()) (*leaderelection.LeaderElector, error) {
	if started == nil {
		started, stopped = func(context.Context) {}, func() {}
	}
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          &pacedLock{observedLock: observedLock{c.lock(), c.validity}, retry: c.options.RetryPeriod},
		LeaseDuration: c.options.Duration,
		RenewDeadline: c.options.RenewDeadline,
		RetryPeriod:   c.options.RetryPeriod / attemptsPerRetry,
		Callbacks:     leaderelection.LeaderCallbacks{OnStartedLeading: started, OnStoppedLeading: stopped},
		// ReleaseOnCancel is not set. It would release the Lease before OnStartedLeading has returned. It would also let OnStartedLeading run
		// after the Lease has expired while the API server does not respond.
		Name: c.options.Lease,
	})
}

func (c *Candidate) lock() *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: c.options.Namespace, Name: c.options.Lease},
		Client:     c.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.options.Pod},
	}
}

// release clears the holder in the Lease if the holder is this process. A standby can then lead without waiting for the Lease to expire.
func (c *Candidate) release(ctx context.Context) {
	lock := c.lock()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != c.options.Pod {
		return
	}
	now := metav1.Now() // may use the clock: the Lease records when it was renewed
	err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaseDurationSeconds: 1, LeaderTransitions: record.LeaderTransitions, AcquireTime: now, RenewTime: now,
	})
	if err != nil {
		c.log.Warn("the Lease was not released; a standby can lead when it has expired", "lease", c.options.Lease, "error", err)
	}
}
