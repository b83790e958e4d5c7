package telemetry

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promquery"
)

// LimitViolation reports that a namespace exceeds a limit at a data source. The readings that this namespace gets from the data source are
// missing; the readings of other namespaces are not affected.
type LimitViolation struct {
	Source    string // name of the data source in the PlatformConfig
	Poll      string // query, selector, gauges, histogram, dcgm, kueue, scrape, exporter, redis or external
	Name      string // name of the query, or the engine and its latency
	Namespace string
	Outside   bool // true if the namespace has no policy that uses the query
	Limit     promquery.Limit
	Bound     int // value of the exceeded limit; set only for the limits of a Quota
}

// String returns a message for the user: which namespace exceeds which limit, the consequence, and what to change.
func (v LimitViolation) String() string {
	query := v.Poll
	if v.Name != "" {
		query += " " + v.Name
	}
	if v.Outside {
		return fmt.Sprintf("namespace %s, which has no policy there, exceeds a limit at data source %s (%s): %s. "+
			"The query is divided, and signals of other namespaces are not affected.", v.Namespace, v.Source, query, v.advice())
	}
	return fmt.Sprintf("namespace %s exceeds a limit at data source %s (%s): its signals there are missing until it no longer does; %s. "+
		"Signals of other namespaces are not affected.", v.Namespace, v.Source, query, v.advice())
}

func (v LimitViolation) advice() string {
	switch v.Limit {
	case promquery.LimitSelectors:
		return fmt.Sprintf("its policies have more than %d distinct selectors and latency windows; use one metric name and the same labels "+
			"and windows, or raise --max-selectors-per-namespace", v.Bound)
	case promquery.LimitSelectorBytes:
		return fmt.Sprintf("the label values in its selectors have more than %d bytes; use shorter values or fewer policies, or raise "+
			"--max-selector-bytes-per-namespace", v.Bound)
	case promquery.LimitSeries:
		return "the answer for it has more series than its share of maxSeries; export fewer series of this metric, or raise maxSeries of " +
			"the data source"
	case promquery.LimitBytes:
		return "the answer for it has more bytes than its share of maxBytes, or a series with too long labels; export fewer or shorter " +
			"labels, or raise maxBytes of the data source"
	}
	return "the server refuses or does not finish the query for its series; look for duplicate series and for too many"
}

// LimitViolations returns the limits that namespaces exceed now, sorted.
func (p *Poller) LimitViolations() (out []LimitViolation) {
	p.mu.Lock()
	for v := range p.plan.violations {
		out = append(out, v)
	}
	for _, r := range p.runners {
		r.mu.Lock()
		out = append(out, r.status.Violations...)
		r.mu.Unlock()
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b LimitViolation) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Poll, b.Poll),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Limit, b.Limit))
	})
	return slices.Compact(out)
}

// violationsOf returns the violations that the last poll of a group found.
func violationsOf(f *promquery.Fetcher, g *group) (out []LimitViolation) {
	for _, v := range f.Violations() {
		out = append(out, LimitViolation{Source: g.source.Name, Poll: g.key.kind.String(), Name: g.name(),
			Namespace: v.Namespace, Outside: v.Outside, Limit: v.Limit})
	}
	return out
}

// violationCollector exports the violations as a metric.
type violationCollector struct{ poller *Poller }

var violationDesc = prometheus.NewDesc("gpuscaler_source_namespace_limited",
	"1 for a namespace that exceeds a limit at a data source, by the limit. Only its own signals there are missing.",
	[]string{"source", "poll", "namespace", "limit"}, nil)

func (c violationCollector) Describe(out chan<- *prometheus.Desc) { out <- violationDesc }

func (c violationCollector) Collect(out chan<- prometheus.Metric) {
	seen := map[[4]string]bool{} // two latencies of one engine would have the same labels, so only one series is sent for both
	for _, v := range c.poller.LimitViolations() {
		values := [4]string{v.Source, v.Poll, v.Namespace, string(v.Limit)}
		if !seen[values] {
			seen[values] = true
			out <- prometheus.MustNewConstMetric(violationDesc, prometheus.GaugeValue, 1, values[:]...)
		}
	}
}
