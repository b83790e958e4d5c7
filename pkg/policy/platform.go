package policy

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Platform is a PlatformConfig ready for use: what the platform team decides for everybody. It is immutable.
type Platform struct {
	Name, Cluster string
	Mode          scaling.Mode
	Bounds        Bounds
	DataSources   []DataSource
	Queries       []Query
	Teams         []Team
	Groups        []Group
	Prices        spec.Prices
	Origin        string // "platform.yaml@3f1c"; empty where there is none
	Unreadable    bool   // there is a PlatformConfig that was never read: what it allows is not known

	Defaults   spec.Defaults
	NodeGroups []*capacity.Group // of Groups, for those who decide about nodes
}

// Bounds narrow a policy's own. A zero Max is none, so the zero Bounds narrow nothing.
type Bounds struct{ Min, Max int32 }

// Narrow returns the bounds within b. b.Max wins over a Min above it.
func (b Bounds) Narrow(low, high int32) (int32, int32) {
	low, high = max(low, b.Min), max(high, b.Min)
	if b.Max > 0 {
		low, high = min(low, b.Max), min(high, b.Max)
	}
	return low, high
}

// Team is who may use what.
type Team struct {
	Name           string
	Namespaces     []string
	CapacityGroups []string
	ClusterQueues  []string
	Limits         map[string]int64 // most of each resource over all its workloads
	Bounds         Bounds

	Scaling *scaling.Team // what every policy of the team points to; nil: no limits
}

// DataSourceType says how a data source is read.
type DataSourceType string

// The types of data sources.
const (
	DataPrometheus DataSourceType = "prometheus"
	DataRedis      DataSourceType = "redis"
	DataScrape     DataSourceType = "scrape"
	DataExternal   DataSourceType = "external"
)

// DataSource is one place to read from, its defaults filled in.
type DataSource struct {
	Name       string
	Type       DataSourceType
	Default    bool
	Namespaces []string // that may name it; empty: all
	Interval   time.Duration
	Timeout    time.Duration // at most Interval
	MaxBytes   int64
	MaxSeries  int

	Address        string            // prometheus: URL; redis: host:port
	Matchers       map[string]string // prometheus: already put into every Query and Source.Query
	NamespaceLabel string            // prometheus: where a scrape stores the namespace of the scraped pod
	PodLabel       string            // prometheus: where a scrape stores its name
	Exporters      []Exporter        // prometheus: pods whose labels may name other pods
	HTTP           *spec.HTTP        // prometheus, scrape; nil: plain
	SigV4          *spec.SigV4       // prometheus

	Username, PasswordFile string // redis
	Database               int
	TLS                    *spec.TLS

	Profile      SourceType // scrape
	Scheme, Path string
	Port         int               // 0: the profile's own
	PodLabels    map[string]string // empty: the workload's own pods
	PodsIn       string
}

// Allows tells whether policies of a namespace may name the source.
func (d *DataSource) Allows(namespace string) bool {
	return len(d.Namespaces) == 0 || slices.Contains(d.Namespaces, namespace)
}

// Serves tells whether a data source can answer signals of a type: a scrape of the DCGM exporter knows nothing of vLLM.
func (d *DataSource) Serves(t SourceType) bool {
	return d.Type != DataScrape || d.Profile == "" || d.Profile == t
}

// Query is PromQL whose answer has one series per workload.
type Query struct {
	Name, Source                  string
	PromQL                        string // with the source's matchers put in
	WorkloadLabel, NamespaceLabel string
	ExistsAtZero                  bool
}

// Group is a capacity group as it was written, with its windows compiled.
type Group struct {
	spec.Group
	Mode    scaling.Mode
	Windows []GroupWindow // parallel to GroupSpec.Schedules
}

// GroupWindow is a window of time in which fields of the group's NodePools differ.
type GroupWindow struct {
	Window     calendar.Window
	NodePools  []string // capacity types; all of the group's where it named none
	Limits     map[string]int64
	Weight     *int32
	Disruption spec.Disruption
}

func find[T any](all []T, is func(*T) bool) *T {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// Team returns the team that a namespace belongs to, or nil.
func (p *Platform) Team(namespace string) *Team {
	return find(p.Teams, func(t *Team) bool { return slices.Contains(t.Namespaces, namespace) })
}

// DataSource returns a data source by name, or nil.
func (p *Platform) DataSource(name string) *DataSource {
	return find(p.DataSources, func(d *DataSource) bool { return d.Name == name })
}

// Query returns a query by name, or nil.
func (p *Platform) Query(name string) *Query {
	return find(p.Queries, func(q *Query) bool { return q.Name == name })
}

// Group returns a capacity group by name, or nil.
func (p *Platform) Group(name string) *Group {
	return find(p.Groups, func(g *Group) bool { return g.Name == name })
}

// defaultSource returns the data source that is meant where a policy names none: the one marked default, else the only one of
// its type that the namespace may use.
func (p *Platform) DefaultSource(t DataSourceType, namespace string) *DataSource {
	var only *DataSource
	for i := range p.DataSources {
		d := &p.DataSources[i]
		if d.Type != t || !d.Allows(namespace) {
			continue
		}
		if d.Default {
			return d
		}
		if only != nil {
			only = &DataSource{} // two, and neither is the default: none is meant
			continue
		}
		only = d
	}
	if only != nil && only.Name == "" {
		return nil
	}
	return only
}

// boundsFor returns what narrows the policies of a namespace.
func (p *Platform) BoundsFor(namespace string) Bounds {
	b := p.Bounds
	if t := p.Team(namespace); t != nil {
		b.Min = max(b.Min, t.Bounds.Min)
		if t.Bounds.Max > 0 && (b.Max == 0 || t.Bounds.Max < b.Max) {
			b.Max = t.Bounds.Max
		}
	}
	return b
}

// mayUse tells whether policies of a namespace may name a capacity group: where there are teams, theirs must list it.
func (p *Platform) MayUse(namespace, group string) bool {
	if group == "" {
		return true
	}
	team := p.Team(namespace)
	return p.Group(group) != nil && (len(p.Teams) == 0 || team != nil && slices.Contains(team.CapacityGroups, group))
}

// mayRead reports whether policies of a namespace may read the backlog of a ClusterQueue, which counts the workloads of every namespace
// that uses it: where there are teams, theirs must list it.
func (p *Platform) MayRead(namespace, clusterQueue string) bool {
	team := p.Team(namespace)
	return clusterQueue == "" || len(p.Teams) == 0 || team != nil && slices.Contains(team.ClusterQueues, clusterQueue)
}

// stricter returns the mode that does less.
func StricterMode(a, b scaling.Mode) scaling.Mode { return max(a, b) }

func ModeOf(word string) scaling.Mode {
	switch word {
	case "advisory":
		return scaling.Advisory
	case "hold":
		return scaling.Hold
	}
	return scaling.Auto
}

// mostReplicas is beyond any cluster; it keeps sums of replicas far from the end of an int32.
const ReplicaLimit int32 = 100_000
