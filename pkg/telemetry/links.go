package telemetry

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"sync"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// Caps where the data source says nothing.
const (
	defaultMaxBytes  = 32 << 20
	defaultMaxSeries = 50_000
	maxLabelBytes    = 16 << 10 // of one series
)

// links holds what polls of one data source share: its connections and its turnstile.
type links struct {
	options *Options

	mu     sync.Mutex
	byName map[string]*link
}

type link struct {
	source policy.DataSource
	turns  *turns
	clock  fetch.Clock // of a Prometheus server

	mu   sync.Mutex
	http *fetch.Client
}

func newLinks(o *Options) *links { return &links{options: o, byName: map[string]*link{}} }

// update drops the links of data sources that are gone or changed. Runners of those were stopped; their last poll may still end.
func (l *links) update(platform *policy.Platform) {
	if platform == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, have := range l.byName {
		if d := platform.DataSource(name); name != "" && (d == nil || !reflect.DeepEqual(*d, have.source)) {
			have.close()
			delete(l.byName, name)
		}
	}
	for _, d := range platform.DataSources {
		if l.byName[d.Name] == nil {
			l.byName[d.Name] = newLink(d)
		}
	}
}

func newLink(d policy.DataSource) *link {
	return &link{source: d, turns: newTurns()}
}

// get returns the link of a data source; the implicit ones come into being here.
func (l *links) get(d policy.DataSource) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.byName[d.Name]
	if have == nil {
		have = newLink(d)
		l.byName[d.Name] = have
	}
	return have
}

// enter waits for a group's turn at its data source.
func (l *links) enter(ctx context.Context, g *group) (release func(), err error) {
	return l.get(g.source).turns.enter(ctx, g.owner)
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range l.byName {
		have.close()
	}
}

// client returns the HTTP client of a Prometheus server. One that cannot be made (a certificate that is not mounted yet) is tried
// again at the next poll.
func (k *link) client() (*fetch.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.http != nil {
		return k.http, nil
	}
	u, err := url.Parse(k.source.Address)
	if err != nil {
		return nil, err
	}
	c := fetch.Config{Guard: fetch.GuardFor(u.Hostname()), SigV4: sigv4Config(k.source.SigV4)}
	if c.HTTP, err = httpConfig(k.source.HTTP); err != nil {
		return nil, err
	}
	k.http, err = fetch.NewClient(c)
	return k.http, err
}

func (k *link) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.http != nil {
		k.http.Close()
	}
}

// fetcher returns what polls a group.
func (l *links) fetcher(g *group) (fetcher, error) {
	switch g.key.how {
	case byQuery, byShape, byGauges, byHistogram, byDCGM, byKueue:
		k := l.get(g.source)
		c, err := k.client()
		if err != nil {
			return nil, err
		}
		a, err := l.prometheus(g, promapi.New(c, g.source.Address, limitsOf(g), &k.clock))
		if err != nil {
			return nil, err
		}
		return newSharer(a, limitsOf(g)), nil
	case byScrape:
		return newEngineScraper(g, l.options)
	case byExporter:
		return newExporterScraper(g, l.options)
	case byRedis:
		return newRedisFetcher(&g.source)
	case byExternal:
		return newExternalFetcher(l.options, g.timeout())
	}
	return nil, fmt.Errorf("%w: nothing polls by %s", errInvalid, g.key.how)
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

func (l *links) prometheus(g *group, api *promapi.Client) (asker, error) {
	switch g.key.how {
	case byQuery:
		return newQueryFetcher(g, api)
	case byShape:
		return &shapeFetcher{api: api, shape: g.shape}, nil
	case byGauges:
		return newGaugeFetcher(g, api, l.options)
	case byDCGM:
		return newGPUFetcher(g, api, l.options), nil
	case byHistogram:
		return newLatencyFetcher(g, api, l.options)
	case byKueue:
		return newKueueFetcher(g, api), nil
	}
	return nil, fmt.Errorf("%w: Prometheus is not asked for %s", errInvalid, g.key.how)
}
