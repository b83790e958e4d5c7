package telemetry

import "github.com/gpuscaler/gpuscaler/pkg/scaling"

// What one namespace may ask of one Prometheus data source by the selectors and windows of its own policies. A query that the platform
// team wrote counts against nobody's quota: its cost does not grow with the number of policies that use it.
const (
	// maxSelectors bounds the distinct queries: selectors that differ in more than the values of their labels, and latencies of model
	// servers over different windows. Each is one query a round.
	maxSelectors = 32
	// maxSelectorBytes bounds the values of all labels together. At 30 bytes a selector it is enough for 8,000 selectors.
	maxSelectorBytes = 256 << 10
)

// allowance counts what one namespace asks of one data source.
type allowance struct {
	keys  map[groupKey]bool
	bytes int
}

type allowanceKey struct{ source, namespace string }

// ofTenant reports whether the text of a group's query is made from a tenant's policy.
func (k *groupKey) ofTenant(s *slot) bool {
	return k.how == byShape || k.how == byHistogram || (k.how == byQuery && s.source.QueryName == "")
}

// allow counts a slot against the quota of its namespace. It returns the limit that the slot would exceed, or "".
func (p *plan) allow(key groupKey, s *slot) Limit {
	if !key.ofTenant(s) {
		return ""
	}
	at := allowanceKey{key.source, s.w.Key.Namespace}
	a := p.allowances[at]
	if a == nil {
		a = &allowance{keys: map[groupKey]bool{}}
		p.allowances[at] = a
	}
	size := 0
	if key.how != byHistogram {
		size = len(s.source.Query)
		if s.shape != nil {
			size = len(s.shape.values)
		}
	}
	limit := Limit("")
	switch {
	case !a.keys[key] && len(a.keys) >= maxSelectors:
		limit = LimitSelectors
	case a.bytes+size > maxSelectorBytes:
		limit = LimitSelectorBytes
	}
	if limit != "" {
		p.offences[Offence{Source: key.source, Poll: key.how.String(), Namespace: at.namespace, Limit: limit}] = true
		s.refuse(scaling.CauseQuota)
		return limit
	}
	a.keys[key] = true
	a.bytes += size
	return ""
}

// own finds out which groups serve a single namespace of several that use their data source. Their polls wait for their namespace's
// turn.
func (p *plan) own() {
	users := map[string]map[string]bool{}
	for key, g := range p.groups {
		if users[key.source] == nil {
			users[key.source] = map[string]bool{}
		}
		for i := range g.slots {
			users[key.source][g.slots[i].w.Key.Namespace] = true
		}
	}
	for key, g := range p.groups {
		if len(users[key.source]) > 1 && g.alone() {
			g.owner = g.slots[0].w.Key.Namespace
		}
	}
}

// alone reports whether a group serves a single namespace.
func (g *group) alone() bool {
	for i := range g.slots {
		if g.slots[i].w.Key.Namespace != g.slots[0].w.Key.Namespace {
			return false
		}
	}
	return true
}
