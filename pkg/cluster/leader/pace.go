package leader

import (
	"context"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Divisors of RetryPeriod. client-go's election waits 1 to 2.2 times its retry period between two attempts to get or renew the Lease. A
// standby that replaces a crashed leader waits for two attempts: the attempt that reads the last renewal, and the attempt after the Lease
// has expired. With attempts every 2 s, the standby became the leader up to 9 s after the Lease had expired. The election therefore makes
// more attempts, and pacedLock limits the requests that these attempts send.
const (
	attemptsPerRetry = 10 // attempts of the election per RetryPeriod
	readsPerRetry    = 4  // maximum number of reads of the Lease by a standby per RetryPeriod
)

// pacedLock limits the requests of the election. If the last request is recent, it returns the result of that request to an attempt of the
// election and sends no new request. It needs no mutex, because the calls of one election are sequential. A stored result can be outdated,
// but the API server rejects a write of an outdated Lease because of its resource version.
type pacedLock struct {
	observedLock
	retry       time.Duration // RetryPeriod of the Options
	read, write answer
}

// answer is the result of a request.
type answer struct {
	at     time.Time // time before the request; zero: no request was made
	record *resourcelock.LeaderElectionRecord
	raw    []byte
	err    error
}

// recent reports whether the request was sent less than d ago.
func (a *answer) recent(d time.Duration) bool {
	return !a.at.IsZero() && time.Since(a.at) < d // may use the clock: paces requests
}

func (l *pacedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if !l.read.recent(l.retry / readsPerRetry) {
		l.read = answer{at: time.Now()} // may use the clock: paces requests
		l.read.record, l.read.raw, l.read.err = l.observedLock.Get(ctx)
	}
	return l.read.record, l.read.raw, l.read.err
}

func (l *pacedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.paced(func() error { return l.observedLock.Create(ctx, r) })
}

func (l *pacedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.paced(func() error { return l.observedLock.Update(ctx, r) })
}

// paced writes the Lease, unless a write succeeded less than RetryPeriod ago, or failed less than RetryPeriod/readsPerRetry ago. In these
// cases it returns the result of that write.
func (l *pacedLock) paced(write func() error) error {
	pause := l.retry
	if l.write.err != nil {
		pause /= readsPerRetry
	}
	if !l.write.recent(pause) {
		l.write = answer{at: time.Now()} // may use the clock: paces requests
		if l.write.err = write(); l.write.err != nil {
			l.read = answer{} // read the Lease again, because the stored Lease is outdated
		}
	}
	return l.write.err
}
