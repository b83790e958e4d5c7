package leader

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseValidity records how long the Lease is valid as far as this process knows. A process that did not run for a while (a
// suspended machine, a throttled container) resumes as the leader that it was. The election notices the loss only after
// RenewDeadline, and until then every expired timer of this process would write.
type leaseValidity struct {
	duration time.Duration
	won      func() // called after each write that made or kept this process the holder; nil: none

	mu      sync.Mutex
	renewed time.Time
	lost    func() // called when another holder is seen; nil: no election is won
}

// onLoss sets the function that is called once when another holder is seen.
func (v *leaseValidity) onLoss(lost func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost = lost
}

// written records that this process has just written the Lease with its own name.
func (v *leaseValidity) written() {
	v.mu.Lock()
	v.renewed = time.Now() // I/O edge: the time at which the Lease was written
	v.mu.Unlock()
	if v.won != nil {
		v.won()
	}
}

// valid reports whether this process can still be the holder. Both clocks are compared: the monotonic clock does not advance while
// a machine is suspended, and the wall clock can be set back.
func (v *leaseValidity) valid() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now() // I/O edge: compared with the time at which the Lease was written
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

// observedLock reports each read and write of the Lease to a leaseValidity. A win is known in the very call that writes the Lease:
// OnStartedLeading runs in its own goroutine, too late to distinguish an election that was stopped before the win from one that was
// stopped right after it. The Events of the election do not serve either, because it also sends one when it stops.
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
	err := l.LeaseLock.Create(ctx, r)
	if err == nil {
		l.validity.written()
	}
	return err
}

func (l observedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Update(ctx, r)
	if err == nil {
		l.validity.written()
	}
	return err
}
