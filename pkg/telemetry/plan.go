package telemetry

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// slot is one signal of one policy, waiting for its reading.
type slot struct {
	entry  *entry
	index  int // of the signal
	w      *scaling.Workload
	signal *scaling.Signal
	source *policy.Source
	shape  shape // of a tenant's selector
}

// group is the signals that one poll serves.
type group struct {
	key    string
	how    how
	source policy.DataSource
	query  *policy.Source // of a query: what every slot's source says alike
	shape  shape          // of selectors
	metric string         // of latencies
	window time.Duration
	slots  []slot
}

// how names the ways of polling.
type how uint8

const (
	byQuery     how = iota // a query of the platform team, by Prometheus
	byShape                // tenants' selectors, by Prometheus
	byGauges               // gauges of model servers, by Prometheus
	byHistogram            // latencies of model servers, by Prometheus
	byDCGM                 // GPU counters, by Prometheus
	byKueue                // pending workloads, by Prometheus
	byScrape               // pods' own /metrics
	byExporter             // the DCGM exporters' own /metrics
	byRedis
	byExternal
)

var howWords = [...]string{"query", "selector", "gauges", "histogram", "dcgm", "kueue", "scrape", "exporter", "redis", "external"}

func (h how) String() string { return howWords[h] }

// sameSource tells whether a runner of g can go on with o's slots.
func (g *group) sameSource(o *group) bool { return reflect.DeepEqual(g.source, o.source) }

// plan is everything that is polled, and where the readings go. It is immutable but for the readings.
type plan struct {
	platform *policy.Platform
	entries  map[scaling.Key]*entry
	groups   map[string]*group
	origin   map[scaling.Key]*origin
	shapes   map[string]*shape // by query, kept from plan to plan: parsing ten thousand of them takes a tenth of a second
	known    map[string]*shape // of the last plan
}

// shape returns the shape of a selector's query; ok is false where it has none.
func (p *plan) shape(query string) (shape, bool) {
	s, seen := p.shapes[query]
	if !seen {
		if s, seen = p.known[query]; !seen {
			if made, ok := shapeOf(query); ok {
				s = &made
			}
		}
		p.shapes[query] = s
	}
	if s == nil {
		return shape{}, false
	}
	return *s, true
}

// origin remembers where an entry's signals came from, so that the next version can take over its readings.
type origin struct {
	entry    *entry
	compiled *policy.Compiled
	sources  []*policy.DataSource
}

func newPlan(policies []*policy.Compiled, platform *policy.Platform, last *plan) plan {
	p := plan{
		platform: platform,
		entries:  make(map[scaling.Key]*entry, len(policies)),
		groups:   map[string]*group{},
		origin:   make(map[scaling.Key]*origin, len(policies)),
		shapes:   map[string]*shape{},
		known:    last.shapes,
	}
	for _, c := range policies {
		p.add(c, last.origin[c.Workload.Key])
	}
	p.known = nil
	return p
}

func (p *plan) add(c *policy.Compiled, last *origin) {
	key := c.Workload.Key
	if last != nil && last.compiled.Workload.Policy == c.Workload.Policy && p.sameSources(c, last) {
		// The same version: keep its entry, whose readers may be reading it just now.
		p.entries[key], p.origin[key] = last.entry, &origin{entry: last.entry, compiled: c, sources: last.sources}
	} else {
		e := &entry{policy: c.Workload.Policy}
		o := &origin{entry: e, compiled: c}
		for i := range c.Sources {
			d, _ := p.dataSource(&c.Sources[i], key.Namespace)
			o.sources = append(o.sources, d)
			e.readings[i] = never
			if last != nil {
				e.readings[i] = takeOver(c, i, d, last)
			}
		}
		p.entries[key], p.origin[key] = e, o
	}
	e := p.entries[key]
	for i := range c.Sources {
		s := slot{entry: e, index: i, w: &c.Workload, signal: &c.Workload.Policy.Signals[i], source: &c.Sources[i]}
		p.place(s)
	}
}

func (p *plan) sameSources(c *policy.Compiled, last *origin) bool {
	if c.Workload.Target != last.compiled.Workload.Target || !slices.Equal(c.Sources, last.compiled.Sources) {
		return false
	}
	for i := range c.Sources {
		d, _ := p.dataSource(&c.Sources[i], c.Workload.Key.Namespace)
		if !reflect.DeepEqual(d, last.sources[i]) {
			return false
		}
	}
	return true
}

// takeOver returns the reading of the last version for signal i of the new one, if it measures the same thing at the same place.
func takeOver(c *policy.Compiled, i int, d *policy.DataSource, last *origin) scaling.Reading {
	signal := &c.Workload.Policy.Signals[i]
	for j := range last.compiled.Sources {
		old := &last.compiled.Workload.Policy.Signals[j]
		if last.compiled.Sources[j] == c.Sources[i] && old.Kind == signal.Kind && old.Unit == signal.Unit &&
			last.compiled.Workload.Target == c.Workload.Target && reflect.DeepEqual(d, last.sources[j]) {
			return last.entry.get(j)
		}
	}
	return never
}

// dataSource returns the data source of a signal. Where none is named or needed, it is an implicit one.
func (p *plan) dataSource(s *policy.Source, namespace string) (*policy.DataSource, scaling.Cause) {
	if s.Denied != "" {
		return nil, scaling.CauseForbidden
	}
	if s.DataSource != "" {
		d := p.platform.DataSource(s.DataSource)
		if d == nil {
			return nil, scaling.CauseUnreachable
		}
		// Policy has checked it; a tenant's reading must not hang on one check.
		if !d.Allows(namespace) {
			return nil, scaling.CauseForbidden
		}
		return d, scaling.CauseNone
	}
	switch s.Type {
	case policy.SourceExternal, policy.SourceKEDA:
		return &policy.DataSource{Type: policy.DataExternal}, scaling.CauseNone
	case policy.SourceKueue:
		// Kueue's metrics are the platform's, so a policy names no source for them.
		if d := p.mainPrometheus(); d != nil {
			return d, scaling.CauseNone
		}
		return nil, scaling.CauseUnreachable
	case policy.SourcePrometheus, policy.SourceRedis, policy.SourceDCGM:
		return nil, scaling.CauseUnreachable
	}
	return &policy.DataSource{Type: policy.DataScrape, Profile: s.Type}, scaling.CauseNone
}

// mainPrometheus returns the Prometheus server marked default, else the first.
func (p *plan) mainPrometheus() *policy.DataSource {
	var first *policy.DataSource
	for i := range p.platform.DataSources {
		d := &p.platform.DataSources[i]
		if d.Type == policy.DataPrometheus && (first == nil || d.Default) {
			first = d
		}
	}
	return first
}

// place puts a slot into the group that polls it, or gives it the reading that says why none can.
func (p *plan) place(s slot) {
	d, cause := p.dataSource(s.source, s.w.Key.Namespace)
	if d == nil {
		s.refuse(cause)
		return
	}
	g := group{source: *d}
	if !p.classify(&g, &s) {
		s.refuse(scaling.CauseInvalid)
		return
	}
	g.key = g.identity()
	have := p.groups[g.key]
	if have == nil {
		have = &g
		p.groups[g.key] = have
	}
	have.slots = append(have.slots, s)
}

func (s *slot) refuse(c scaling.Cause) {
	s.entry.set(s.index, scaling.Reading{Reported: -1, Cause: c, Failures: 1})
}

// classify decides how a source is polled; false means that this type of data source cannot answer it.
func (p *plan) classify(g *group, s *slot) bool {
	switch s.source.Type {
	case policy.SourcePrometheus:
		g.how, g.query = byQuery, s.source
		if isSelector(s.source) {
			var ok bool
			if s.shape, ok = p.shape(s.source.Query); ok {
				g.how, g.shape = byShape, s.shape
			}
		}
		return g.source.Type == policy.DataPrometheus
	case policy.SourceKueue:
		g.how = byKueue
		return g.source.Type == policy.DataPrometheus
	case policy.SourceRedis:
		g.how = byRedis
		return g.source.Type == policy.DataRedis
	case policy.SourceExternal, policy.SourceKEDA:
		g.how = byExternal
		return g.source.Type == policy.DataExternal
	case policy.SourceDCGM:
		g.how = byDCGM
		if g.source.Type == policy.DataScrape {
			g.how = byExporter
		}
		return exposition.IsDCGMMetric(s.source.Metric)
	}
	return classifyEngine(g, s.source)
}

func classifyEngine(g *group, s *policy.Source) bool {
	profile, ok := exposition.Engine(string(s.Type))
	if !ok {
		return false
	}
	m, ok := profile.Lookup(s.Metric)
	if !ok {
		return false
	}
	g.source.Profile = s.Type
	switch {
	case g.source.Type == policy.DataScrape:
		g.how = byScrape
	case g.source.Type != policy.DataPrometheus:
		return false
	case m.Shape == exposition.Gauge:
		g.how = byGauges
	default:
		g.how, g.metric, g.window = byHistogram, s.Metric, s.Window
	}
	return true
}

func (g *group) identity() string {
	parts := []string{g.source.Name, g.how.String(), string(g.source.Profile), g.metric, strconv.Itoa(int(g.window))}
	switch g.how {
	case byShape:
		parts = append(parts, g.shape.text)
	case byQuery:
		parts = append(parts, g.query.Query, g.query.NamespaceLabel, g.query.WorkloadLabel)
	}
	return strings.Join(parts, "\x00")
}
