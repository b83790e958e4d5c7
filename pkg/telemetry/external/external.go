// Package external reads signals from the cluster's external metrics API: the metrics of any adapter, and the triggers of ScaledObjects
// through KEDA's adapter.
//
// In each poll, a Fetcher sends one request for each combination of namespace, metric and selector, even if many policies read it.
package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

const (
	concurrency = 8
	maxBytes    = 1 << 20 // maximum size of one response, which contains one metric of one namespace
	// ownPrefix is the prefix of the metrics that gpuscaler itself serves. A policy must not read these metrics, because a policy that reads
	// its own target would be a feedback loop.
	ownPrefix = "gpuscaler-"
)

// Triggers finds the external metric that KEDA serves for a trigger of a ScaledObject. Package cluster implements it.
type Triggers interface {
	// TriggerMetric returns the name and the label selector ("scaledobject.keda.sh/name=llama") of the metric for a trigger. The trigger
	// belongs to the ScaledObject that scales the workload. ok is false until KEDA has published the metric.
	TriggerMetric(w *scaling.Workload, trigger string) (metric, selector string, ok bool)
}

// Fetcher reads external metrics. In each poll it requests each combination of namespace, metric and selector once, for all policies that
// use it. It implements source.Fetcher.
type Fetcher struct {
	client   external_metrics.ExternalMetricsClient
	clock    *fetch.Clock // clock of the server that sends the metrics; the API server passes on the Date header of an adapter
	triggers Triggers
}

// New returns a fetcher. timeout is the time limit of one request. If triggers is nil, the signals that read a KEDA trigger have no
// reading.
func New(kubernetes *rest.Config, triggers Triggers, timeout time.Duration) (*Fetcher, error) {
	if kubernetes == nil {
		return nil, errors.New("no connection to the Kubernetes API")
	}
	c := rest.CopyConfig(kubernetes)
	clock := &fetch.Clock{}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundedTransport{next, clock} })
	c.Timeout = timeout // needed because the methods of the client have no context argument
	c.WarningHandler = rest.NoWarnings{}
	// The limit of the client is high, because the API server already limits gpuscaler's requests (API priority and fairness). With
	// client-go's default of 5 requests per second, a poll of 1,000 triggers would take minutes.
	c.QPS, c.Burst = 200, 400
	client, err := external_metrics.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	return &Fetcher{client: client, clock: clock, triggers: triggers}, nil
}

// boundedTransport protects gpuscaler from a hostile response of a metrics adapter. Before client-go reads the response:
//
//   - It fails the read of a body longer than maxBytes, because client-go reads the whole body into memory.
//   - It refuses redirects, because gpuscaler's credentials must not be sent to another server.
//   - It removes the Retry-After header. With the header, client-go would repeat the request up to ten times, and before each
//     repetition wait as long as the header demands.
//
// It also measures the clock of the server from the Date header of each response.
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
	}{fetch.Bound(resp.Body, maxBytes), resp.Body}
	return resp, nil
}

// metric identifies one metric that is requested from the external metrics API.
type metric struct{ namespace, name, selector string }

type answer struct {
	reading scaling.Reading
	err     error
}

// Fetch implements source.Fetcher. It always returns 0 bytes, because the client does not report how many bytes it received.
func (f *Fetcher) Fetch(ctx context.Context, requests []source.Request, out []scaling.Reading) (int64, error) {
	metrics := make([]metric, len(requests))
	answers := map[metric]*answer{}
	for i := range requests {
		m, ok := f.metricOf(&requests[i])
		if !ok {
			out[i] = source.Missing(scaling.CauseUnpublished)
			continue
		}
		metrics[i] = m
		answers[m] = &answer{}
	}
	f.all(ctx, answers)
	for i := range requests {
		a := answers[metrics[i]]
		if a == nil {
			continue
		}
		out[i] = a.reading
		if a.err != nil {
			out[i] = source.Missing(source.CauseOf(a.err))
		}
	}
	return 0, nil
}

// all sends one request for each metric in answers, and stores the results in answers. It uses at most half of the concurrent requests for
// one namespace, so that a namespace whose metrics time out does not delay the metrics of other namespaces.
func (f *Fetcher) all(ctx context.Context, answers map[metric]*answer) {
	byNamespace := map[string][]metric{}
	for m := range answers {
		byNamespace[m.namespace] = append(byNamespace[m.namespace], m)
	}
	running := make(chan struct{}, concurrency)
	var namespaces sync.WaitGroup
	for _, metrics := range byNamespace {
		namespaces.Go(func() {
			var group errgroup.Group
			group.SetLimit(concurrency / 2)
			for _, m := range metrics {
				group.Go(func() error {
					select {
					case running <- struct{}{}:
						defer func() { <-running }()
					case <-ctx.Done():
					}
					a := answers[m]
					a.reading, a.err = f.one(ctx, m)
					return nil // the functions return nil, because each metric stores its own error
				})
			}
			_ = group.Wait()
		})
	}
	namespaces.Wait()
}

// Skew returns how far the clock of the server that sends the metrics is ahead of gpuscaler's clock. ok is false before the first
// measurement.
func (f *Fetcher) Skew() (ahead time.Duration, ok bool) { return f.clock.Skew() }

// metricOf returns the metric of a request. ok is false if KEDA has not published the trigger yet.
func (f *Fetcher) metricOf(r *source.Request) (metric, bool) {
	m := metric{r.Namespace(), r.Source.Metric, r.Source.Selector}
	if r.Source.Type != policy.SourceKEDA {
		return m, true
	}
	if f.triggers == nil {
		return m, false
	}
	var ok bool
	m.name, m.selector, ok = f.triggers.TriggerMetric(r.Workload, r.Source.Trigger)
	return m, ok
}

// one sends the request for one metric and returns the reading. If ctx has ended before the call, it sends no request and returns an error.
// The methods of the client accept no context. Therefore a request that is in progress when ctx ends continues until the client's own time
// limit.
func (f *Fetcher) one(ctx context.Context, m metric) (r scaling.Reading, err error) {
	defer source.Recover(&err)
	if err := ctx.Err(); err != nil {
		return scaling.Reading{}, err
	}
	if strings.HasPrefix(m.name, ownPrefix) {
		return scaling.Reading{}, fmt.Errorf("%w: gpuscaler itself serves metric %s", source.ErrInvalid, m.name)
	}
	selector, err := labels.Parse(m.selector)
	if err != nil {
		return scaling.Reading{}, fmt.Errorf("%w: selector: %w", source.ErrInvalid, err)
	}
	list, err := f.client.NamespacedMetrics(m.namespace).List(m.name, selector)
	if err != nil {
		return scaling.Reading{}, err
	}
	return sumOf(list, fetch.Timing{Skew: f.clock.Correction(), Received: now()}), nil
}

// sumOf returns the sum of the items as one reading, because an HPA also uses their sum. For an empty list or a list with a negative item
// it returns a missing reading. At is the time of the oldest item by gpuscaler's clock. For an item without a time, the time at which the
// response was received is used. If the time of an item is unusable, At is the zero time.
func sumOf(list *v1beta1.ExternalMetricValueList, timing fetch.Timing) scaling.Reading {
	if len(list.Items) == 0 {
		return source.Missing(scaling.CauseEmpty)
	}
	r := scaling.Reading{At: timing.Received, Coverage: 1, Reported: -1, Known: true}
	for i := range list.Items {
		item := &list.Items[i]
		v := item.Value.AsApproximateFloat64()
		if v < 0 {
			return source.Missing(scaling.CauseInvalid) // a positive item could compensate a negative one in the sum
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

func now() time.Time { return time.Now() } // may use the clock: polls use the real clock
