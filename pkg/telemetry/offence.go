package telemetry

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Limit says what a namespace exceeded at a data source.
type Limit string

const (
	LimitSelectors     Limit = "selectors"      // more than maxSelectors distinct selectors: the others are not queried
	LimitSelectorBytes Limit = "selector bytes" // label values of more than maxSelectorBytes: the other selectors are not queried
	LimitSeries        Limit = "series"         // its part of an answer has more series than its share
	LimitBytes         Limit = "bytes"          // its part of an answer has more bytes than its share, or a series with too long labels
	LimitRefused       Limit = "query refused"  // the server refuses the query for this namespace's series, or it takes too long
)

// Offence is a namespace that exceeds a limit at a data source. Its own signals there are missing; those of other namespaces are not.
type Offence struct {
	Source    string // of PlatformConfig.dataSources
	Poll      string // as PollStatus.Poll
	Name      string // as PollStatus.Name
	Namespace string
	Outside   bool // the namespace has no policy that uses the query
	Limit     Limit
}

// String says what happened, why, and what to do next.
func (o Offence) String() string {
	query := o.Poll
	if o.Name != "" {
		query += " " + o.Name
	}
	if o.Outside {
		return fmt.Sprintf("namespace %s, which has no policy there, exceeds a limit at data source %s (%s): %s. The query is divided, and signals of other namespaces are not affected.",
			o.Namespace, o.Source, query, o.Limit.advice())
	}
	return fmt.Sprintf("namespace %s exceeds a limit at data source %s (%s): its signals there are missing until it does not; %s. Signals of other namespaces are not affected.",
		o.Namespace, o.Source, query, o.Limit.advice())
}

func (l Limit) advice() string {
	switch l {
	case LimitSelectors:
		return fmt.Sprintf("its policies have more than %d distinct selectors and latency windows; use one metric name and the same labels and windows", maxSelectors)
	case LimitSelectorBytes:
		return fmt.Sprintf("the label values in its selectors have more than %d bytes; use shorter values or fewer policies", maxSelectorBytes)
	case LimitSeries:
		return "the answer for it has more series than its share of maxSeries; export fewer series of this metric, or raise maxSeries of the data source"
	case LimitBytes:
		return "the answer for it has more bytes than its share of maxBytes, or a series with too long labels; export fewer or shorter labels, or raise maxBytes of the data source"
	}
	return "the server refuses or does not finish the query for its series; look for duplicate series and for too many"
}

// Offences lists the namespaces that exceed a limit now, in a fixed order.
func (p *Poller) Offences() (out []Offence) {
	p.mu.Lock()
	for o := range p.plan.offences {
		out = append(out, o)
	}
	for _, r := range p.state {
		r.mu.Lock()
		out = append(out, r.status.Offences...)
		r.mu.Unlock()
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b Offence) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Poll, b.Poll),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Limit, b.Limit))
	})
	return slices.Compact(out)
}

// offencesOf lists what the group's last round found.
func (s *sharer) offencesOf(g *group) (out []Offence) {
	o := Offence{Source: g.source.Name, Poll: g.key.how.String(), Name: g.name()}
	for o.Namespace, o.Limit = range s.offences {
		out = append(out, o)
	}
	for o.Namespace, o.Limit = range s.outside {
		_, uses := slices.BinarySearch(s.users, o.Namespace)
		o.Outside = !uses
		out = append(out, o)
	}
	return out
}

// offenceCollector exports the offences.
type offenceCollector struct{ poller *Poller }

var offenceDesc = prometheus.NewDesc("gpuscaler_source_namespace_limited",
	"1 for a namespace that exceeds a limit at a data source, by the limit. Its own signals there are missing; those of other namespaces are not.",
	[]string{"source", "poll", "namespace", "limit"}, nil)

func (c offenceCollector) Describe(out chan<- *prometheus.Desc) { out <- offenceDesc }

func (c offenceCollector) Collect(out chan<- prometheus.Metric) {
	seen := map[Offence]bool{}
	for _, o := range c.poller.Offences() {
		o.Name, o.Outside = "", false // two latencies of one engine are one series
		if !seen[o] {
			seen[o] = true
			out <- prometheus.MustNewConstMetric(offenceDesc, prometheus.GaugeValue, 1, o.Source, o.Poll, o.Namespace, string(o.Limit))
		}
	}
}
