package telemetry

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promquery"
)

// Quota limits the queries that the policies of one namespace can cause at one Prometheus data source. Policies cause queries with
// selectors, and with latencies of model servers over a window. Queries of the platform team are not limited, because their cost does not
// grow with the number of policies that use them.
//
// A separate limit applies to a response for several namespaces: one namespace may cause at most half of the data source's maxSeries and
// maxBytes. That limit applies only while the response for all namespaces exceeds maxSeries or maxBytes.
type Quota struct {
	// Selectors is the greatest number of distinct queries for the policies of a namespace. Each distinct query is sent in every poll.
	// Selectors that differ only in the values of their labels share one query. Latencies of model servers over different windows need
	// different queries. 0 means DefaultQuota.Selectors.
	Selectors int
	// SelectorBytes is the greatest sum of the sizes of all label values in selectors. 0 means DefaultQuota.SelectorBytes.
	SelectorBytes int
}

// DefaultQuota permits 32 queries and 256 KiB of label values, which is enough for 8,000 selectors with 30 bytes each.
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

// usage contains the queries and the bytes of label values that one namespace uses at one data source. Quota limits both.
type usage struct {
	queries map[groupKey]bool
	bytes   int
}

type quotaKey struct{ source, namespace string }

// byTenant reports whether the query of a group depends on a tenant's policy. Other queries depend only on the PlatformConfig.
func (k *groupKey) byTenant(s *candidate) bool {
	return k.kind == bySelector || k.kind == byHistogram || (k.kind == byQuery && s.request.Source.QueryName == "")
}

// countQuota counts a signal against the quota of its namespace. If the signal exceeds the quota, countQuota records a violation, stores a
// missing reading for the signal, and returns false.
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
