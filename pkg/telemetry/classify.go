package telemetry

import (
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

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

// classify decides how a source is polled and which group it belongs to; false means that this type of data source cannot answer it.
func (p *plan) classify(s *slot, d *policy.DataSource) (key groupKey, ok bool) {
	key.source = d.Name
	switch s.source.Type {
	case policy.SourcePrometheus:
		return p.classifyQuery(key, s), d.Type == policy.DataPrometheus
	case policy.SourceKueue:
		key.how = byKueue
		return key, d.Type == policy.DataPrometheus
	case policy.SourceRedis:
		key.how = byRedis
		return key, d.Type == policy.DataRedis
	case policy.SourceExternal, policy.SourceKEDA:
		key.how = byExternal
		return key, d.Type == policy.DataExternal
	case policy.SourceDCGM:
		key.how = byDCGM
		if d.Type == policy.DataScrape {
			key.how = byExporter
		}
		return key, exposition.IsDCGMMetric(s.source.Metric) && (d.Type == policy.DataPrometheus || d.Type == policy.DataScrape)
	}
	return classifyEngine(key, s.source, d)
}

func (p *plan) classifyQuery(key groupKey, s *slot) groupKey {
	if s.source.QueryName == "" { // a tenant's own selector
		if s.shape = p.shape(s.source.Query); s.shape != nil {
			key.how, key.query = byShape, s.shape.text
			return key
		}
	}
	key.how, key.query = byQuery, s.source.Query
	key.namespaceLabel, key.workloadLabel = s.source.NamespaceLabel, s.source.WorkloadLabel
	return key
}

// shape returns the shape of a selector's query, nil where it has none.
func (p *plan) shape(query string) *shape {
	s, seen := p.shapes[query]
	if !seen {
		if s, seen = p.known[query]; !seen {
			s = shapeOf(query)
		}
		p.shapes[query] = s
	}
	return s
}

func classifyEngine(key groupKey, s *policy.Source, d *policy.DataSource) (groupKey, bool) {
	profile, ok := exposition.Engine(string(s.Type))
	if !ok {
		return key, false
	}
	m, ok := profile.Lookup(s.Metric)
	if !ok {
		return key, false
	}
	key.profile = s.Type
	switch {
	case d.Type == policy.DataScrape:
		key.how = byScrape
	case d.Type != policy.DataPrometheus:
		return key, false
	case m.Shape == exposition.Gauge:
		key.how = byGauges
	default:
		key.how, key.metric, key.window = byHistogram, s.Metric, s.Window
	}
	return key, true
}
