package telemetry

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promquery"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// groupKey is what the signals of one poll have in common. Fields that a poll kind does not use are empty.
type groupKey struct {
	source                        string
	kind                          pollKind
	profile                       policy.SourceType
	metric                        string // of latencies
	window                        time.Duration
	query                         string // or the text of a shape
	namespaceLabel, workloadLabel string
}

// group is the signals that one poll serves.
type group struct {
	key      groupKey
	source   policy.DataSource
	first    *policy.Source   // of the first request; the fields that the key has are the same for all requests
	shape    *promquery.Shape // of selectors
	requests []source.Request
	slots    []slot // parallel to requests

	// namespace is the one namespace that the group serves where several use the data source, and else empty; see pollQueue.
	namespace string
}

// slot is where the reading of one signal is stored.
type slot struct {
	entry *entry
	index int // of the signal
}

// sameSource reports whether a runner of g can poll o: their data sources are equal.
func (g *group) sameSource(o *group) bool { return reflect.DeepEqual(g.source, o.source) }

// name returns the name of a group's query, or its engine and metric, for status and logs.
func (g *group) name() string {
	if g.key.kind == byQuery {
		return g.first.QueryName
	}
	return strings.TrimSpace(string(g.key.profile) + " " + g.key.metric)
}

// plan is everything that is polled, and where the readings are stored. Only the readings change after newPlan.
type plan struct {
	platform  *policy.Platform
	entries   entries
	groups    map[groupKey]*group
	origins   map[scaling.Key]*origin
	selectors map[string]selector // by query

	violations map[LimitViolation]bool // of the quotas

	// Used while the plan is built.
	quota         Quota
	used          map[quotaKey]*usage
	unmoved       map[string]bool // data sources that read from the same place as in the last plan
	lastSelectors map[string]selector
}

// origin is where the signals of an entry are read. The next version of the policy keeps the readings whose origin did not change.
type origin struct {
	entry    *entry
	compiled *policy.Compiled
	sources  []*policy.DataSource
}

// candidate is a signal that is not in a group yet.
type candidate struct {
	slot
	request source.Request
	shape   *promquery.Shape
}

func newPlan(policies []*policy.Compiled, platform *policy.Platform, quota Quota, last *plan) plan {
	p := plan{
		platform:  platform,
		entries:   newEntries(len(policies)),
		groups:    map[groupKey]*group{},
		origins:   make(map[scaling.Key]*origin, len(policies)),
		selectors: map[string]selector{},

		violations: map[LimitViolation]bool{},

		quota:         quota,
		used:          map[quotaKey]*usage{},
		unmoved:       map[string]bool{},
		lastSelectors: last.selectors,
	}
	for i := range platform.DataSources {
		d := &platform.DataSources[i]
		if last.platform != nil {
			p.unmoved[d.Name] = samePlace(d, last.platform.DataSource(d.Name))
		}
	}
	for _, c := range policies {
		p.add(c, last.origins[c.Workload.Key])
	}
	p.setNamespaces()
	p.used, p.unmoved, p.lastSelectors = nil, nil, nil
	for key, o := range last.origins {
		if have := p.origins[key]; have == nil || have.entry != o.entry {
			p.entries.replaced[o.entry.policy] = o.entry
		}
	}
	return p
}

func (p *plan) add(c *policy.Compiled, last *origin) {
	key := c.Workload.Key
	o := &origin{compiled: c}
	var causes [scaling.MaxSignals]scaling.Cause
	for i := range c.Sources {
		d, cause := p.dataSource(&c.Sources[i], key.Namespace)
		o.sources, causes[i] = append(o.sources, d), cause
	}
	if last != nil && p.unchanged(o, last) {
		o.entry = last.entry // the same version, which a tick may be reading
	} else {
		o.entry = &entry{key: key, policy: c.Workload.Policy, readings: make([]scaling.Reading, len(c.Sources))}
		for i := range c.Sources {
			o.entry.readings[i] = p.keptReading(o, i, last)
		}
	}
	p.origins[key] = o
	p.entries.add(o.entry)
	for i, d := range o.sources {
		s := candidate{slot: slot{o.entry, i}, request: source.Request{
			Workload: &c.Workload, Signal: &c.Workload.Policy.Signals[i], Source: &c.Sources[i],
		}}
		if c.Workload.Group != "" { // only capacity groups ask for idle pods
			s.request.Idle = o.entry.idlePods(i)
		}
		if d == nil {
			s.refuse(causes[i])
		} else if !p.place(&s, d) {
			s.refuse(scaling.CauseInvalid)
		}
	}
}

// refuse stores the reading of a signal that no group polls, with the cause.
func (s *slot) refuse(c scaling.Cause) {
	r := source.Missing(c)
	r.Failures = 1
	s.entry.set(s.index, r)
}

// unchanged reports whether o is the same version of a policy as last and reads from the same places.
func (p *plan) unchanged(o, last *origin) bool {
	a, b := &o.compiled.Workload, &last.compiled.Workload
	return a.Policy == b.Policy && a.Target == b.Target && slices.Equal(o.compiled.Sources, last.compiled.Sources) &&
		slices.EqualFunc(o.sources, last.sources, p.sameDataSource)
}

// sameDataSource reports whether d reads from the same place as old. An implicit data source has no name and depends only on the signal's
// own source.
func (p *plan) sameDataSource(d, old *policy.DataSource) bool {
	if d == nil || old == nil {
		return d == old
	}
	return d.Name == old.Name && (d.Name == "" || p.unmoved[d.Name])
}

// samePlace reports whether d reads from the same place as old. Its interval, limits and permitted namespaces do not change what is
// measured, so that an edit of them keeps the readings.
func samePlace(d, old *policy.DataSource) bool {
	if old == nil {
		return false
	}
	a, b := *d, *old
	for _, x := range []*policy.DataSource{&a, &b} {
		x.Default, x.Namespaces, x.Interval, x.Timeout, x.MaxBytes, x.MaxSeries = false, nil, 0, 0, 0, 0
	}
	return reflect.DeepEqual(&a, &b)
}

// keptReading returns the reading of the last version for signal i of the new one, if both measure the same at the same place, and else
// neverRead.
func (p *plan) keptReading(o *origin, i int, last *origin) scaling.Reading {
	if last == nil || last.compiled.Workload.Target != o.compiled.Workload.Target {
		return neverRead
	}
	signal := &o.compiled.Workload.Policy.Signals[i]
	for j := range last.compiled.Sources {
		old := &last.compiled.Workload.Policy.Signals[j]
		if last.compiled.Sources[j] == o.compiled.Sources[i] && old.Kind == signal.Kind && old.Unit == signal.Unit &&
			p.sameDataSource(o.sources[i], last.sources[j]) {
			return last.entry.get(j)
		}
	}
	return neverRead
}

// place adds a signal to the group that polls it, unless it is over a quota. It returns false where the data source's type cannot serve
// the signal.
func (p *plan) place(s *candidate, d *policy.DataSource) bool {
	key, ok := p.classify(s, d)
	if !ok {
		return false
	}
	if !p.countQuota(key, s) {
		return true
	}
	g := p.groups[key]
	if g == nil {
		g = &group{key: key, source: *d, first: s.request.Source, shape: s.shape}
		p.groups[key] = g
	}
	g.requests, g.slots = append(g.requests, s.request), append(g.slots, s.slot)
	return true
}

// setNamespaces sets the namespace of the groups that serve a single one of several that use their data source.
func (p *plan) setNamespaces() {
	users := map[string]map[string]bool{}
	for key, g := range p.groups {
		if users[key.source] == nil {
			users[key.source] = map[string]bool{}
		}
		for i := range g.requests {
			users[key.source][g.requests[i].Namespace()] = true
		}
	}
	for key, g := range p.groups {
		first := g.requests[0].Namespace()
		if len(users[key.source]) > 1 && !slices.ContainsFunc(g.requests, func(r source.Request) bool { return r.Namespace() != first }) {
			g.namespace = first
		}
	}
}
