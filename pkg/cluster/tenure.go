package cluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// tenure is how long our Lease is good for, as far as we know ourselves. A process that stood still (a suspended machine, a
// throttled container) wakes up as the leader that it was: the election notices only after RenewDeadline, and by then every timer
// of ours has run out and would have written.
type tenure struct {
	length time.Duration

	mu      sync.Mutex
	renewed time.Time
	lost    func() // ends the term; nil while there is none
}

// begin starts a term that lost would end.
func (t *tenure) begin(lost func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = lost
}

func (t *tenure) renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = time.Now() // I/O edge: the Lease has just been written
}

// valid reports whether the Lease can still be ours. Both clocks must agree: the monotonic one stands still while a machine is
// suspended, the wall clock may be set back.
func (t *tenure) valid() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now() // I/O edge: as above
	return now.Sub(t.renewed) < t.length && now.Round(0).Sub(t.renewed.Round(0)) < t.length
}

// overtaken ends the term: somebody else holds the Lease.
func (t *tenure) overtaken() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		t.lost()
		t.lost = nil
	}
}

// tenuredLock tells a tenure what becomes of the Lease.
type tenuredLock struct {
	*resourcelock.LeaseLock
	tenure *tenure
}

func (l tenuredLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil && record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		l.tenure.overtaken()
	}
	return record, raw, err
}

func (l tenuredLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Create(ctx, r)
	if err == nil {
		l.tenure.renew()
	}
	return err
}

func (l tenuredLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.LeaseLock.Update(ctx, r)
	if err == nil {
		l.tenure.renew()
	}
	return err
}
