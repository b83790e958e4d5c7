package compile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// dataSource returns the name of the data source of a signal: s.Source if it is set, otherwise the default data source. types lists the
// suitable types of data sources. The first type with a default determines the result. If no type has a default, dataSource returns "", and
// the poller scrapes the pods directly or uses the API of the cluster.
func (c *compiler) dataSource(s *spec.Signal, p *decode.Path, types ...policy.DataSourceType) string {
	if s.Source == "" {
		for _, t := range types {
			if d := c.Platform.DefaultSource(t, c.Key.Namespace); d != nil && d.Serves(policy.SourceType(s.Type)) {
				return d.Name
			}
		}
		return ""
	}
	undeclared := func(found string) { c.undeclared(p.Key("source"), found, "a data source"+c.sourceNames(types...)) }
	d := c.Platform.DataSource(s.Source)
	switch {
	case d == nil:
		var names []string
		for _, known := range c.Platform.DataSources {
			names = append(names, known.Name)
		}
		undeclared("the PlatformConfig has no such data source" + wording.DidYouMean(s.Source, names))
	case !slices.Contains(types, d.Type) || !d.Serves(policy.SourceType(s.Type)):
		undeclared(fmt.Sprintf("%s is a data source of type %s, which cannot be read by a signal of type %s", d.Name, d.Type, s.Type))
	case !d.Allows(c.Key.Namespace):
		undeclared("the PlatformConfig does not let namespace " + c.Key.Namespace + " use this data source")
	}
	return s.Source
}

// sourceNames returns the text of a message that lists the data sources that the policy's namespace may use.
func (c *compiler) sourceNames(types ...policy.DataSourceType) string {
	var names []string
	for _, d := range c.Platform.DataSources {
		if slices.Contains(types, d.Type) && d.Allows(c.Key.Namespace) {
			names = append(names, d.Name)
		}
	}
	return c.orNone(names)
}

// orNone returns the names as text for a message. If names is empty, the text says why.
func (c *compiler) orNone(names []string) string {
	switch {
	case len(names) > 0:
		return ": " + wording.List(names)
	case c.Platform.Origin == "" && !c.Platform.Unreadable:
		return " (there is no PlatformConfig: pass its file as well)"
	}
	return " (none is declared for this namespace)"
}

// prometheusSource compiles a signal of type prometheus: a query of the PlatformConfig, or a metric with labels.
func (c *compiler) prometheusSource(s *spec.Signal, p *decode.Path, source *policy.Source) policy.Metric {
	switch {
	case s.QueryRef == "" && s.Metric == "":
		c.Reject(p.Key("queryRef"), "is missing", "queryRef, a query of the PlatformConfig"+c.queryNames()+"; or metric and matchLabels")
	case s.QueryRef != "" && s.Metric != "":
		c.Reject(p.Key("metric"), "a signal has one source", "queryRef, or metric and matchLabels")
	case s.QueryRef != "":
		c.queryRef(s, p, source)
	default:
		return c.selector(s, p, source)
	}
	return policy.Metric{}
}

func (c *compiler) queryRef(s *spec.Signal, p *decode.Path, source *policy.Source) {
	for _, f := range []struct {
		name    string
		written bool
	}{
		{"matchLabels", len(s.MatchLabels) > 0}, {"aggregate", s.Aggregate != ""}, {"rate", s.Rate != 0},
		{"quantile", s.Quantile != 0}, {"window", s.Window != 0}, {"source", s.Source != ""},
	} {
		if f.written {
			c.Reject(p.Key(f.name), "the query determines this", "labelValue in addition to queryRef")
		}
	}
	q := c.Platform.Query(s.QueryRef)
	if q == nil {
		var names []string
		for _, known := range c.Platform.Queries {
			names = append(names, known.Name)
		}
		message := "the PlatformConfig has no such query" + wording.DidYouMean(s.QueryRef, names)
		if d := c.Platform.DataSource(s.QueryRef); d != nil {
			message = d.Name + " is a data source of type " + string(d.Type) + ", not a query"
		}
		c.undeclared(p.Key("queryRef"), message, "a query"+c.queryNames())
		return
	}
	d := c.Platform.DataSource(q.Source)
	if d != nil && !d.Allows(c.Key.Namespace) {
		c.undeclared(p.Key("queryRef"), "the PlatformConfig does not let namespace "+c.Key.Namespace+" use its data source "+d.Name,
			"a query"+c.queryNames())
	}
	source.DataSource, source.QueryName, source.Query = q.Source, q.Name, q.PromQL
	if source.WorkloadLabel = q.WorkloadLabel; s.LabelValue != c.ref.Name {
		source.LabelValue = s.LabelValue
	}
	source.NamespaceLabel = q.NamespaceLabel
}

func (c *compiler) queryNames() string {
	var names []string
	for _, q := range c.Platform.Queries {
		if d := c.Platform.DataSource(q.Source); d == nil || d.Allows(c.Key.Namespace) {
			names = append(names, q.Name)
		}
	}
	return c.orNone(names)
}

// selector builds the PromQL query of a signal for which the policy contains a metric and labels. It builds a syntax tree that always has a
// matcher for the policy's namespace. A label or a metric name in a policy can therefore not make the query read another namespace.
func (c *compiler) selector(s *spec.Signal, p *decode.Path, source *policy.Source) policy.Metric {
	metric := policy.Metric{Name: s.Metric}
	if s.Quantile != 0 || s.Window != 0 {
		metric = policy.LatencyMetric(s.Metric)
		c.latency(s, p, source, metric)
	}
	source.DataSource = c.dataSource(s, p, policy.DataPrometheus)
	d := c.Platform.DataSource(source.DataSource)
	if d == nil {
		if s.Source == "" {
			c.undeclared(p.Key("source"), "is missing", "a prometheus data source of the PlatformConfig"+c.sourceNames(policy.DataPrometheus))
		}
		return metric
	}
	if s.LabelValue != "" {
		c.Reject(p.Key("labelValue"), "belongs to queryRef", "matchLabels")
	}
	ask := promql.Selection{
		Metric: s.Metric, Labels: s.MatchLabels, Aggregate: s.Aggregate, Rate: time.Duration(s.Rate), Latency: metric.Class == scaling.Latency,
		Quantile: s.Quantile, Window: source.Window, NamespaceLabel: d.NamespaceLabel, Namespace: c.Key.Namespace, Matchers: d.Matchers,
	}
	if ask.Aggregate == "" {
		ask.Aggregate = "sum"
		if s.MetricType == "Value" || s.MetricType == "" && s.Target != nil && s.Target.Unit != scaling.Count {
			ask.Aggregate = "avg"
		}
	}
	for name := range s.MatchLabels {
		if name == d.NamespaceLabel || strings.HasPrefix(name, "__") {
			c.Reject(p.Key("matchLabels").Key(name), "is set by gpuscaler", "labels other than "+d.NamespaceLabel)
		}
	}
	query, err := ask.Build()
	if err != nil && !c.FollowsFromDecoding(p.Key("aggregate").String()) {
		c.Reject(p.Key("metric"), "cannot be made into a query: "+err.Error(), "a metric name and label names as in Prometheus")
	}
	source.Query, source.NamespaceLabel = query, d.NamespaceLabel
	return metric
}
