package usage

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

const (
	// window is the time over which the present is a mean: two scrapes of a minute. Over less, a GPU that is scraped slowly would seem gone.
	window = 2 * time.Minute
	// every is how often it is looked at. A page of what an hour costs need not be newer, and the server is asked about ten questions.
	every = time.Minute
	// again is when it is looked at again while nothing is known, as before the first scrape of an exporter.
	again = 15 * time.Second
	// stale is how old it may become before nobody is shown it any more.
	stale = 5 * time.Minute
	// patience bounds one look. A bill is as old as its first question, so a longer look would bring what nobody is shown any more.
	patience = 2 * time.Minute
)

// Question is what Live asks: of whom, and what is known beside it.
type Question struct {
	Server  Server
	Options Options // but for the time
	Ledger  cost.Options
}

// Live keeps what GPUs cost at present, and what of it is idle, by the same questions and sums as a report. Make one with NewLive.
type Live struct {
	ask    func() (Question, bool)
	log    *slog.Logger
	latest atomic.Pointer[cost.Bill]
	prices atomic.Pointer[asked]
	failed bool // the last look, as was logged
}

// asked is what offers cost when Karpenter's metric was asked.
type asked struct {
	at     time.Time
	prices map[cost.Offer]float64
}

// NewLive returns one that knows nothing before it has looked. ask says whom to ask at each look; false: nobody, at present.
func NewLive(ask func() (Question, bool), log *slog.Logger) *Live { return &Live{ask: ask, log: log} }

// Run looks each minute until ctx ends, more often while nothing is known.
func (l *Live) Run(ctx context.Context) {
	for {
		l.tell(ctx, l.Look(ctx, time.Now())) // I/O edge: the present is asked for
		wait := time.NewTimer(every)         // I/O edge: paces the polls
		if l.latest.Load() == nil {
			wait.Reset(again)
		}
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// Look asks once, about the minutes before now. What it cannot learn leaves what is known as it is, until that is too old.
func (l *Live) Look(ctx context.Context, now time.Time) error {
	q, ok := l.ask()
	if !ok {
		l.forget()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now = now.Truncate(time.Second) // a server rounds to milliseconds, and a sample of the first nanoseconds would lie before the window
	q.Options.From, q.Options.To, q.Options.Step = now.Add(-window), now, window
	q.Options.Priced = func(prices map[cost.Offer]float64) { l.prices.Store(&asked{now, prices}) }
	ledger := cost.NewLedger(q.Ledger)
	notes, err := Read(ctx, q.Server, q.Options, ledger)
	if err != nil {
		return err
	}
	if _, ok := l.ask(); !ok {
		l.forget() // another process leads by now, and two bills would be charged twice
		return nil
	}
	bill := ledger.Bill(cost.Period{From: q.Options.From, To: now, Step: window})
	bill.Notes = notes
	l.latest.Store(bill)
	return nil
}

func (l *Live) forget() {
	l.latest.Store(nil)
	l.prices.Store(nil)
}

// tell logs the first of several failures, and the end of them.
func (l *Live) tell(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrNoGPUs) && !l.failed:
		l.log.Info("cost: the data source has no GPU metric, so only what no pod holds has a price", "why", err)
	case err != nil && !l.failed:
		l.log.Warn("cost: the data source does not say what GPUs do", "err", err)
	case err == nil && l.failed:
		l.log.Info("cost: known again")
	}
	l.failed = err != nil
}

// Present is the bill of the last minutes; ok is false where nothing is known, or nothing new enough.
func (l *Live) Present(now time.Time) (b *cost.Bill, ok bool) {
	b = l.latest.Load()
	if b == nil || now.Sub(b.To) > stale {
		return nil, false
	}
	return b, true
}

// Price is what Karpenter's metric said of an offer when it was last asked; unknown where it said nothing of that zone, or too long ago.
func (l *Live) Price(o cost.Offer, now time.Time) cost.Price {
	last := l.prices.Load()
	if last == nil || now.Sub(last.at) > stale {
		return cost.Price{}
	}
	return observed(last.prices, o)
}
