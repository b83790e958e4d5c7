package leader

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseValidity records until when this process holds the Lease with certainty. A process that did not run for some time (on a suspended
// machine or in a throttled container) still acts as the leader when it resumes, until the election stops it after RenewDeadline. Before
// that, its expired timers would make it write objects, although another replica may lead.
type leaseValidity struct {
	duration time.Duration
	won      func() // called after each write that made or kept this process the holder; nil: no function is called

	mu      sync.Mutex
	renewed time.Time
	lost    func() // called when this process reads that another replica is the holder; nil: this process has won no election
}

// onLoss sets the function that is called once, when this process reads that another replica holds the Lease.
func (v *leaseValidity) onLoss(lost func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost = lost
}

// written records that this process has written the Lease with its own name. began is the time at which the request was sent. The duration
// of the Lease is counted from began, because a standby can read the Lease before the response reaches this process.
func (v *leaseValidity) written(began time.Time) {
	v.mu.Lock()
	v.renewed = began
	v.mu.Unlock()
	if v.won != nil {
		v.won()
	}
}

// valid reports whether less than the duration of the Lease has passed since its last write. It checks two clocks. The monotonic clock does
// not advance while a machine is suspended, and the wall clock can be set back.
func (v *leaseValidity) valid() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now() // may use the clock: compared with the time at which the Lease was written
	return now.Sub(v.renewed) < v.duration && now.Round(0).Sub(v.renewed.Round(0)) < v.duration
}

// otherHolder records that the Lease has another holder.
func (v *leaseValidity) otherHolder() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lost != nil {
		v.lost()
		v.lost = nil
	}
}

// observedLock reports each read and write of the Lease to a leaseValidity. Only a successful write proves that this process won the
// election. A call of OnStartedLeading is no proof, because it runs in its own goroutine and may be called after the election was stopped.
// An Event of the election is no proof, because client-go also sends an Event when a leader stops.
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
