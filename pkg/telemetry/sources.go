package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"sync"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/external"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promquery"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/redisqueue"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/scrape"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// These limits apply to one response if the data source does not set its own limits.
const (
	defaultMaxBytes  = 32 << 20
	defaultMaxSeries = 50_000
	maxLabelBytes    = 16 << 10 // maximum bytes of the labels of one series
)

// dataSources contains the state that all polls of one data source share: its HTTP client, its clock and its queue of polls.
type dataSources struct {
	options *Options

	mu     sync.Mutex
	byName map[string]*dataSource
}

type dataSource struct {
	spec  policy.DataSource
	over  http.RoundTripper // replaces the network in a simulation; nil: requests use the network
	queue *pollQueue
	clock fetch.Clock // clock of a Prometheus server

	mu   sync.Mutex
	http *fetch.Client
}

func newDataSources(o *Options) *dataSources {
	return &dataSources{options: o, byName: map[string]*dataSource{}}
}

func newDataSource(d policy.DataSource, over http.RoundTripper) *dataSource {
	return &dataSource{spec: d, over: over, queue: newPollQueue()}
}

// update replaces the data sources whose configuration changed, and closes removed data sources. The caller has already stopped the
// runners of these data sources, but their last poll may still be in progress.
func (s *dataSources) update(platform *policy.Platform) {
	if platform == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, have := range s.byName {
		if d := platform.DataSource(name); name != "" && (d == nil || !reflect.DeepEqual(*d, have.spec)) {
			have.close()
			delete(s.byName, name)
		}
	}
	for _, d := range platform.DataSources {
		if s.byName[d.Name] == nil {
			s.byName[d.Name] = newDataSource(d, s.options.Transport)
		}
	}
}

// get returns the state of a data source. If d is an implicit data source, which is not in the PlatformConfig, get creates its state at the
// first call.
func (s *dataSources) get(d policy.DataSource) *dataSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.byName[d.Name]
	if have == nil {
		have = newDataSource(d, s.options.Transport)
		s.byName[d.Name] = have
	}
	return have
}

// acquire waits until a group may poll its data source. The caller calls release after the poll.
func (s *dataSources) acquire(ctx context.Context, g *group) (release func(), err error) {
	return s.get(g.source).queue.acquire(ctx, g.namespace)
}

func (s *dataSources) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range s.byName {
		have.close()
	}
}

// client returns the HTTP client of a Prometheus server. If it cannot be created, for example because a certificate is not mounted yet,
// client returns an error, and the next poll tries again.
func (d *dataSource) client() (*fetch.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.http != nil {
		return d.http, nil
	}
	u, err := url.Parse(d.spec.Address)
	if err != nil {
		return nil, err
	}
	c := fetch.Config{Guard: fetch.GuardFor(u.Hostname()), SigV4: fetch.SigV4Config(d.spec.SigV4), Transport: d.over}
	if c.HTTP, err = fetch.HTTPConfig(d.spec.HTTP); err != nil {
		return nil, err
	}
	d.http, err = fetch.NewClient(c)
	return d.http, err
}

func (d *dataSource) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.http != nil {
		d.http.Close()
	}
}

// fetcher creates the Fetcher that reads the signals of a group. The kind of the group's poll determines the type of the Fetcher.
func (s *dataSources) fetcher(g *group) (source.Fetcher, error) {
	guard := fetch.Guard{Loopback: s.options.LoopbackPods}
	switch g.key.kind {
	case byQuery, bySelector, byGauges, byHistogram, byDCGM, byKueue:
		return s.prometheus(g)
	case byScrape:
		return scrape.NewEngines(&g.source, g.key.profile, s.cluster(), guard)
	case byExporter:
		return scrape.NewExporters(&g.source, s.cluster(), guard)
	case byRedis:
		return redisqueue.New(&g.source, s.options.DialRedis)
	case byExternal:
		return external.New(s.options.Kubernetes, s.options.Triggers, g.timeout())
	}
	return nil, fmt.Errorf("%w: no source has polls of kind %s", source.ErrInvalid, g.key.kind)
}

func (s *dataSources) cluster() pods.Cluster {
	return pods.Cluster{Pods: s.options.Pods, Exporters: s.options.Exporters, Nodes: s.options.Nodes}
}

func (s *dataSources) prometheus(g *group) (source.Fetcher, error) {
	d := s.get(g.source)
	c, err := d.client()
	if err != nil {
		return nil, err
	}
	server := &promquery.Server{
		API: promapi.New(c, g.source.Address, limitsOf(g), &d.clock), Limits: limitsOf(g), DataSource: &g.source, Cluster: s.cluster(),
	}
	switch g.key.kind {
	case byQuery:
		return server.Query(g.first)
	case bySelector:
		return server.Selectors(g.shape), nil
	case byGauges:
		return server.Gauges(g.key.profile)
	case byDCGM:
		return server.GPUs(), nil
	case byHistogram:
		return server.Latency(g.key.profile, g.key.metric, g.key.window)
	}
	return server.Kueue(), nil
}

func limitsOf(g *group) promapi.Limits {
	l := promapi.Limits{Bytes: g.source.MaxBytes, Series: g.source.MaxSeries, Labels: maxLabelBytes}
	if l.Bytes <= 0 {
		l.Bytes = defaultMaxBytes
	}
	if l.Series <= 0 {
		l.Series = defaultMaxSeries
	}
	return l
}
