package telemetry

import (
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promquery"
)

// pollKind is the way in which a group of signals is polled: from which kind of data source, and with which kind of query.
type pollKind uint8

const (
	byQuery     pollKind = iota // Prometheus: a query that the platform team wrote
	bySelector                  // Prometheus: selectors that tenants wrote
	byGauges                    // Prometheus: gauges of model servers
	byHistogram                 // Prometheus: latencies of model servers
	byDCGM                      // Prometheus: GPU counters
	byKueue                     // Prometheus: pending workloads of Kueue
	byScrape                    // pages /metrics of pods
	byExporter                  // pages /metrics of DCGM exporters
	byRedis
	byExternal
)

var pollKinds = [...]string{"query", "selector", "gauges", "histogram", "dcgm", "kueue", "scrape", "exporter", "redis", "external"}

// String returns the name of the kind for metrics and logs.
func (k pollKind) String() string { return pollKinds[k] }

// dataSource returns the data source of a signal. If the signal does not name a data source, dataSource returns the default for the type of
// the signal. If there is no data source, or if the namespace is not allowed to use it, dataSource returns nil and the cause.
func (p *plan) dataSource(s *policy.Source, namespace string) (*policy.DataSource, scaling.Cause) {
	if s.Denied != "" {
		return nil, scaling.CauseDenied
	}
	if s.DataSource != "" {
		d := p.platform.DataSource(s.DataSource)
		if d == nil {
			return nil, scaling.CauseNoSource
		}
		if !d.Allows(namespace) { // package policy checks this too; this second check protects the data of other tenants
			return nil, scaling.CauseDenied
		}
		return d, scaling.CauseNone
	}
	switch s.Type {
	case policy.SourceExternal, policy.SourceKEDA:
		return &policy.DataSource{Type: policy.DataExternal}, scaling.CauseNone
	case policy.SourceKueue:
		// The platform team runs Kueue, so a policy does not have to name a data source for Kueue's metrics.
		if d := p.defaultPrometheus(); d != nil {
			return d, scaling.CauseNone
		}
		return nil, scaling.CauseNoSource
	case policy.SourcePrometheus, policy.SourceRedis, policy.SourceDCGM:
		return nil, scaling.CauseNoSource
	}
	return &policy.DataSource{Type: policy.DataScrape, Profile: s.Type}, scaling.CauseNone
}

// defaultPrometheus returns the Prometheus server that is marked as default. If none is marked, it returns the first Prometheus server.
func (p *plan) defaultPrometheus() *policy.DataSource {
	var first *policy.DataSource
	for i := range p.platform.DataSources {
		d := &p.platform.DataSources[i]
		if d.Type == policy.DataPrometheus && (first == nil || d.Default) {
			first = d
		}
	}
	return first
}

// classify returns the key of the group with which a signal is polled. If the signal reads a selector that a tenant wrote, classify also
// sets c.shape and c.request.LabelValues. With these, several selectors can be combined into one query. ok is false if a data source of
// this type cannot serve the signal.
func (p *plan) classify(c *candidate, d *policy.DataSource) (key groupKey, ok bool) {
	key.source = d.Name
	switch c.request.Source.Type {
	case policy.SourcePrometheus:
		return p.classifyQuery(key, c), d.Type == policy.DataPrometheus
	case policy.SourceKueue:
		key.kind = byKueue
		return key, d.Type == policy.DataPrometheus
	case policy.SourceRedis:
		key.kind = byRedis
		return key, d.Type == policy.DataRedis
	case policy.SourceExternal, policy.SourceKEDA:
		key.kind = byExternal
		return key, d.Type == policy.DataExternal
	case policy.SourceDCGM:
		key.kind = byDCGM
		if d.Type == policy.DataScrape {
			key.kind = byExporter
		}
		return key, exposition.IsDCGMMetric(c.request.Source.Metric) && (d.Type == policy.DataPrometheus || d.Type == policy.DataScrape)
	}
	return classifyEngine(key, c.request.Source, d)
}

func (p *plan) classifyQuery(key groupKey, c *candidate) groupKey {
	s := c.request.Source
	if s.QueryName == "" { // without a query name, the selector is from a tenant's policy
		parsed := p.parseSelector(s.Query)
		if c.shape = parsed.shape; c.shape != nil {
			c.request.LabelValues = parsed.values
			key.kind, key.query = bySelector, c.shape.Text
			return key
		}
	}
	key.kind, key.query = byQuery, s.Query
	key.namespaceLabel, key.workloadLabel = s.NamespaceLabel, s.WorkloadLabel
	return key
}

// selector is a parsed selector of a tenant's policy. shape is nil if the selector cannot be combined with others into one query.
type selector struct {
	shape  *promquery.Shape
	values string
}

// parseSelector returns the parsed selector. It reuses the result for the previous version of the policies, because parsing ten thousand
// selectors takes a tenth of a second.
func (p *plan) parseSelector(query string) selector {
	s, ok := p.selectors[query]
	if !ok {
		if s, ok = p.lastSelectors[query]; !ok {
			s.shape, s.values = promquery.ParseShape(query)
		}
		p.selectors[query] = s
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
		key.kind = byScrape
	case d.Type != policy.DataPrometheus:
		return key, false
	case m.Shape == exposition.Gauge:
		key.kind = byGauges
	default:
		key.kind, key.metric, key.window = byHistogram, s.Metric, s.Window
	}
	return key, true
}
