package telemetry

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promquery"
)

// Quota bounds what the policies of one namespace may ask of one Prometheus data source by their own selectors and windows. Queries that
// the platform team wrote do not count, because their cost does not grow with the number of policies that use them.
//
// A namespace's share of series and bytes is not part of it: it is half of the data source's maxSeries and maxBytes, and applies only
// while the namespaces together exceed those.
type Quota struct {
	// Selectors is the greatest number of distinct queries: selectors that differ in more than the values of their labels, and latencies
	// of model servers over different windows. Each is one query in each poll. 0 is DefaultQuota.Selectors.
	Selectors int
	// SelectorBytes is the greatest size of all label values together, in bytes. 0 is DefaultQuota.SelectorBytes.
	SelectorBytes int
}

// DefaultQuota is enough for 32 queries and, at 30 bytes each, for 8,000 selectors.
var DefaultQuota = Quota{Selectors: 32, SelectorBytes: 256 << 10}

func (q Quota) withDefaults() Quota {
	if q.Selectors <= 0 {
		q.Selectors = DefaultQuota.Selectors
	}
	if q.SelectorBytes <= 0 {
		q.SelectorBytes = DefaultQuota.SelectorBytes
	}
	return q
}

// usage is what one namespace asks of one data source.
type usage struct {
	queries map[groupKey]bool
	bytes   int
}

type quotaKey struct{ source, namespace string }

// byTenant reports whether the text of a group's query is made from a tenant's policy.
func (k *groupKey) byTenant(s *candidate) bool {
	return k.kind == bySelector || k.kind == byHistogram || (k.kind == byQuery && s.request.Source.QueryName == "")
}

// countQuota counts a signal against the quota of its namespace. Where the signal exceeds it, it records the violation and the reading,
// and returns false.
func (p *plan) countQuota(key groupKey, s *candidate) bool {
	if !key.byTenant(s) {
		return true
	}
	at := quotaKey{key.source, s.request.Namespace()}
	u := p.used[at]
	if u == nil {
		u = &usage{queries: map[groupKey]bool{}}
		p.used[at] = u
	}
	size := 0
	if key.kind != byHistogram {
		size = len(s.request.Source.Query)
		if s.shape != nil {
			size = len(s.request.LabelValues)
		}
	}
	v := LimitViolation{Source: key.source, Poll: key.kind.String(), Namespace: at.namespace}
	switch {
	case !u.queries[key] && len(u.queries) >= p.quota.Selectors:
		v.Limit, v.Bound = promquery.LimitSelectors, p.quota.Selectors
	case u.bytes+size > p.quota.SelectorBytes:
		v.Limit, v.Bound = promquery.LimitSelectorBytes, p.quota.SelectorBytes
	default:
		u.queries[key] = true
		u.bytes += size
		return true
	}
	p.violations[v] = true
	s.refuse(scaling.CauseQuota)
	return false
}
