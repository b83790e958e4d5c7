package policy

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Platform is a compiled PlatformConfig. It contains data sources, queries, teams, capacity groups and the bounds of all policies. It is
// immutable.
type Platform struct {
	Name, Cluster string
	Mode          scaling.Mode
	Bounds        Bounds
	DataSources   []DataSource
	Queries       []Query
	Teams         []Team
	Groups        []Group
	Prices        spec.Prices
	Origin        string // name and version of the document, "platform.yaml@3f1c"; empty without a PlatformConfig
	Unreadable    bool   // a PlatformConfig exists, but none of its versions was valid, so its bounds and permissions are unknown

	Defaults   spec.Defaults
	NodeGroups []*capacity.Group // compiled form of Groups for decisions about nodes, in the same order
}

// Bounds limits the replicas of policies. Max 0 means no maximum, so the zero value limits nothing.
type Bounds struct{ Min, Max int32 }

// Narrow returns minReplicas and maxReplicas of a policy, limited to the bounds. If b.Min is above b.Max, b.Max takes precedence.
func (b Bounds) Narrow(low, high int32) (int32, int32) {
	low, high = max(low, b.Min), max(high, b.Min)
	if b.Max > 0 {
		low, high = min(low, b.Max), min(high, b.Max)
	}
	return low, high
}

// Team is a set of namespaces with its permissions and limits.
type Team struct {
	Name           string
	Namespaces     []string
	CapacityGroups []string
	ClusterQueues  []string
	ConfigMaps     bool             // whether policies in ConfigMaps of the team's namespaces are accepted
	PolicyStatus   bool             // whether gpuscaler writes the acceptance or refusal of its policies into an annotation
	Limits         map[string]int64 // maximum amount of each resource for all workloads of the team together
	Bounds         Bounds

	Scaling *scaling.Team // the limits of the team for the engine, shared by all policies of the team; nil if the team has no limits
}

// DataSourceType is the type of a data source. It has the values of the field `type` of a data source.
type DataSourceType string

// The types of data sources.
const (
	DataPrometheus DataSourceType = "prometheus"
	DataRedis      DataSourceType = "redis"
	DataScrape     DataSourceType = "scrape"
	DataExternal   DataSourceType = "external"
)

// DefaultInterval is the time between two polls of a data source without an interval, and of pods that are scraped without a data source.
// The replay polls at this interval too.
const DefaultInterval = 15 * time.Second

// DataSource is one server or API from which signals are read. Fields that are not set in the PlatformConfig have their defaults.
type DataSource struct {
	Name       string
	Type       DataSourceType
	Default    bool
	Namespaces []string // namespaces whose policies may use the data source; empty: all namespaces
	Interval   time.Duration
	Timeout    time.Duration // never longer than Interval
	MaxBytes   int64
	MaxSeries  int

	Address        string            // prometheus: URL; redis: host:port
	Matchers       map[string]string // prometheus: matchers that every Query and Source.Query contains
	NamespaceLabel string            // prometheus: label in which a scrape stores the namespace of the scraped pod
	PodLabel       string            // prometheus: label in which a scrape stores the name of the scraped pod
	Exporters      []Exporter        // prometheus: only series from these pods may contain names of other pods in their labels
	HTTP           *spec.HTTP        // prometheus, scrape: HTTP settings; nil means no authentication and default TLS
	SigV4          *spec.SigV4       // prometheus: request signing for Amazon Managed Service for Prometheus

	Username, PasswordFile string // redis: name of the user, and file with the password
	Database               int
	TLS                    *spec.TLS

	Profile      SourceType // scrape: the model server or exporter whose metrics the pods serve
	Scheme, Path string
	Port         int               // scrape: 0 means the port of the profile
	PodLabels    map[string]string // scrape: labels of the pods to read; empty: the workload's own pods are read
	PodsIn       string
}

// Allows reports whether policies of a namespace may use the data source.
func (d *DataSource) Allows(namespace string) bool {
	return len(d.Namespaces) == 0 || slices.Contains(d.Namespaces, namespace)
}

// Serves reports whether signals of type t can be read from the data source. A scrape data source with profile dcgm, for example, has no
// vLLM metrics.
func (d *DataSource) Serves(t SourceType) bool {
	return d.Type != DataScrape || d.Profile == "" || d.Profile == t
}

// Query is a PromQL query of the PlatformConfig. Its result has one series for each workload.
type Query struct {
	Name, Source                  string
	PromQL                        string // the query, with the matchers of the data source added
	WorkloadLabel, NamespaceLabel string
	ExistsAtZero                  bool
}

// Group is a capacity group as the user wrote it, together with its compiled windows.
type Group struct {
	spec.Group
	Mode    scaling.Mode
	Windows []GroupWindow // compiled form of spec.Group.Schedules, in the same order
}

// GroupWindow is a time window in which gpuscaler overrides fields of the group's NodePools.
type GroupWindow struct {
	Window     calendar.Window
	NodePools  []string // capacity types of the NodePools; if the document names no type, all types of the group
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

// Team returns the team to which a namespace belongs, or nil if the namespace belongs to no team.
func (p *Platform) Team(namespace string) *Team {
	return find(p.Teams, func(t *Team) bool { return slices.Contains(t.Namespaces, namespace) })
}

// DataSource returns the data source with the given name, or nil.
func (p *Platform) DataSource(name string) *DataSource {
	return find(p.DataSources, func(d *DataSource) bool { return d.Name == name })
}

// Query returns the query with the given name, or nil.
func (p *Platform) Query(name string) *Query {
	return find(p.Queries, func(q *Query) bool { return q.Name == name })
}

// Group returns the capacity group with the given name, or nil.
func (p *Platform) Group(name string) *Group {
	return find(p.Groups, func(g *Group) bool { return g.Name == name })
}

// DefaultSource returns the data source of type t for signals that do not name one. It considers only the data sources that the namespace
// may use. It returns the data source that is marked as default or, if no data source is marked, the only data source. It returns nil if
// there is no data source, or if there are several and none is marked.
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
			only = &DataSource{} // there are several data sources and none is marked as default, so the result is nil
			continue
		}
		only = d
	}
	if only != nil && only.Name == "" {
		return nil
	}
	return only
}

// BoundsFor returns the bounds for policies of a namespace. They are the intersection of the bounds of the PlatformConfig and of the
// namespace's team.
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

// MayUse reports whether policies of a namespace may name a capacity group. If the PlatformConfig has teams, the namespace's team must list
// the group.
func (p *Platform) MayUse(namespace, group string) bool {
	if group == "" {
		return true
	}
	team := p.Team(namespace)
	return p.Group(group) != nil && (len(p.Teams) == 0 || team != nil && slices.Contains(team.CapacityGroups, group))
}

// MayRead reports whether policies of a namespace may read the backlog of a ClusterQueue. The backlog includes the workloads of every
// namespace that uses the ClusterQueue. Therefore, if the PlatformConfig has teams, the namespace's team must list the ClusterQueue.
func (p *Platform) MayRead(namespace, clusterQueue string) bool {
	team := p.Team(namespace)
	return clusterQueue == "" || len(p.Teams) == 0 || team != nil && slices.Contains(team.ClusterQueues, clusterQueue)
}

// StricterMode returns the stricter of two modes. hold is stricter than advisory, and advisory is stricter than auto.
func StricterMode(a, b scaling.Mode) scaling.Mode { return max(a, b) }

// ModeOf converts the text of a field `mode`. An empty text means auto.
func ModeOf(word string) scaling.Mode {
	switch word {
	case "advisory":
		return scaling.Advisory
	case "hold":
		return scaling.Hold
	}
	return scaling.Auto
}

// ReplicaLimit is the greatest number of replicas that a policy can contain. It is above the number of replicas in any cluster, and low
// enough that sums of replicas fit into an int32.
const ReplicaLimit int32 = 100_000

// Prometheus returns the Prometheus server for queries that do not belong to a policy. It is the data source that is marked as default or,
// if no data source is marked, the only Prometheus data source. Prometheus returns nil if there is no Prometheus data source, or if there
// are several and none is marked.
func (p *Platform) Prometheus() *DataSource {
	var all []*DataSource
	for i := range p.DataSources {
		d := &p.DataSources[i]
		if d.Type != DataPrometheus {
			continue
		}
		if d.Default {
			return d
		}
		all = append(all, d)
	}
	if len(all) != 1 {
		return nil
	}
	return all[0]
}

// TeamNames returns a map whose keys are the namespaces of all teams. The value is the name of the namespace's team.
func (p *Platform) TeamNames() map[string]string {
	out := map[string]string{}
	for _, t := range p.Teams {
		for _, ns := range t.Namespaces {
			out[ns] = t.Name
		}
	}
	return out
}
