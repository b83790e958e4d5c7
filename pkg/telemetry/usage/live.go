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
	// window is the time range of the current cost: two scrapes of a minute. In a shorter one, a GPU with a long scrape interval would be
	// missing.
	window = 2 * time.Minute
	// updateInterval is the time between updates. Each update sends about ten queries.
	updateInterval = time.Minute
	// retryInterval is the time between updates while there is no result, for example before the first scrape of an exporter.
	retryInterval = 15 * time.Second
	// maxAge is the age above which a result is no longer returned.
	maxAge = 5 * time.Minute
	// updateTimeout bounds one update. The result has the time of its first query, so that it would be too old after a longer update.
	updateTimeout = 2 * time.Minute
)

// Input is what one update reads.
type Input struct {
	Server  Server
	Options Options // without the time range
	Ledger  cost.Options
}

// Live keeps the current cost of GPUs and how much of it is idle. It sends the same queries as a report. Create it with NewLive.
type Live struct {
	input  func() (Input, bool)
	log    *slog.Logger
	latest atomic.Pointer[cost.Bill]
	prices atomic.Pointer[offerPrices]
	failed bool // the last update, as it was logged
}

// offerPrices are the prices of Karpenter's offers at a time.
type offerPrices struct {
	at     time.Time
	prices map[cost.Offer]float64
}

// NewLive returns a Live without a result. input returns what each update reads; false: nothing at present.
func NewLive(input func() (Input, bool), log *slog.Logger) *Live {
	return &Live{input: input, log: log}
}

// Run updates the result at updateInterval until ctx ends, and at retryInterval while there is none.
func (l *Live) Run(ctx context.Context) {
	for {
		l.logChange(ctx, l.Update(ctx, time.Now())) // I/O edge: reads the current usage
		wait := time.NewTimer(updateInterval)       // I/O edge: schedules updates in real time
		if l.latest.Load() == nil {
			wait.Reset(retryInterval)
		}
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// Update reads the minutes before now. Where it fails, the last result stays until it is too old.
func (l *Live) Update(ctx context.Context, now time.Time) error {
	in, ok := l.input()
	if !ok {
		l.clear()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	now = now.Truncate(time.Second) // a server rounds to milliseconds, so that a sample could be before the start of the window
	in.Options.From, in.Options.To, in.Options.Step = now.Add(-window), now, window
	in.Options.Priced = func(prices map[cost.Offer]float64) { l.prices.Store(&offerPrices{now, prices}) }
	ledger := cost.NewLedger(in.Ledger)
	notes, err := Read(ctx, in.Server, in.Options, ledger)
	if err != nil {
		return err
	}
	if _, ok := l.input(); !ok {
		l.clear() // another process leads now, and two bills would be counted twice
		return nil
	}
	bill := ledger.Bill(cost.Period{From: in.Options.From, To: now, Step: window})
	bill.Notes = notes
	l.latest.Store(bill)
	return nil
}

func (l *Live) clear() {
	l.latest.Store(nil)
	l.prices.Store(nil)
}

// logChange logs the first of several failures, and the first success after them.
func (l *Live) logChange(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrNoGPUs) && !l.failed:
		l.log.Info("cost: the data source has no GPU metric, so only the cost of GPUs that no pod holds is known", "reason", err)
	case err != nil && !l.failed:
		l.log.Warn("cost: GPU usage could not be read", "err", err)
	case err == nil && l.failed:
		l.log.Info("cost: GPU usage is read again")
	}
	l.failed = err != nil
}

// Current returns the cost of the last minutes; ok is false where there is no result or the result is too old.
func (l *Live) Current(now time.Time) (b *cost.Bill, ok bool) {
	b = l.latest.Load()
	if b == nil || now.Sub(b.To) > maxAge {
		return nil, false
	}
	return b, true
}

// Price returns the price of an offer according to Karpenter's metric. It is unknown where the metric has none for that zone, or was read
// too long ago.
func (l *Live) Price(o cost.Offer, now time.Time) cost.Price {
	last := l.prices.Load()
	if last == nil || now.Sub(last.at) > maxAge {
		return cost.Price{}
	}
	return observed(last.prices, o)
}
