package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// dataSource finds the data source of a signal: the one named, else the default of the first type that has one. Empty means
// that none is declared, and the signal is read in the built-in way (pods scraped directly, the cluster's own API).
func (c *compiler) dataSource(s *SignalSpec, p *yamlPath, types ...DataSourceType) string {
	if s.Source == "" {
		for _, t := range types {
			if d := c.platform.defaultSource(t, c.key.Namespace); d != nil && d.serves(SourceType(s.Type)) {
				return d.Name
			}
		}
		return ""
	}
	at := p.key("source")
	d := c.platform.DataSource(s.Source)
	switch {
	case d == nil:
		var names []string
		for _, known := range c.platform.DataSources {
			names = append(names, known.Name)
		}
		c.lack(at, "the PlatformConfig has no such data source"+didYouMean(s.Source, names), "a data source"+c.sourceNames(types...))
	case !slices.Contains(types, d.Type) || !d.serves(SourceType(s.Type)):
		c.lack(at, fmt.Sprintf("%s is a data source of type %s, which cannot answer a signal of type %s", d.Name, d.Type, s.Type), "a data source"+c.sourceNames(types...))
	case !d.Allows(c.key.Namespace):
		c.lack(at, "the platform does not let namespace "+c.key.Namespace+" use this data source", "a data source"+c.sourceNames(types...))
	}
	return s.Source
}

// serves tells whether a data source can answer signals of a type: a scrape of the DCGM exporter knows nothing of vLLM.
func (d *DataSource) serves(t SourceType) bool {
	return d.Type != DataScrape || d.Profile == "" || d.Profile == t
}

// sourceNames lists the data sources that the policy's namespace may name.
func (c *compiler) sourceNames(types ...DataSourceType) string {
	var names []string
	for _, d := range c.platform.DataSources {
		if slices.Contains(types, d.Type) && d.Allows(c.key.Namespace) {
			names = append(names, d.Name)
		}
	}
	return c.orNone(names)
}

// orNone lists names that a policy may write, or says why there are none.
func (c *compiler) orNone(names []string) string {
	switch {
	case len(names) > 0:
		return ": " + list(names)
	case c.platform == noPlatform:
		return " (there is no PlatformConfig; validate needs its file as well)"
	}
	return " (none is declared for this namespace)"
}

// prometheusSource compiles a signal of type prometheus: a query of the platform, or a selector of one's own.
func (c *compiler) prometheusSource(s *SignalSpec, p *yamlPath, source *Source) Metric {
	switch {
	case s.QueryRef == "" && s.Metric == "":
		c.bad(p.key("queryRef"), "is missing", "queryRef, a query of the PlatformConfig"+c.queryNames()+"; or metric and matchLabels")
	case s.QueryRef != "" && s.Metric != "":
		c.bad(p.key("metric"), "a signal reads one thing", "queryRef, or metric and matchLabels")
	case s.QueryRef != "":
		c.queryRef(s, p, source)
	default:
		return c.selector(s, p, source)
	}
	return Metric{}
}

func (c *compiler) queryRef(s *SignalSpec, p *yamlPath, source *Source) {
	for _, f := range []struct {
		name    string
		written bool
	}{
		{"matchLabels", len(s.MatchLabels) > 0}, {"aggregate", s.Aggregate != ""}, {"rate", s.Rate != 0},
		{"quantile", s.Quantile != 0}, {"window", s.Window != 0}, {"source", s.Source != ""},
	} {
		if f.written {
			c.bad(p.key(f.name), "the query says this itself", "beside queryRef: labelValue")
		}
	}
	q := c.platform.Query(s.QueryRef)
	if q == nil {
		var names []string
		for _, known := range c.platform.Queries {
			names = append(names, known.Name)
		}
		message := "the PlatformConfig has no such query" + didYouMean(s.QueryRef, names)
		if d := c.platform.DataSource(s.QueryRef); d != nil {
			message = d.Name + " is a data source of type " + string(d.Type) + ", not a query"
		}
		c.lack(p.key("queryRef"), message, "a query"+c.queryNames())
		return
	}
	d := c.platform.DataSource(q.Source)
	if d != nil && !d.Allows(c.key.Namespace) {
		c.lack(p.key("queryRef"), "the platform does not let namespace "+c.key.Namespace+" use its data source "+d.Name, "a query"+c.queryNames())
	}
	source.DataSource, source.QueryName, source.Query = q.Source, q.Name, q.PromQL
	if source.WorkloadLabel = q.WorkloadLabel; s.LabelValue != c.ref.Name {
		source.LabelValue = s.LabelValue
	}
	source.NamespaceLabel = q.NamespaceLabel
}

func (c *compiler) queryNames() string {
	var names []string
	for _, q := range c.platform.Queries {
		if d := c.platform.DataSource(q.Source); d == nil || d.Allows(c.key.Namespace) {
			names = append(names, q.Name)
		}
	}
	return c.orNone(names)
}

// selector builds the PromQL of a tenant's own metric. The text is put together by the parser, and always asks for the policy's
// own namespace: no label, value or name that a tenant writes can reach beyond it.
func (c *compiler) selector(s *SignalSpec, p *yamlPath, source *Source) Metric {
	metric := Metric{Name: s.Metric}
	if s.Quantile != 0 || s.Window != 0 {
		metric = latency(s.Metric)
		c.latency(s, p, source, metric)
	}
	source.DataSource = c.dataSource(s, p, DataPrometheus)
	d := c.platform.DataSource(source.DataSource)
	if d == nil {
		if s.Source == "" {
			c.lack(p.key("source"), "is missing", "a prometheus data source of the PlatformConfig"+c.sourceNames(DataPrometheus))
		}
		return metric
	}
	if s.LabelValue != "" {
		c.bad(p.key("labelValue"), "belongs to queryRef", "matchLabels")
	}
	ask := selection{
		metric: s.Metric, labels: s.MatchLabels, aggregate: s.Aggregate, rate: time.Duration(s.Rate), latency: metric.Class == scaling.Latency,
		quantile: s.Quantile, window: source.Window, namespaceLabel: d.NamespaceLabel, namespace: c.key.Namespace, matchers: d.Matchers,
	}
	if ask.aggregate == "" {
		ask.aggregate = "sum"
		if s.MetricType == "Value" || s.MetricType == "" && s.Target != nil && s.Target.Unit != scaling.Count {
			ask.aggregate = "avg"
		}
	}
	for name := range s.MatchLabels {
		if name == d.NamespaceLabel || strings.HasPrefix(name, "__") {
			c.bad(p.key("matchLabels").key(name), "is set by gpuscaler", "labels other than "+d.NamespaceLabel)
		}
	}
	query, err := ask.promQL()
	if err != nil {
		c.bad(p.key("metric"), "no query can be made of it: "+err.Error(), "a metric's name and label names as in Prometheus")
	}
	source.Query, source.NamespaceLabel = query, d.NamespaceLabel
	return metric
}
