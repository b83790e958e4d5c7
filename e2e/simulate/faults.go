package main

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/prometheus"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// faults contains the failures that affect the run now.
type faults struct {
	kind        prometheus.Fault
	sourceSince time.Time
	sourceUntil time.Time
	signal      string               // the only signal that the fault of Prometheus affects; empty: every signal
	frozen      map[string][]float64 // for each signal, the values of the workloads when the fault of Prometheus began
	refused     map[*pool]time.Time
	slow        time.Duration
	slowUntil   time.Time
	writes      []verdict        // the results of the next writes of NodePools, one element for each write
	races       []schedule.Event // edits by the owner that happen just before the next writes of NodePools
	stalls      []stall          // the pauses of the processes that send the next writes
	delays      []time.Duration  // for the next writes of NodePools: the time from a request until the API server applies it
}

// stall is a pause of the process that sends the next write. The process first sends the given number of requests of this write, and is
// then paused. If pods is true, the stall applies to the next write that annotates a pod.
type stall struct {
	request int
	pods    bool
	lasting time.Duration
}

// source returns the fault of Prometheus that affects a signal, and the time at which the fault began.
func (f *faults) source(now time.Time, signal string) (prometheus.Fault, time.Time) {
	if now.Before(f.sourceUntil) && (f.signal == "" || f.signal == signal) {
		return f.kind, f.sourceSince
	}
	return prometheus.Works, time.Time{}
}

func (f *faults) slowWrites(now time.Time) time.Duration {
	if now.Before(f.slowUntil) {
		return f.slow
	}
	return 0
}

// judge returns the verdict of the API server about a write of a replica.
func (s *simulation) judge(r *replica, kind string) verdict {
	f := &s.faults
	switch {
	case s.now.Before(r.cut) || !r.up:
		return lostRequest
	case kind == apiserver.KindPod:
		return accept
	case len(f.delays) > 0:
		return delayed
	case len(f.writes) == 0:
		return accept
	}
	v := f.writes[0]
	f.writes = f.writes[1:]
	return v
}

// race applies an edit by the owner to a NodePool just before a request of gpuscaler for this NodePool arrives.
func (s *simulation) race(kind, name string) {
	if kind != apiserver.KindNodePool || len(s.faults.races) == 0 {
		return
	}
	e := s.faults.races[0]
	s.ownerActs(s.poolNamed(name), e)
	s.faults.races = s.faults.races[1:]
}

func (s *simulation) poolNamed(name string) *pool {
	return s.pools[slices.IndexFunc(s.pools, func(p *pool) bool { return p.name == name })]
}

// writeFails stores a fault for a later write of gpuscaler.
func (s *simulation) writeFails(e schedule.Event) {
	switch f := &s.faults; e.Kind {
	case schedule.WriteRaced:
		e.Kind = schedule.RacedKind(e.Which)
		f.races = append(f.races, e)
	case schedule.LeaderStalls:
		next := stall{request: e.Value % 4, lasting: 10*time.Second + e.Lasting/4}
		if e.Value%8 == 7 {
			next.request, next.pods = 0, true
		}
		f.stalls = append(f.stalls, next)
	case schedule.WritesDelayed:
		f.delays = append(f.delays, time.Duration(1+e.Value%12)*time.Second)
	}
}

// verdict is the way in which the API server treats one request.
type verdict uint8

const (
	accept verdict = iota
	conflict
	tooMany
	internalError
	lostRequest  // the request times out and had no effect
	lostResponse // the request times out although it was applied
	killBefore   // the process that sent the request is killed before the API server receives it
	killAfter    // the process is killed after the request was applied and before it receives the response
	delayed      // the request times out and is applied later
)

var verdictNames = [...]string{"accepted", "409", "429", "500", "lost request", "lost response", "killed before", "killed after", "delayed"}

var (
	errTimeout = errors.New("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
	kinds      = map[string]schema.GroupVersionKind{
		apiserver.KindNodePool: karpenter.NodePoolKind, apiserver.KindPod: {Version: "v1", Kind: apiserver.KindPod},
	}
)

// failure returns the error of a request that the fault prevents, or nil if the API server applies the request.
func failure(v verdict, kind, name string) error {
	switch v {
	case conflict:
		return apierrors.NewConflict(apiserver.Resource(kinds[kind]), name, errors.New("the object has been modified"))
	case tooMany:
		return apierrors.NewTooManyRequests("too many requests", 1)
	case internalError:
		return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	case lostRequest, killBefore, delayed:
		return errTimeout
	}
	return nil
}
