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

// groupKey identifies the signals that are polled as one group. These signals have the same data source, kind of poll, and metric or
// query. Fields that are not used for a kind of poll are empty.
type groupKey struct {
	source                        string
	kind                          pollKind
	profile                       policy.SourceType
	metric                        string // metric of a latency signal
	window                        time.Duration
	query                         string // query of the platform team, or the text of a promquery.Shape
	namespaceLabel, workloadLabel string
}

// group contains the signals that one poll reads.
type group struct {
	key          groupKey
	source       policy.DataSource
	first        *policy.Source   // source of the first request; all requests have the same values in the fields from which the key is made
	shape        *promquery.Shape // set for a group of selectors, otherwise nil
	requests     []source.Request
	destinations []destination // one for each request, in the same order

	// namespace is set if other namespaces use the same data source but all requests of the group are from this namespace. Otherwise it is
	// empty. pollQueue limits the polls of each namespace.
	namespace string
}

// destination identifies the signal for which a reading is stored.
type destination struct {
	entry *entry
	index int // index of the signal in the policy
}

// sameSource reports whether g and o have the same configuration of their data source. In this case a runner of g can poll o without a
// restart.
func (g *group) sameSource(o *group) bool { return reflect.DeepEqual(g.source, o.source) }

// name returns the name of a group for status and logs: the name of the group's query, or its engine and metric.
func (g *group) name() string {
	if g.key.kind == byQuery {
		return g.first.QueryName
	}
	return strings.TrimSpace(string(g.key.profile) + " " + g.key.metric)
}

// plan contains the groups to poll and the entries in which their readings are stored. After newPlan returns, only the readings change.
type plan struct {
	platform  *policy.Platform
	entries   entries
	groups    map[groupKey]*group
	origins   []origin            // sorted by the key of the policy
	selectors map[string]selector // parsed selectors, by query

	violations map[LimitViolation]bool // namespaces that exceed a Quota

	// The fields below are used only while newPlan builds the plan.
	quota         Quota
	used          map[quotaKey]*usage
	unmoved       map[string]bool // names of the data sources whose server is the same as in the previous plan
	lastSelectors map[string]selector
}

// origin contains the compiled policy from which an entry of readings was made, and the data source of each signal of the policy. newPlan
// compares origin with the next version of the policy. A signal that is read from the same source keeps its reading.
type origin struct {
	entry    *entry
	compiled *policy.Compiled
	sources  []*policy.DataSource
}

func (o *origin) key() scaling.Key { return o.compiled.Workload.Key }

// origin returns the stored data (see the type origin) of a policy, or nil if the plan does not contain the policy.
func (p *plan) origin(key scaling.Key) *origin {
	i, found := slices.BinarySearchFunc(p.origins, key, func(o origin, key scaling.Key) int { return o.key().Compare(key) })
	if !found {
		return nil
	}
	return &p.origins[i]
}

// candidate is a signal that is not in a group yet.
type candidate struct {
	destination
	request source.Request
	shape   *promquery.Shape
}

func newPlan(policies []*policy.Compiled, platform *policy.Platform, quota Quota, last *plan) plan {
	p := plan{
		platform:  platform,
		entries:   newEntries(len(policies)),
		groups:    map[groupKey]*group{},
		origins:   make([]origin, 0, len(policies)),
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
		p.add(c, last.origin(c.Workload.Key))
	}
	slices.SortFunc(p.origins, func(a, b origin) int { return a.key().Compare(b.key()) })
	p.setNamespaces()
	// The copies free unused memory: append may have reserved up to a quarter more than necessary.
	for _, g := range p.groups {
		g.requests, g.destinations = slices.Clone(g.requests), slices.Clone(g.destinations)
	}
	p.used, p.unmoved, p.lastSelectors = nil, nil, nil
	for i := range last.origins {
		o := &last.origins[i]
		if have := p.origin(o.key()); have == nil || have.entry != o.entry {
			p.entries.replaced[o.entry.policy] = o.entry
		}
	}
	return p
}

func (p *plan) add(c *policy.Compiled, last *origin) {
	key := c.Workload.Key
	o := &origin{compiled: c, sources: make([]*policy.DataSource, 0, len(c.Sources))}
	var causes [scaling.MaxSignals]scaling.Cause
	for i := range c.Sources {
		d, cause := p.dataSource(&c.Sources[i], key.Namespace)
		o.sources, causes[i] = append(o.sources, d), cause
	}
	if last != nil && p.unchanged(o, last) {
		o.entry = last.entry // an unchanged policy keeps its entry, because a tick may be reading it
	} else {
		o.entry = &entry{key: key, policy: c.Workload.Policy, readings: make([]scaling.Reading, len(c.Sources))}
		for i := range c.Sources {
			o.entry.readings[i] = p.keptReading(o, i, last)
		}
	}
	p.origins = append(p.origins, *o)
	p.entries.add(o.entry)
	for i, d := range o.sources {
		s := candidate{destination: destination{o.entry, i}, request: source.Request{
			Workload: &c.Workload, Signal: &c.Workload.Policy.Signals[i], Source: &c.Sources[i],
		}}
		if c.Workload.Group != "" { // only capacity groups need to know which pods are idle
			s.request.Idle = o.entry.idlePods(i)
		}
		if d == nil {
			s.refuse(causes[i])
		} else if !p.place(&s, d) {
			s.refuse(scaling.CauseInvalid)
		}
	}
}

// refuse stores a missing reading with the cause c for a signal that cannot be polled.
func (s *destination) refuse(c scaling.Cause) {
	r := source.Missing(c)
	r.Failures = 1
	s.entry.set(s.index, r)
}

// unchanged reports whether o and last have the same policy, target and sources of signals, and whether their data sources still measure
// the same values.
func (p *plan) unchanged(o, last *origin) bool {
	a, b := &o.compiled.Workload, &last.compiled.Workload
	return a.Policy == b.Policy && a.Target == b.Target && slices.Equal(o.compiled.Sources, last.compiled.Sources) &&
		slices.EqualFunc(o.sources, last.sources, p.sameDataSource)
}

// sameDataSource reports whether d, the data source of a signal, measures the same values as old, its data source in the previous plan.
// Implicit data sources have no name and no configuration except the signal's own source. sameDataSource returns true for two implicit data
// sources, because the caller compares the sources of the signals.
func (p *plan) sameDataSource(d, old *policy.DataSource) bool {
	if d == nil || old == nil {
		return d == old
	}
	return d.Name == old.Name && (d.Name == "" || p.unmoved[d.Name])
}

// samePlace reports whether d and old read from the same server with the same configuration. It ignores the interval, the limits, the
// permitted namespaces and the default flag. An edit of these fields does not change what is measured, so the readings are kept.
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

// keptReading returns the initial reading of signal i of a new version of a policy (the parameter o). If a signal of the previous version
// (the parameter last) measures the same values, keptReading returns the reading of that signal. Otherwise it returns neverRead.
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

// place adds a signal to the group that polls it. If the namespace has exceeded its quota, place stores a missing reading instead. It
// returns false if the type of the data source cannot serve the signal.
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
	g.requests, g.destinations = append(g.requests, s.request), append(g.destinations, s.destination)
	return true
}

// setNamespaces sets group.namespace for each group whose requests are all from one namespace, if several namespaces use its data source.
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
