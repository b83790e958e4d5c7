package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// fetcher asks one source once for everything that a group's slots want.
type fetcher interface {
	// fetch fills out, parallel to slots; what it leaves untouched reads as empty. An error is the whole poll's: no slot learns
	// anything of it. bytes is how much was received.
	fetch(ctx context.Context, slots []slot, out []scaling.Reading) (bytes int64, err error)
}

// errNoPods says that no workload of a group has a pod, so that nothing was asked.
var errNoPods = errors.New("no pods")

const (
	defaultInterval = 15 * time.Second
	defaultTimeout  = 10 * time.Second
	// noPodsDelay is how soon the pods are looked for again where there were none: it costs no request, and pods that have just become
	// ready must not wait for a whole interval.
	noPodsDelay = 2 * time.Second
	// keptReadings is for how many signals a poll keeps its memory until the next: made anew each 15 s it costs nothing, kept it is as
	// large as all that ticks read.
	keptReadings = 1024
	// standbyDelay is how often a standby looks whether it has become the leader. It costs no request.
	standbyDelay = 250 * time.Millisecond
	// kickDelay gathers the changes of a burst of edits into one extra poll.
	kickDelay = 500 * time.Millisecond
)

// runner polls one group until it is stopped.
type runner struct {
	poller *Poller
	group  atomic.Pointer[group]
	kick   chan struct{}
	cancel chan struct{}

	fetcher fetcher
	out     []scaling.Reading
	noPods  time.Time // when a poll was last spared because there are no pods; zero: the last poll was not

	mu     sync.Mutex
	status PollStatus
}

func newRunner(g *group, p *Poller) *runner {
	r := &runner{poller: p, kick: make(chan struct{}, 1), cancel: make(chan struct{})}
	r.group.Store(g)
	return r
}

func (r *runner) stop() { close(r.cancel) }

// update hands over new slots; a slot that has never been read is polled soon.
func (r *runner) update(g *group) {
	old := r.group.Swap(g)
	if len(g.slots) != len(old.slots) || fresh(g.slots) {
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
}

func fresh(slots []slot) bool {
	for i := range slots {
		if s := &slots[i]; s.entry.get(s.index).Cause == scaling.CauseNever {
			return true
		}
	}
	return false
}

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
	// The first polls are spread over a quarter of a second: a start must not be a burst, and must not take an interval either.
	next := now().Add(rand.N(250 * time.Millisecond))
	timer := time.NewTimer(time.Until(next)) // I/O edge: how long a poll may wait
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.closeFetcher()
			r.poller.forgetClock(r.group.Load())
			return
		case <-r.kick:
			// Never later than planned: a stream of edits would put the poll off for ever.
			if soon := now().Add(kickDelay); soon.Before(next) {
				next = soon
				timer.Reset(kickDelay)
			}
			continue
		case <-timer.C:
		}
		started := now()
		if !r.poller.leading() {
			next = started.Add(standbyDelay)
			timer.Reset(standbyDelay)
			continue
		}
		r.poll(ctx)
		pause := jitter(r.group.Load().interval())
		if !r.noPods.IsZero() {
			pause = min(pause, noPodsDelay)
		}
		next = now().Add(max(pause-now().Sub(started), 10*time.Millisecond))
		timer.Reset(time.Until(next)) // I/O edge: how long a poll may wait
	}
}

// jitter spreads polls by a tenth, so that those which started together do not stay together.
func jitter(d time.Duration) time.Duration { return d - d/20 + rand.N(d/10+1) }

func (g *group) interval() time.Duration {
	if g.source.Interval > 0 {
		return g.source.Interval
	}
	return defaultInterval
}

func (g *group) timeout() time.Duration {
	if g.source.Timeout > 0 {
		return min(g.source.Timeout, g.interval())
	}
	return min(defaultTimeout, g.interval())
}

func (r *runner) poll(ctx context.Context) {
	g := r.group.Load()
	release, err := r.poller.links.enter(ctx, g)
	if err != nil {
		return // stopped while waiting for its turn
	}
	defer release()
	started := now()
	bytes, err := r.fetch(ctx, g)
	if ctx.Err() != nil {
		return // stopped: a poll that we broke off ourselves is no failure
	}
	received := now()
	if errors.Is(err, errNoPods) {
		if received.Sub(r.noPods) < g.interval() {
			return // counted already: a look at an empty list is no failed poll
		}
		r.noPods, err = received, nil
	} else {
		r.noPods = time.Time{}
	}
	for i := range g.slots {
		s := &g.slots[i]
		out := &r.out[i]
		if err != nil {
			*out = scaling.Reading{Reported: -1, Cause: causeOf(err)}
		} else if out.Known {
			*out = datable(sane(*out, s.signal), received)
		}
		s.entry.record(s.index, *out)
	}
	r.note(g, err, received, received.Sub(started))
	r.compareClocks(g)
	r.poller.metrics.observe(g, received.Sub(started), bytes, r.out[:len(g.slots)], err)
	if cap(r.out) > keptReadings {
		r.out = nil
	}
}

// recovered turns a panic over a source's answer into that source's error: bytes of others must not end the process. It is deferred
// in every goroutine that reads them.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: panic: %v\n%s", errInvalid, p, debug.Stack())
	}
}

// fetch runs one poll under its time-out.
func (r *runner) fetch(ctx context.Context, g *group) (bytes int64, err error) {
	defer recovered(&err)
	r.out = r.out[:0]
	for range g.slots {
		r.out = append(r.out, scaling.Reading{Reported: -1, Cause: scaling.CauseEmpty})
	}
	if r.fetcher == nil {
		f, err := r.poller.links.fetcher(g)
		if err != nil {
			return 0, err // it is made anew at the next poll: a certificate may be mounted by then
		}
		r.fetcher = f
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout())
	defer cancel()
	return r.fetcher.fetch(ctx, g.slots, r.out)
}

func (r *runner) closeFetcher() {
	if c, ok := r.fetcher.(interface{ close() }); ok {
		c.close()
	}
}

// note keeps how the poll went for people, and logs the changes between working and broken: per change of the cause, because the
// texts of one cause differ from poll to poll.
func (r *runner) note(g *group, err error, received time.Time, took time.Duration) {
	now := PollStatus{
		Source: g.source.Name, Poll: g.key.how.String(), Name: g.name(), Signals: len(g.slots), At: received, Took: took, Cause: causeOf(err),
	}
	now.Skew, _ = r.skew(g)
	for i := range g.slots {
		if r.out[i].Known {
			now.Known++
		}
		if r.out[i].Cause == scaling.CauseUntimed {
			now.Untimed++
		}
	}
	if shared, is := r.fetcher.(*sharer); is {
		now.Offences = shared.offencesOf(g)
	}
	r.mu.Lock()
	last := r.status
	if err != nil {
		now.Error, now.Untimed = err.Error(), last.Untimed // a failed poll says nothing about sample times
	}
	r.status = now
	r.mu.Unlock()
	log := r.poller.options.Logger.With("source", now.Source, "poll", now.Poll, "name", now.Name, "signals", now.Signals)
	switch {
	case now.Cause == last.Cause:
	case err != nil:
		log.Warn("source does not answer", "cause", causeWords[now.Cause], "error", now.Error)
	default:
		log.Info("source answers again")
	}
	switch {
	case now.Untimed > 0 && last.Untimed == 0:
		log.Warn("samples have no usable time: it is more than 2s ahead of our clock or is not a time; the signals count as missing. "+
			"Set the clock of the source by NTP", "untimed", now.Untimed)
	case now.Untimed == 0 && last.Untimed > 0:
		log.Info("samples have usable times again")
	}
}

// name tells a group's query for people.
func (g *group) name() string {
	if g.key.how == byQuery {
		return g.first.QueryName
	}
	return strings.TrimSpace(string(g.key.profile) + " " + g.key.metric)
}
