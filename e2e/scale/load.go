package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	external "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
)

const (
	metric = "gpuscaler-desired-replicas"
	// hpaPeriod is the sync period of the HPA controller: each policy is read once in this time.
	hpaPeriod = 15 * time.Second
)

// reader reads external metrics as the HPA controller does, over connections that stay open.
type reader struct {
	client *http.Client
	base   string
	header http.Header
}

// throughAPIServer returns a reader that sends requests to the API server, which forwards them to the adapter. config contains the
// credentials of the reader.
func throughAPIServer(config *rest.Config) (*reader, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &reader{&http.Client{Transport: transport, Timeout: 5 * time.Second}, config.Host, http.Header{}}, nil
}

// atPort returns a reader that sends requests directly to the port of an adapter, with the client certificate of the API server's front
// proxy.
func atPort(address, certificate, key string) (*reader, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, // the adapters have self-signed certificates
	}}
	return &reader{&http.Client{Transport: transport, Timeout: 5 * time.Second}, "https://" + address,
		http.Header{"X-Remote-User": {readerName}, "X-Remote-Group": {"system:authenticated"}}}, nil
}

func (r *reader) get(ctx context.Context, i int, accept string) ([]byte, error) {
	url := r.base + "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespaceOf(i) + "/" + metric +
		"?labelSelector=gpuscaler.io%2Fpolicy%3D" + nameOf(i)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header = r.header.Clone()
	request.Header.Set("Accept", accept)
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", url, response.Status, body)
	}
	return body, err
}

// value returns the target of policy i.
func (r *reader) value(ctx context.Context, i int) (string, error) {
	body, err := r.get(ctx, i, "application/json")
	if err != nil {
		return "", err
	}
	var list external.ExternalMetricValueList
	if err := json.Unmarshal(body, &list); err != nil {
		return "", err
	}
	if len(list.Items) != 1 {
		return "", fmt.Errorf("%s has %d values", nameOf(i), len(list.Items))
	}
	return list.Items[0].Value.String(), nil
}

// latencies contains statistics of the reads in one call of load, including failed reads.
type latencies struct {
	p50, p99      time.Duration
	reads, failed int
	lastFailure   time.Time // time at which the last failed read ended; zero: no read failed
}

// pace returns the interval between two reads. Each of n policies is read once in hpaPeriod, but at most rate reads are sent per second; 0:
// no maximum.
func pace(n, rate int) time.Duration {
	interval := hpaPeriod / time.Duration(n)
	if rate > 0 {
		interval = max(interval, time.Second/time.Duration(rate))
	}
	return interval
}

// load reads the targets of n policies one after the other, with the given interval between two reads, for the time d. It returns an error
// if all reads fail. The latency of a read is measured from the time at which the read is due, so that a late start also counts as latency.
func (r *reader) load(ctx context.Context, n int, interval, d time.Duration) (latencies, error) {
	var mu sync.Mutex
	var reads sync.WaitGroup
	var took []time.Duration
	var failed []error
	var lastFailure time.Time
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(interval * time.Duration(i))
		if due.Sub(began) > d || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Until(due))
		reads.Go(func() {
			_, err := r.get(ctx, i%n, "application/vnd.kubernetes.protobuf,application/json")
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, time.Since(due)); err != nil {
				failed, lastFailure = append(failed, err), time.Now()
			}
		})
	}
	reads.Wait()
	if err := ctx.Err(); err != nil {
		return latencies{}, err
	}
	if len(failed) == len(took) {
		return latencies{}, fmt.Errorf("all reads failed, the first with: %w", failed[0])
	}
	slices.Sort(took)
	return latencies{took[len(took)/2], took[len(took)*99/100], len(took), len(failed), lastFailure}, nil
}

// served contains the times until the first policy and until the last policy had the expected value.
type served struct{ first, last time.Duration }

func (s served) String() string {
	return fmt.Sprintf("first %s, last %s", s.first.Round(100*time.Millisecond), s.last.Round(100*time.Millisecond))
}

// maxSample is the maximum number of policies that until reads. Reading all of 10,000 policies takes longer than most of the measured
// times.
const maxSample = 300

// sample returns the indexes of at most maxSample of n policies, at equal distances, including the first and the last policy.
func sample(n int) (policies []int) {
	size := min(n, maxSample)
	for k := range size {
		policies = append(policies, k*(n-1)/(size-1))
	}
	return policies
}

// until reads each of the policies repeatedly until the policy has returned the value once. It returns the times from began until the first
// and until the last policy returned the value.
func (r *reader) until(ctx context.Context, policies []int, value string, began time.Time) (s served, err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	missing := policies
	for len(missing) > 0 {
		var mu sync.Mutex
		var still []int
		var last error
		var g errgroup.Group
		g.SetLimit(8)
		for _, i := range missing {
			g.Go(func() error {
				got, err := r.value(ctx, i)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || got != value {
					still, last = append(still, i), cmp.Or(err, fmt.Errorf("%s is %s, not %s", nameOf(i), got, value))
				} else if s.first == 0 {
					s.first = time.Since(began)
				}
				return nil
			})
			if mu.Lock(); len(still) > 20 && s.first == 0 { // no policy has the expected value yet
				mu.Unlock()
				break
			}
			mu.Unlock()
		}
		if err := g.Wait(); err != nil {
			return s, err
		}
		if s.first == 0 {
			still = missing
		}
		if missing = still; len(missing) > 0 && ctx.Err() != nil {
			return s, errors.Join(ctx.Err(), last)
		}
		if len(missing) > 0 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	s.last = time.Since(began)
	return s, nil
}
