// Package scrape reads signals from the /metrics pages of pods: the pages of model servers ([Engines]) and of DCGM exporters ([Exporters]).
// Each pod is read once in each poll for all signals. The addresses are taken only from the cluster's list of pods.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

const (
	// concurrency is the greatest number of pods that are read at the same time for one group. With 32, reading 500 pods with 20 ms each takes
	// a third of a second. 32 hostile pages that reach all limits use about 300 MiB of memory.
	concurrency = 32
	// podTimeout is the time limit for one pod. A healthy pod responds within milliseconds. A slow pod delays others because it occupies one
	// of the concurrent requests.
	podTimeout = 2 * time.Second
	// podBytes is the greatest size of a page; vLLM's largest pages have about 1 MiB.
	podBytes = 8 << 20
)

// scraper reads the /metrics pages of pods for one data source.
type scraper struct {
	client *fetch.Client
	scheme string
	port   int
	path   string
	bytes  int64
	hosts  map[string]*host        // hosts of the last poll, by address
	faults map[scaling.Cause]error // HTTP errors of the last poll
}

// host is the state of one address, which a scraper keeps between polls.
type host struct {
	failed bool // failed in the last poll; the next poll then reads it last, so that it does not delay others
	stamps bool // the page contains sample times
	clock  fetch.Clock
}

// newScraper returns a scraper for a data source of type scrape. If the data source does not set a port or a path, the parameter port or
// path is used.
func newScraper(d *policy.DataSource, port int, path string, g fetch.Guard) (*scraper, error) {
	s := &scraper{scheme: d.Scheme, port: d.Port, path: d.Path, bytes: d.MaxBytes}
	if s.scheme == "" {
		s.scheme = "http"
	}
	if s.port == 0 {
		s.port = port
	}
	if s.path == "" {
		s.path = path
	}
	if s.bytes <= 0 || s.bytes > podBytes {
		s.bytes = podBytes
	}
	if d.HTTP == nil {
		s.client = fetch.NewPodClient(g)
		return s, nil
	}
	config, err := fetch.HTTPConfig(d.HTTP)
	if err != nil {
		return nil, err
	}
	s.client, err = fetch.NewClient(fetch.Config{HTTP: config, Guard: g})
	return s, err
}

// target is one pod to read. The scraper calls take for each sample of its page, and then calls done once. It never calls the functions of
// two targets at the same time.
type target struct {
	pod  engine.Pod
	take func(*exposition.Sample)
	done func(err error)
}

// round performs one poll: it reads all targets and returns the number of bytes received. series contains the names of the series to
// read.
func (s *scraper) round(ctx context.Context, targets []target, series map[string]bool) int64 {
	var mu sync.Mutex // guards total, the hosts and the calls of take and done
	var total int64
	var group errgroup.Group
	group.SetLimit(concurrency)
	last := s.updateHosts(targets)
	s.faults = map[scaling.Cause]error{}
	one := func(t *target) {
		h := s.hosts[t.pod.IP]
		p, err := s.read(ctx, t.pod, series, &h.clock)
		mu.Lock()
		defer mu.Unlock()
		total += p.bytes
		h.failed, h.stamps = err != nil, p.stamps
		if err == nil {
			for i := range p.samples {
				t.take(&p.samples[i])
			}
		} else if status := new(fetch.StatusError); errors.As(err, &status) {
			// The body is removed from the error, because the page of a tenant's pod must not write text into the log.
			withoutBody := &fetch.StatusError{Code: status.Code, Body: http.StatusText(status.Code)}
			s.faults[source.CauseOf(err)] = fmt.Errorf("pod %s: %w", t.pod.Name, withoutBody)
		}
		t.done(err)
	}
	for _, first := range [...]bool{true, false} {
		for i := range targets {
			if last[i] != first {
				group.Go(func() error { one(&targets[i]); return nil })
			}
		}
	}
	_ = group.Wait() // the functions return nil, because each target receives its own error
	return total
}

// FailedPart implements source.Divided.
func (s *scraper) FailedPart(c scaling.Cause) error { return s.faults[c] }

// updateHosts keeps the state of the hosts of this poll's targets and deletes the state of all others. last[i] is true if target i failed
// in the last poll. Target i is then read after the other targets.
func (s *scraper) updateHosts(targets []target) (last []bool) {
	before := s.hosts
	s.hosts, last = make(map[string]*host, len(targets)), make([]bool, len(targets))
	for i := range targets {
		ip := targets[i].pod.IP
		h := before[ip]
		if h == nil {
			h = &host{}
		}
		s.hosts[ip], last[i] = h, h.failed
	}
	return last
}

// Skew returns the greatest clock difference of the hosts whose pages contain sample times. ok is false if no such difference was measured.
func (s *scraper) Skew() (worst time.Duration, ok bool) {
	for _, h := range s.hosts {
		if ahead, known := h.clock.Skew(); known && h.stamps {
			ok = true
			if ahead.Abs() > worst.Abs() {
				worst = ahead
			}
		}
	}
	return worst, ok
}

// page is the result of reading the page of one pod.
type page struct {
	samples []exposition.Sample
	bytes   int64
	stamps  bool // whether a sample has its own time
}

// read requests and parses the page of one pod.
func (s *scraper) read(ctx context.Context, p engine.Pod, series map[string]bool, clock *fetch.Clock) (out page, err error) {
	defer source.Recover(&err)
	url, err := s.url(p.IP)
	if err != nil {
		return out, err
	}
	at := now()
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	request := fetch.Request{URL: url, Accept: exposition.Accept, Bytes: s.bytes, Clock: clock}
	out.bytes, err = s.client.Do(ctx, request, func(a fetch.Answer) error {
		return exposition.Parse(a, series, exposition.DefaultLimits, at, func(x *exposition.Sample) {
			kept := *x
			kept.Labels = append(exposition.Labels(nil), x.Labels...)
			if !x.At.Equal(at) {
				kept.At, out.stamps = a.SampleTime(x.At), true
			}
			out.samples = append(out.samples, kept)
		})
	})
	return out, err
}

// url returns the URL of the page of the pod with the given address. It returns an error if address is not an IP address.
func (s *scraper) url(address string) (string, error) {
	if address == "" {
		return "", errors.New("pod has no address yet")
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("%w: pod address %.60q is not an IP address", source.ErrInvalid, address)
	}
	return s.scheme + "://" + net.JoinHostPort(ip.String(), strconv.Itoa(s.port)) + s.path, nil
}

// Close closes idle connections.
func (s *scraper) Close() { s.client.Close() }

func now() time.Time { return time.Now() } // may use the clock: polls use the real clock
