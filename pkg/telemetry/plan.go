package telemetry

import (
	"reflect"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// slot is one signal of one policy, waiting for its reading.
type slot struct {
	entry  *entry
	index  int // of the signal
	w      *scaling.Workload
	signal *scaling.Signal
	source *policy.Source
	shape  *shape // of a tenant's selector
}

// groupKey is what the signals of one poll have in common. Fields that play no part for its way of polling are left empty.
type groupKey struct {
	source                        string
	how                           how
	profile                       policy.SourceType
	metric                        string // of latencies
	window                        time.Duration
	query                         string // or the text of a shape
	namespaceLabel, workloadLabel string
}

// group is the signals that one poll serves.
type group struct {
	key    groupKey
	source policy.DataSource
	first  *policy.Source // one of the slots': what the key says is the same in all of them
	shape  *shape
	slots  []slot
	owner  string // the one namespace that it serves, of several that use the data source; see turns
}

// sameSource tells whether a runner of g can go on with o's slots.
func (g *group) sameSource(o *group) bool { return reflect.DeepEqual(g.source, o.source) }

// plan is everything that is polled, and where the readings go. It is immutable but for the readings.
type plan struct {
	platform *policy.Platform
	entries  entries
	groups   map[groupKey]*group
	origin   map[scaling.Key]*origin
	stable   map[string]bool   // data sources that are where they were in the last plan
	shapes   map[string]*shape // by query, kept from plan to plan: parsing ten thousand of them takes a tenth of a second
	known    map[string]*shape // of the last plan

	allowances map[allowanceKey]*allowance
	offences   map[Offence]bool // against the quotas
}

// origin remembers where an entry's signals came from, so that the next version can take over its readings.
type origin struct {
	entry    *entry
	compiled *policy.Compiled
	sources  []*policy.DataSource
}

func newPlan(policies []*policy.Compiled, platform *policy.Platform, last *plan) plan {
	p := plan{
		platform: platform,
		entries:  newEntries(len(policies)),
		groups:   map[groupKey]*group{},
		origin:   make(map[scaling.Key]*origin, len(policies)),
		stable:   map[string]bool{},
		shapes:   map[string]*shape{},
		known:    last.shapes,

		allowances: map[allowanceKey]*allowance{},
		offences:   map[Offence]bool{},
	}
	for i := range platform.DataSources {
		d := &platform.DataSources[i]
		if last.platform != nil {
			p.stable[d.Name] = samePlace(d, last.platform.DataSource(d.Name))
		}
	}
	for _, c := range policies {
		p.add(c, last.origin[c.Workload.Key])
	}
	p.own()
	p.known, p.allowances = nil, nil
	for key, o := range last.origin {
		if have := p.origin[key]; have == nil || have.entry != o.entry {
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
		o.entry = last.entry // the same version: its readers may be reading it just now
	} else {
		o.entry = &entry{key: key, policy: c.Workload.Policy, readings: make([]scaling.Reading, len(c.Sources))}
		for i := range c.Sources {
			o.entry.readings[i] = p.takeOver(o, i, last)
		}
	}
	p.origin[key] = o
	p.entries.add(o.entry)
	for i, d := range o.sources {
		s := slot{entry: o.entry, index: i, w: &c.Workload, signal: &c.Workload.Policy.Signals[i], source: &c.Sources[i]}
		if d == nil {
			s.refuse(causes[i])
		} else if !p.place(s, d) {
			s.refuse(scaling.CauseInvalid)
		}
	}
}

// refuse gives a slot the reading that says why nothing polls it.
func (s *slot) refuse(c scaling.Cause) {
	s.entry.set(s.index, scaling.Reading{Reported: -1, Cause: c, Failures: 1})
}

// unchanged tells whether o is the same version of a policy as last, read at the same places.
func (p *plan) unchanged(o, last *origin) bool {
	a, b := &o.compiled.Workload, &last.compiled.Workload
	return a.Policy == b.Policy && a.Target == b.Target && slices.Equal(o.compiled.Sources, last.compiled.Sources) &&
		slices.EqualFunc(o.sources, last.sources, p.sameDataSource)
}

// sameDataSource tells whether d is what old was. Implicit ones have no name, and follow from the signal's own source.
func (p *plan) sameDataSource(d, old *policy.DataSource) bool {
	if d == nil || old == nil {
		return d == old
	}
	return d.Name == old.Name && (d.Name == "" || p.stable[d.Name])
}

// samePlace tells whether d is read where old was. At which pace, and by whom it may be named, is no other measurement: an edit of
// an interval must not make every reading unknown at once.
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

// takeOver returns the reading of the last version for signal i of the new one, if it measures the same thing at the same place.
func (p *plan) takeOver(o *origin, i int, last *origin) scaling.Reading {
	if last == nil || last.compiled.Workload.Target != o.compiled.Workload.Target {
		return never
	}
	signal := &o.compiled.Workload.Policy.Signals[i]
	for j := range last.compiled.Sources {
		old := &last.compiled.Workload.Policy.Signals[j]
		if last.compiled.Sources[j] == o.compiled.Sources[i] && old.Kind == signal.Kind && old.Unit == signal.Unit &&
			p.sameDataSource(o.sources[i], last.sources[j]) {
			return last.entry.get(j)
		}
	}
	return never
}

// place puts a slot into the group that polls it, unless it is over a quota; false means that this type of data source cannot answer it.
func (p *plan) place(s slot, d *policy.DataSource) bool {
	key, ok := p.classify(&s, d)
	if !ok {
		return false
	}
	if p.allow(key, &s) != "" {
		return true
	}
	g := p.groups[key]
	if g == nil {
		g = &group{key: key, source: *d, first: s.source, shape: s.shape}
		p.groups[key] = g
	}
	g.slots = append(g.slots, s)
	return true
}
