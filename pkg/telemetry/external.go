package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	"k8s.io/metrics/pkg/client/external_metrics"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

const (
	externalConcurrency = 8
	externalBytes       = 1 << 20 // of one answer: one metric of one namespace
	// ownMetrics begin the names of what gpuscaler itself serves: a policy that read its own target would chase its tail.
	ownMetrics = "gpuscaler-"
)

// externalFetcher reads the cluster's external metrics API: any adapter's metric, and the triggers of ScaledObjects through KEDA's.
// Each (namespace, metric, selector) is asked for once a round, however many policies want it.
type externalFetcher struct {
	client   external_metrics.ExternalMetricsClient
	clock    *fetch.Clock // of whoever answers; the API server hands an adapter's own Date through
	triggers Triggers
}

func newExternalFetcher(o *Options, timeout time.Duration) (*externalFetcher, error) {
	if o.Kubernetes == nil {
		return nil, errors.New("no connection to the cluster's API")
	}
	c := rest.CopyConfig(o.Kubernetes)
	clock := &fetch.Clock{}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundedTransport{next, clock} })
	c.Timeout = timeout // the client takes no context
	c.WarningHandler = rest.NoWarnings{}
	// The API server's own fairness bounds us; client-go's 5 a second would stretch a round of 1,000 triggers over minutes.
	c.QPS, c.Burst = 200, 400
	client, err := external_metrics.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	return &externalFetcher{client: client, clock: clock, triggers: o.Triggers}, nil
}

// boundedTransport bounds the answers of an adapter before client-go reads them. It cuts a body at externalBytes, because client-go
// reads a body whole. It refuses redirects, because an adapter must not send our credentials elsewhere. It removes Retry-After, because
// client-go repeats the request up to ten times, and waits as long as the header says. It measures the clock of the server that answers.
type boundedTransport struct {
	next  http.RoundTripper
	clock *fetch.Clock
}

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := now()
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.clock.Observe(resp.Header, sent, now())
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		resp.Body.Close()
		return nil, &fetch.StatusError{Code: resp.StatusCode}
	}
	resp.Header.Del("Retry-After")
	resp.Body = struct {
		io.Reader
		io.Closer
	}{fetch.Bound(resp.Body, externalBytes), resp.Body}
	return resp, nil
}

// ask is one metric to ask for.
type ask struct{ namespace, metric, selector string }

type answer struct {
	reading scaling.Reading
	err     error
}

func (f *externalFetcher) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	asks := make([]ask, len(slots))
	answers := map[ask]*answer{}
	for i := range slots {
		a, ok := f.askOf(&slots[i])
		if !ok {
			continue // KEDA has not published the trigger: empty
		}
		asks[i] = a
		answers[a] = &answer{}
	}
	f.all(ctx, answers)
	for i := range slots {
		to := answers[asks[i]]
		if to == nil {
			continue
		}
		out[i] = to.reading
		if to.err != nil {
			out[i] = scaling.Reading{Reported: -1, Cause: causeOf(to.err)}
		}
	}
	return 0, nil
}

// all asks for every metric. The namespaces share the requests: one whose metrics hang has half of them at most, and the metrics of the
// others wait for no more requests than each namespace has under way.
func (f *externalFetcher) all(ctx context.Context, answers map[ask]*answer) {
	of := map[string][]ask{}
	for a := range answers {
		of[a.namespace] = append(of[a.namespace], a)
	}
	requests := make(chan struct{}, externalConcurrency)
	var namespaces sync.WaitGroup
	for _, asks := range of {
		namespaces.Go(func() {
			var group errgroup.Group
			group.SetLimit(externalConcurrency / 2)
			for _, a := range asks {
				group.Go(func() error {
					select {
					case requests <- struct{}{}:
						defer func() { <-requests }()
					case <-ctx.Done():
					}
					to := answers[a]
					to.reading, to.err = f.one(ctx, a)
					return nil // each keeps its own error: one broken metric is not the others'
				})
			}
			_ = group.Wait()
		})
	}
	namespaces.Wait()
}

func (f *externalFetcher) skew() (ahead time.Duration, ok bool) { return f.clock.Skew() }

func (f *externalFetcher) askOf(s *slot) (ask, bool) {
	a := ask{s.w.Key.Namespace, s.source.Metric, s.source.Selector}
	if s.source.Type != policy.SourceKEDA {
		return a, true
	}
	if f.triggers == nil {
		return a, false
	}
	var ok bool
	a.metric, a.selector, ok = f.triggers.TriggerMetric(s.w, s.source.Trigger)
	return a, ok
}

// one asks for one metric. The client knows no context: a round that is over starts no further request, and the one under way ends by
// the client's own time-out.
func (f *externalFetcher) one(ctx context.Context, a ask) (r scaling.Reading, err error) {
	defer recovered(&err)
	if err := ctx.Err(); err != nil {
		return scaling.Reading{}, err
	}
	if len(a.metric) >= len(ownMetrics) && a.metric[:len(ownMetrics)] == ownMetrics {
		return scaling.Reading{}, fmt.Errorf("%w: %s is served by gpuscaler itself", errInvalid, a.metric)
	}
	selector, err := labels.Parse(a.selector)
	if err != nil {
		return scaling.Reading{}, fmt.Errorf("%w: selector: %w", errInvalid, err)
	}
	list, err := f.client.NamespacedMetrics(a.namespace).List(a.metric, selector)
	if err != nil {
		return scaling.Reading{}, err
	}
	return sumOf(list, fetch.Timing{Skew: f.clock.Correction(), Received: now()}), nil
}

// sumOf adds up the items, as an HPA does. At is the oldest item's time by our clock, the zero time where an item has a time that cannot
// be used. The items of an adapter that writes no times are as old as the answer.
func sumOf(list *v1beta1.ExternalMetricValueList, timing fetch.Timing) scaling.Reading {
	if len(list.Items) == 0 {
		return scaling.Reading{Reported: -1, Cause: scaling.CauseEmpty}
	}
	r := scaling.Reading{At: timing.Received, Coverage: 1, Reported: -1, Known: true}
	for i := range list.Items {
		item := &list.Items[i]
		v := item.Value.AsApproximateFloat64()
		if v < 0 {
			return scaling.Reading{Reported: -1, Cause: scaling.CauseInvalid} // beside a positive one it would vanish in the sum
		}
		r.Value += v
		if item.Timestamp.IsZero() {
			continue
		}
		if at := timing.SampleTime(item.Timestamp.Time); at.Before(r.At) {
			r.At = at
		}
	}
	return r
}
