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
	// window is the length of the time range over which the current cost is measured. It contains two scrapes if the scrape interval is one
	// minute. A shorter window could contain no sample of some GPUs.
	window = 2 * time.Minute
	// updateInterval is the time between updates. Each update sends about ten queries.
	updateInterval = time.Minute
	// retryInterval is the time between updates while there is no result, for example before the first scrape of an exporter.
	retryInterval = 15 * time.Second
	// maxAge is the greatest age of a result that is returned.
	maxAge = 5 * time.Minute
	// updateTimeout is the time limit of one update. The time of a result is the time at which its update began, so after a longer update the
	// result would soon be too old.
	updateTimeout = 2 * time.Minute
)

// Input contains the server that one update reads and the options for it.
type Input struct {
	Server  Server
	Options Options // options for Read; the update sets the time range
	Ledger  cost.Options
}

// Live periodically computes the current cost of GPUs and how much of it is idle, with the same queries as a report. Create it with
// NewLive.
type Live struct {
	input  func() (Input, bool)
	log    *slog.Logger
	latest atomic.Pointer[cost.Bill]
	prices atomic.Pointer[offerPrices]
	failed bool // whether the last update failed; only the first of several failures is logged
}

// offerPrices are the prices of Karpenter's offers at a time.
type offerPrices struct {
	at     time.Time
	prices map[cost.Offer]float64
}

// NewLive returns a Live without a result. Each update calls input for the server and the options. If input returns false, for example
// because this process is not the leader, Live deletes its result.
func NewLive(input func() (Input, bool), log *slog.Logger) *Live {
	return &Live{input: input, log: log}
}

// Run updates the result at updateInterval until ctx ends. While there is no result, it uses retryInterval.
func (l *Live) Run(ctx context.Context) {
	for {
		l.logChange(ctx, l.Update(ctx, time.Now())) // may use the clock: reads the current usage
		wait := time.NewTimer(updateInterval)       // may use the clock: schedules updates by the real clock
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

// Update computes the cost over the window that ends at now. If it fails, the last result is kept until it is older than maxAge.
func (l *Live) Update(ctx context.Context, now time.Time) error {
	in, ok := l.input()
	if !ok {
		l.clear()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	now = now.Truncate(time.Second) // Prometheus rounds to milliseconds, so a sample could be before the start of the window
	in.Options.From, in.Options.To, in.Options.Step = now.Add(-window), now, window
	in.Options.Priced = func(prices map[cost.Offer]float64) { l.prices.Store(&offerPrices{now, prices}) }
	ledger := cost.NewLedger(in.Ledger)
	notes, err := Read(ctx, in.Server, in.Options, ledger)
	if err != nil {
		return err
	}
	if _, ok := l.input(); !ok {
		l.clear() // another process has become the leader; if both exported the cost, it would be counted twice
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

// Current returns the cost of the last window. ok is false if there is no result or if it is older than maxAge.
func (l *Live) Current(now time.Time) (b *cost.Bill, ok bool) {
	b = l.latest.Load()
	if b == nil || now.Sub(b.To) > maxAge {
		return nil, false
	}
	return b, true
}

// Price returns the price of an offer from Karpenter's metric. It is unknown if the metric has no price for the zone, or if the prices are
// older than maxAge.
func (l *Live) Price(o cost.Offer, now time.Time) cost.Price {
	last := l.prices.Load()
	if last == nil || now.Sub(last.at) > maxAge {
		return cost.Price{}
	}
	return observed(last.prices, o)
}
