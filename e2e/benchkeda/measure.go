package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// get reads the target of policy i through the API server, as its HPA does. took is the duration of the request.
func (b *bench) get(ctx context.Context, i int) (value string, took time.Duration, err error) {
	metric, selector := b.metric(i)
	began := time.Now()
	body, err := b.reader.Get().AbsPath("/apis/external.metrics.k8s.io/v1beta1/namespaces/"+namespace+"/"+metric).Param("labelSelector",
		selector).DoRaw(ctx)
	took = time.Since(began)
	if err != nil {
		return "", took, err
	}
	var list external.ExternalMetricValueList
	if err := json.Unmarshal(body, &list); err != nil {
		return "", took, err
	}
	if len(list.Items) != 1 {
		return "", took, fmt.Errorf("%d values", len(list.Items))
	}
	return list.Items[0].Value.String(), took, nil
}

// read requests the targets of all policies, one after the other at a constant rate. It returns the duration of each request, including
// failed requests, and an error if more than 1% of the requests failed.
func (b *bench) read(ctx context.Context) (took []time.Duration, refused int, failed error) {
	ctx, cancel := context.WithTimeout(ctx, b.measure)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	ticker := time.NewTicker(time.Second / time.Duration(b.rate))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			asking.Wait()
			switch {
			case len(took) < 100:
				return nil, 0, fmt.Errorf("%d reads are too few for a p99", len(took))
			case refused > len(took)/100:
				return nil, 0, fmt.Errorf("%d of %d reads were refused, the last with: %w", refused, len(took), failed)
			}
			return took, refused, nil
		case <-ticker.C:
		}
		asking.Go(func() {
			_, d, err := b.get(context.WithoutCancel(ctx), i%b.policies)
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, d); err != nil {
				refused, failed = refused+1, err
			}
		})
	}
}

// signal contains the latencies after a change of the load. served is the time from the change until the HPA can read a new value (scrape,
// query, tick), and polled is the part of this time after the scrape. scaled is the time from the new value until spec.replicas changes
// (sync of the HPA). total is the sum of served and scaled.
type signal struct{ served, polled, scaled, total spread }

type spread struct{ median, longest time.Duration }

func (s spread) String() string {
	return fmt.Sprintf("%s (%s)", s.median.Round(100*time.Millisecond), s.longest.Round(100*time.Millisecond))
}

func spreadOf(took []time.Duration) spread {
	slices.Sort(took)
	return spread{took[len(took)/2], took[len(took)-1]}
}

// apart is the mean time between two changes of a load. The actual times are random, from 0 to twice the mean, with the same seed for all
// blocks. HPAs that were created together are synced together. With constant times, all loads could therefore change at the same phase of
// the scrapes, polls and syncs.
const apart = time.Second

func (b *bench) raise(ctx context.Context) (s signal, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute+2*apart*time.Duration(b.changes))
	defer cancel()
	n := min(b.changes, b.policies)
	phases := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // not secret, and the same in each block
	var g errgroup.Group
	numbers, polls, looks, totals := make([]time.Duration, n), make([]time.Duration, n), make([]time.Duration, n), make([]time.Duration, n)
	for k := range n {
		i := k * b.policies / n
		before, _, err := b.get(ctx, i)
		if err != nil {
			return s, err
		}
		began := time.Now()
		b.queues.set(i, 25)
		g.Go(func() error {
			if err := b.changed(ctx, i, before); err != nil {
				return err
			}
			numbers[k], polls[k] = time.Since(began), time.Since(b.queues.scrapedAt(i))
			err := stack.Poll(ctx, 3*time.Minute, func(ctx context.Context) error { return b.has(ctx, i, 3) })
			totals[k] = time.Since(began)
			looks[k] = totals[k] - numbers[k]
			return err
		})
		time.Sleep(time.Duration(phases.Int64N(int64(2 * apart))))
	}
	if err := g.Wait(); err != nil {
		return s, err
	}
	return signal{served: spreadOf(numbers), polled: spreadOf(polls), scaled: spreadOf(looks), total: spreadOf(totals)}, nil
}

// changed waits until the target of policy i differs from before.
func (b *bench) changed(ctx context.Context, i int, before string) error {
	return stack.Poll(ctx, 3*time.Minute, func(ctx context.Context) error {
		now, _, err := b.get(ctx, i)
		if err == nil && now == before {
			err = fmt.Errorf("the target of %s is still %s", name(i), now)
		}
		if err != nil {
			time.Sleep(200 * time.Millisecond)
		}
		return err
	})
}

func (b *bench) has(ctx context.Context, i int, replicas int32) error {
	d := &appsv1.Deployment{}
	if err := b.stack.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name(i)}, d); err != nil {
		return err
	}
	if *d.Spec.Replicas != replicas {
		return fmt.Errorf("%s has %d replicas, not %d", name(i), *d.Spec.Replicas, replicas)
	}
	return nil
}
