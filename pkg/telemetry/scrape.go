package telemetry

import (
	"context"
	"errors"
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
	client *fetch.Client
	scheme string
	port   int
	path   string
	bytes  int64
	hosts  map[string]*host // of the last round, by address
}

// host is what the rounds remember of an address.
type host struct {
	failing bool // in the last round: it is read last, so that it holds up nobody
	stamps  bool // its page carries times of its own
	clock   fetch.Clock
}

// newScraper reads a data source of type scrape. port and path are the profile's own where the source gives none.
func newScraper(d *policy.DataSource, port int, path string, g fetch.Guard) (*scraper, error) {
	s := &scraper{scheme: d.Scheme, port: d.Port, path: d.Path, bytes: d.MaxBytes}
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
	var mu sync.Mutex // guards total, what the hosts say, and the targets' callbacks
	var total int64
	var group errgroup.Group
	group.SetLimit(scrapeConcurrency)
	late := s.meet(targets)
	one := func(t *target) {
		h := s.hosts[t.pod.IP]
		p, err := s.read(ctx, t.pod, wanted, &h.clock)
		mu.Lock()
		defer mu.Unlock()
		total += p.bytes
		h.failing, h.stamps = err != nil, p.stamps
		if err == nil {
			for i := range p.samples {
				t.take(&p.samples[i])
			}
		}
		t.done(p.at, err)
	}
	for _, now := range [...]bool{true, false} {
		for i := range targets {
			if late[i] != now {
				group.Go(func() error { one(&targets[i]); return nil })
			}
		}
	}
	_ = group.Wait() // each target keeps its own error
	return total
}

// meet keeps the hosts of this round's targets and forgets the others. It returns which targets are read last.
func (s *scraper) meet(targets []target) (late []bool) {
	before := s.hosts
	s.hosts, late = make(map[string]*host, len(targets)), make([]bool, len(targets))
	for i := range targets {
		ip := targets[i].pod.IP
		h := before[ip]
		if h == nil {
			h = &host{}
		}
		s.hosts[ip], late[i] = h, h.failing
	}
	return late
}

// skew is the greatest of the hosts whose pages carry times of their own.
func (s *scraper) skew() (worst time.Duration, ok bool) {
	for _, h := range s.hosts {
		if ahead, told := h.clock.Skew(); told && h.stamps {
			ok = true
			if ahead.Abs() > worst.Abs() {
				worst = ahead
			}
		}
	}
	return worst, ok
}

// page is what one pod served.
type page struct {
	samples []exposition.Sample
	bytes   int64
	at      time.Time // when it was asked for
	stamps  bool      // a sample carries a time of its own
}

// read reads one pod's page.
func (s *scraper) read(ctx context.Context, p engine.Pod, wanted map[string]bool, clock *fetch.Clock) (out page, err error) {
	defer recovered(&err)
	out.at = now()
	ip, err := netip.ParseAddr(p.IP)
	if err != nil {
		return out, errors.New("pod has no address")
	}
	ctx, cancel := context.WithTimeout(ctx, podTimeout)
	defer cancel()
	url := s.scheme + "://" + net.JoinHostPort(ip.String(), strconv.Itoa(s.port)) + s.path
	request := fetch.Request{URL: url, Accept: exposition.Accept, Bytes: s.bytes, Clock: clock}
	out.bytes, err = s.client.Do(ctx, request, func(a fetch.Answer) error {
		return exposition.Parse(a, wanted, exposition.DefaultLimits, out.at, func(x *exposition.Sample) {
			kept := *x
			kept.Labels = append(exposition.Labels(nil), x.Labels...)
			if !x.At.Equal(out.at) {
				kept.At, out.stamps = a.SampleTime(x.At), true
			}
			out.samples = append(out.samples, kept)
		})
	})
	return out, err
}

func (s *scraper) close() { s.client.Close() }
