package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promquery"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

const (
	defaultTimeout = 10 * time.Second
	// startSpread is the period over which the first polls of all groups are distributed, so that the start of the process does not cause a
	// burst of requests.
	startSpread = 250 * time.Millisecond
	// noPodsInterval is the interval of polls while no workload of a group has pods. It is short so that new pods are read soon. It causes no
	// load, because such a poll sends no requests.
	noPodsInterval = 2 * time.Second
	// keptReadings is the greatest number of signals of a group for which a runner keeps its temporary list of readings between polls. A
	// longer list is freed after each poll, because it uses as much memory as the stored readings. A new allocation every 15 s costs
	// little.
	keptReadings = 1024
	// standbyInterval is how often a standby checks whether it has become the leader. The check sends no request.
	standbyInterval = 250 * time.Millisecond
	// extraPollDelay is the delay of the extra poll for new signals. Several edits within this time cause only one extra poll.
	extraPollDelay = 500 * time.Millisecond
)

// runner polls one group until it is stopped.
type runner struct {
	poller *Poller
	group  atomic.Pointer[group]
	extra  chan struct{} // receives a request for an extra poll
	cancel chan struct{}

	fetcher source.Fetcher
	out     []scaling.Reading
	noPods  time.Time // time of the last recorded poll that found no pods; zero if the last poll found pods

	mu     sync.Mutex
	status pollStatus
}

// pollResult is the result of one poll.
type pollResult struct {
	readings []scaling.Reading
	bytes    int64
	err      error // error that makes the whole poll fail
	received time.Time
	took     time.Duration
}

func newRunner(g *group, p *Poller) *runner {
	r := &runner{poller: p, extra: make(chan struct{}, 1), cancel: make(chan struct{})}
	r.group.Store(g)
	return r
}

func (r *runner) stop() { close(r.cancel) }

// update replaces the group. It requests an extra poll if the group has a new signal or a signal that was never read.
func (r *runner) update(g *group) {
	old := r.group.Swap(g)
	if len(g.destinations) != len(old.destinations) || g.hasNew() {
		select {
		case r.extra <- struct{}{}:
		default:
		}
	}
}

// hasNew reports whether the group has a signal that was never read.
func (g *group) hasNew() bool {
	for i := range g.destinations {
		if s := &g.destinations[i]; s.entry.get(s.index).Cause == scaling.CauseNever {
			return true
		}
	}
	return false
}

// run polls until ctx ends or the runner is stopped.
func (r *runner) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.cancel:
			cancel()
		case <-ctx.Done():
		}
	}()
	next := now().Add(rand.N(startSpread))
	timer := time.NewTimer(time.Until(next)) // may use the clock: schedules polls by the real clock
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.closeFetcher()
			r.poller.deleteSkew(r.group.Load())
			return
		case <-r.extra:
			// An extra poll can only move the next poll to an earlier time. Otherwise continuous edits would postpone the next poll forever.
			if soon := now().Add(extraPollDelay); soon.Before(next) {
				next = soon
				timer.Reset(extraPollDelay)
			}
			continue
		case <-timer.C:
		}
		started := now()
		if !r.poller.leading() {
			next = started.Add(standbyInterval)
			timer.Reset(standbyInterval)
			continue
		}
		r.poll(ctx)
		pause := jitter(r.group.Load().interval())
		if !r.noPods.IsZero() {
			pause = min(pause, noPodsInterval)
		}
		next = now().Add(max(pause-now().Sub(started), 10*time.Millisecond))
		timer.Reset(time.Until(next)) // may use the clock: schedules polls by the real clock
	}
}

// jitter changes an interval at random by up to 5%, so that polls that start at the same time do not stay synchronous.
func jitter(d time.Duration) time.Duration { return d - d/20 + rand.N(d/10+1) }

func (g *group) interval() time.Duration {
	if g.source.Interval > 0 {
		return g.source.Interval
	}
	return policy.DefaultInterval
}

// timeout returns the time limit of one poll. It is never longer than the interval.
func (g *group) timeout() time.Duration {
	if g.source.Timeout > 0 {
		return min(g.source.Timeout, g.interval())
	}
	return min(defaultTimeout, g.interval())
}

// poll reads the group once and stores the readings.
func (r *runner) poll(ctx context.Context) {
	g := r.group.Load()
	release, err := r.poller.sources.acquire(ctx, g)
	if err != nil {
		return // the runner was stopped while the poll waited in the queue
	}
	defer release()
	started := now()
	bytes, err := r.fetch(ctx, g)
	if ctx.Err() != nil {
		return // the runner was stopped, so this is not a failed poll
	}
	received := now()
	if errors.Is(err, source.ErrNoPods) {
		if received.Sub(r.noPods) < g.interval() {
			return // a poll without pods was already recorded in this interval
		}
		r.noPods, err = received, nil
	} else {
		r.noPods = time.Time{}
	}
	p := pollResult{readings: r.out[:len(g.requests)], bytes: bytes, err: err, received: received, took: received.Sub(started)}
	for i := range p.readings {
		reading := &p.readings[i]
		if err != nil {
			*reading = source.Missing(source.CauseOf(err))
		} else if reading.Known {
			*reading = checkTime(checkValue(*reading, g.requests[i].Signal), received)
		}
		g.destinations[i].entry.record(g.destinations[i].index, *reading)
	}
	r.report(g, &p)
	r.reportSkew(g)
	r.poller.metrics.observe(g, &p)
	if cap(r.out) > keptReadings {
		r.out = nil
	}
}

// fetch reads the values of a group into r.out, within the time limit of the group.
func (r *runner) fetch(ctx context.Context, g *group) (bytes int64, err error) {
	defer source.Recover(&err)
	if cap(r.out) < len(g.requests) {
		r.out = make([]scaling.Reading, len(g.requests))
	}
	r.out = r.out[:len(g.requests)]
	source.SetEmpty(r.out)
	if r.fetcher == nil {
		f, err := r.poller.sources.fetcher(g)
		if err != nil {
			return 0, err // the next poll tries again, because a missing certificate may be mounted later
		}
		r.fetcher = f
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout())
	defer cancel()
	return r.fetcher.Fetch(ctx, g.requests, r.out)
}

func (r *runner) closeFetcher() {
	if c, ok := r.fetcher.(interface{ Close() }); ok {
		c.Close()
	}
}

// report stores the status of a poll. It logs when a source begins to fail, when it fails for another cause, and when it works again.
func (r *runner) report(g *group, p *pollResult) {
	s := pollStatus{
		Source: g.source.Name, Poll: g.key.kind.String(), Name: g.name(), Signals: len(g.requests),
		At: p.received, Took: p.took, Cause: source.CauseOf(p.err),
	}
	s.Skew, _ = r.skew(g)
	for i := range p.readings {
		if p.readings[i].Known {
			s.Known++
		}
		switch p.readings[i].Cause {
		case scaling.CauseUntimed:
			s.Untimed++
		case scaling.CauseForbidden, scaling.CauseUnauthorized:
			if p.err == nil {
				s.Refused++
				s.Example = fmt.Sprintf("%s of %s: %s", g.requests[i].Signal.Name, g.requests[i].Workload.Key, p.readings[i].Cause)
			}
		case scaling.CauseHTTPError, scaling.CauseRejected: // the command explain refers the user to the log for the HTTP status
			if f, is := r.fetcher.(source.Divided); is && p.err == nil && s.Part == nil {
				s.Part = f.FailedPart(p.readings[i].Cause)
			}
		}
	}
	if f, is := r.fetcher.(*promquery.Fetcher); is {
		s.Violations = violationsOf(f, g)
	}
	r.mu.Lock()
	last := r.status
	if p.err != nil {
		// A failed poll has no sample times and no answers for single signals, so the numbers of the previous poll are kept.
		s.Error, s.Untimed, s.Refused, s.Example = p.err.Error(), last.Untimed, last.Refused, last.Example
	}
	r.status = s
	r.mu.Unlock()
	r.logChange(&last, &s)
}

// logChange logs a change of the cause. It does not log a change of the error text alone, which may differ from poll to poll.
func (r *runner) logChange(last, s *pollStatus) {
	log := r.poller.options.Logger.With("source", s.Source, "poll", s.Poll, "name", s.Name, "signals", s.Signals)
	switch {
	case s.Cause == last.Cause:
	case s.Cause != scaling.CauseNone:
		log.Warn("poll of the data source failed", "cause", s.Cause.Label(), "error", s.Error)
	default:
		log.Info("poll of the data source works again")
	}
	switch cause := source.CauseOf(s.Part); {
	case cause == source.CauseOf(last.Part):
	case s.Part != nil:
		log.Warn("a part of the poll of the data source failed", "cause", cause.Label(), "error", s.Part)
	case s.Cause == scaling.CauseNone:
		log.Info("every part of the poll of the data source works again")
	}
	switch {
	case s.Refused > 0 && last.Refused == 0:
		log.Warn("the data source rejects the requests of some signals; they count as missing. `gpuscaler explain` shows the next step",
			"rejected", s.Refused, "example", s.Example)
	case s.Refused == 0 && last.Refused > 0 && s.Cause == scaling.CauseNone:
		log.Info("the data source does not reject requests of signals any more")
	}
	switch {
	case s.Untimed > 0 && last.Untimed == 0:
		log.Warn("samples have no usable time: it is more than 2s ahead of gpuscaler's clock or is not a time; the signals count as missing. "+
			"Set the clock of the source by NTP", "untimed", s.Untimed)
	case s.Untimed == 0 && last.Untimed > 0:
		log.Info("samples have usable times again")
	}
}
