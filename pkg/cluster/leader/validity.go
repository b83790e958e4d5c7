package leader

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseValidity records until when this process may hold the Lease. A process that did not run for a while (a suspended machine, a
// throttled container) still acts as the leader when it resumes. The election stops it only after RenewDeadline. Until then, its expired
// timers would make it write objects, although another replica may lead.
type leaseValidity struct {
	duration time.Duration
	won      func() // called after each write that made or kept this process the holder; nil: none

	mu      sync.Mutex
	renewed time.Time
	lost    func() // called when another replica is found to be the holder; nil: this process has won no election
}

// onLoss sets the function that is called once, when this process reads that another replica holds the Lease.
func (v *leaseValidity) onLoss(lost func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost = lost
}

// written records that this process has written the Lease with its own name. began is the time at which the request began. The Lease is
// valid from this time, because a standby can read it before the response reaches this process.
func (v *leaseValidity) written(began time.Time) {
	v.mu.Lock()
	v.renewed = began
	v.mu.Unlock()
	if v.won != nil {
		v.won()
	}
}

// valid reports whether less than the duration of the Lease has passed since its last write. It checks the monotonic clock and the wall
// clock, because the monotonic clock does not advance while a machine is suspended, and the wall clock can be set back.
func (v *leaseValidity) valid() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now() // may use the clock: compared with the time at which the Lease was written
	return now.Sub(v.renewed) < v.duration && now.Round(0).Sub(v.renewed.Round(0)) < v.duration
}

// otherHolder records that another replica holds the Lease.
func (v *leaseValidity) otherHolder() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost != nil {
		v.lost()
		v.lost = nil
	}
}

// observedLock reports each read and write of the Lease to a leaseValidity. Only a successful write shows reliably that the election was
// won. OnStartedLeading does not show it, because it runs in its own goroutine and may still be called after the election was stopped. The
// Events of the election do not show it either, because client-go also sends one when a leader stops.
type observedLock struct {
	*resourcelock.LeaseLock
	validity *leaseValidity
}

func (l observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.validity.otherHolder()
	}
	return record, raw, err
}

func (l observedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	began := time.Now() // may use the clock: the Lease is valid from this time
	err := l.LeaseLock.Create(ctx, r)
	if err == nil {
		l.validity.written(began)
	}
	return err
}

func (l observedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	began := time.Now() // may use the clock: the Lease is valid from this time
	err := l.LeaseLock.Update(ctx, r)
	if err == nil {
		l.validity.written(began)
	}
	return err
}
