package telemetry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

const (
	// scrapeConcurrency bounds the pods that are read at once by one group: enough that 500 pods at 20 ms take a third of a second, and
	// few enough that as many hostile pages at once, each at its limits, stay within some 300 MiB.
	scrapeConcurrency = 32
	// podTimeout is short because a page of a healthy pod takes milliseconds, and long ones hold a place that others wait for.
	podTimeout = 2 * time.Second
	// podBytes caps a pod's page; vLLM's largest have about 1 MiB.
	podBytes = 8 << 20
)

// scraper reads pods' own /metrics, each pod once a round for all of a group's signals. Addresses come from the cluster's pod list
// and from nowhere else.
type scraper struct {
	client  *fetch.Client
	scheme  string
	port    int
	path    string
	bytes   int64
	failing map[string]bool // addresses that failed in the last round: they are read last, so that they hold up nobody
}

// newScraper reads a data source of type scrape. port and path are the profile's own where the source gives none.
func newScraper(d *policy.DataSource, port int, path string, g fetch.Guard) (*scraper, error) {
	s := &scraper{scheme: d.Scheme, port: d.Port, path: d.Path, bytes: d.MaxBytes, failing: map[string]bool{}}
	if s.scheme == "" {
		s.scheme = "http"
	}
	if s.port == 0 {
		s.port = port
	}
	// "/metrics" is what the platform fills in where nothing is written; NIM serves elsewhere.
	if s.path == "" || s.path == "/metrics" {
		s.path = path
	}
	if s.bytes <= 0 || s.bytes > podBytes {
		s.bytes = podBytes
	}
	if d.HTTP == nil {
		s.client = fetch.NewPodClient(g)
		return s, nil
	}
	config, err := httpConfig(d.HTTP)
	if err != nil {
		return nil, err
	}
	s.client, err = fetch.NewClient(fetch.Config{HTTP: config, Guard: g})
	return s, err
}

// target is one pod to read, and what to do with what it says. done is called once, from one goroutine at a time per round.
type target struct {
	pod  engine.Pod
	take func(*exposition.Sample)
	done func(at time.Time, err error)
}

// round reads all targets and returns the bytes that were received.
func (s *scraper) round(ctx context.Context, targets []target, wanted map[string]bool) int64 {
	var mu sync.Mutex // guards total, failing and the targets' callbacks
	var total int64
	var group errgroup.Group
	group.SetLimit(scrapeConcurrency)
	failing := map[string]bool{}
	one := func(t *target) {
		samples, n, at, err := s.read(ctx, t.pod, wanted)
		mu.Lock()
		defer mu.Unlock()
		total += n
		if err != nil {
			failing[t.pod.IP] = true
		} else {
			for i := range samples {
				t.take(&samples[i])
			}
		}
		t.done(at, err)
	}
	for _, late := range [...]bool{false, true} {
		for i := range targets {
			if s.failing[targets[i].pod.IP] == late {
				group.Go(func() error { one(&targets[i]); return nil })
			}
		}
	}
	_ = group.Wait() // each target keeps its own error
	s.failing = failing
	return total
}

// read reads one pod's page.
func (s *scraper) read(ctx context.Context, p engine.Pod, wanted map[string]bool) (samples []exposition.Sample, n int64, at time.Time, err error) {
	defer recovered(&err)
	at = now()
	ip, err := netip.ParseAddr(p.IP)
	if err != nil {
		return nil, 0, at, errors.New("pod has no address")
	}
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	url := s.scheme + "://" + net.JoinHostPort(ip.String(), strconv.Itoa(s.port)) + s.path
	n, err = s.client.Do(ctx, fetch.Request{URL: url, Accept: exposition.Accept, Bytes: s.bytes}, func(r io.Reader) error {
		return exposition.Parse(r, wanted, exposition.DefaultLimits, at, func(x *exposition.Sample) {
			kept := *x
			kept.Labels = append(exposition.Labels(nil), x.Labels...)
			samples = append(samples, kept)
		})
	})
	return samples, n, at, err
}

func (s *scraper) close() { s.client.Close() }
