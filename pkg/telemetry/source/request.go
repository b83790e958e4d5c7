// Package source contains the types that all sources of readings share: the request for the reading of one signal, and the errors of a poll
// with their causes.
package source

import (
	"context"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Request is a request for the reading of one signal of one workload.
type Request struct {
	Workload *scaling.Workload
	Signal   *scaling.Signal
	Source   *policy.Source
	// LabelValues contains the values of a selector's labels in the form that promquery.ParseShape returns. It is empty if the signal has no
	// selector.
	LabelValues string
	// Idle receives the ready pods for which the value of the signal is 0. If it is nil, they are not recorded.
	Idle *IdlePods
}

// Namespace returns the namespace of the workload.
func (r *Request) Namespace() string { return r.Workload.Key.Namespace }

// Fetcher reads the signals of one group from one data source.
type Fetcher interface {
	// Fetch sets out[i] to the reading of requests[i]. An element of out that Fetch does not set keeps the value that the caller gave it. If
	// Fetch returns an error, no element of out is valid. bytes is the number of bytes received.
	Fetch(ctx context.Context, requests []Request, out []scaling.Reading) (bytes int64, err error)
}

// Divided is implemented by a Fetcher that sends several requests in one poll, and succeeds if some of them fail.
type Divided interface {
	// FailedPart returns an error of the last poll: the error of a request that failed with the cause c, or nil if no request did. The
	// poller writes the text of this error to the log.
	FailedPart(c scaling.Cause) error
}

// Missing returns the reading of a signal that could not be read, with the cause.
func Missing(c scaling.Cause) scaling.Reading { return scaling.Reading{Reported: -1, Cause: c} }

// SetEmpty sets every reading to missing, with CauseEmpty. A Fetcher then replaces the readings for which it has data.
func SetEmpty(out []scaling.Reading) {
	for i := range out {
		out[i] = Missing(scaling.CauseEmpty)
	}
}

// IdlePods contains the ready pods for which the value of one signal is exactly 0. The zero IdlePods is ready to use and is safe for
// concurrent use.
type IdlePods struct {
	mu       sync.Mutex
	recorded bool
	at       time.Time
	pods     []string
}

// Record replaces the recorded pods. at is the time of the oldest sample of these pods.
func (p *IdlePods) Record(at time.Time, pods []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recorded, p.at, p.pods = true, at, pods
}

// Latest returns the pods and the time of the last call of Record. ok is false before the first call of Record. Record is not called
// before the first poll, or if the source does not return a value for each pod.
func (p *IdlePods) Latest() (pods []string, at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods, p.at, p.recorded
}
