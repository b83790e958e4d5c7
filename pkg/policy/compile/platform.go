package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/pricebook"
	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// shortestInterval is the shortest allowed poll interval of a data source. With this interval, a new job can activate a workload within
	// two seconds: up to 0.5 s until the poll, 1 s until the tick, and 0.25 s until gpuscaler pushes the target to KEDA.
	shortestInterval = 500 * time.Millisecond
	defaultTimeout   = 10 * time.Second
	defaultMaxBytes  = 32 << 20 // 32 MiB; for comparison, 10,000 series of 300 bytes are 3 MiB
	defaultMaxSeries = 50_000
)

// platformCompiler compiles one PlatformConfig.
type platformCompiler struct {
	*decode.Collector
	spec *spec.Platform
	out  *policy.Platform
}

// Platform checks a PlatformConfig and compiles it. It returns nil if the PlatformConfig has a problem.
func Platform(f *decode.Collector, name, origin string, written *spec.Platform) *policy.Platform {
	c := &platformCompiler{Collector: f, spec: written, out: &policy.Platform{
		Name: name, Cluster: cmp.Or(written.Cluster, name), Mode: policy.ModeOf(written.Mode), Origin: origin,
	}}
	c.out.Bounds = c.bounds(c.spec.Bounds, decode.Spec.Key("bounds"))
	c.checkUnique()
	c.dataSources()
	c.exporters()
	c.queries()
	c.groups()
	c.teams()
	c.defaults()
	c.prices()
	if c.Failed() {
		return nil
	}
	return c.out
}

// checkUnique rejects names that occur twice in a list.
func (c *platformCompiler) checkUnique() {
	check := func(field string, n int, name func(int) string) {
		used := map[string]bool{}
		for i := range n {
			p := decode.Spec.Key(field).At(i).Key("name")
			if used[name(i)] {
				c.Reject(p, "another entry has this name", "a unique name")
			}
			if name(i) != "" && len(validation.IsDNS1123Label(name(i))) > 0 {
				c.Reject(p, "is not a name", "at most 63 lower-case letters, digits and '-'")
			}
			used[name(i)] = true
		}
	}
	s := c.spec
	check("dataSources", len(s.DataSources), func(i int) string { return s.DataSources[i].Name })
	check("queries", len(s.Queries), func(i int) string { return s.Queries[i].Name })
	check("teams", len(s.Teams), func(i int) string { return s.Teams[i].Name })
	check("capacityGroups", len(s.CapacityGroups), func(i int) string { return s.CapacityGroups[i].Name })
}

func (c *platformCompiler) bounds(s *spec.Bounds, p *decode.Path) (b policy.Bounds) {
	if s == nil {
		return b
	}
	if s.MinReplicas != nil {
		b.Min = *s.MinReplicas
	}
	if s.MaxReplicas != nil {
		if b.Max = *s.MaxReplicas; b.Max == 0 {
			c.Reject(p.Key("maxReplicas"), "no workload could ever run", "1 or more; mode: hold keeps all replicas as they are")
		}
		if b.Min > b.Max {
			c.Reject(p.Key("minReplicas"), "is above maxReplicas", "at most maxReplicas")
		}
	}
	return b
}

func (c *platformCompiler) queries() {
	for i, s := range c.spec.Queries {
		p := decode.Spec.Key("queries").At(i)
		q := policy.Query{Name: s.Name, Source: s.Source, WorkloadLabel: s.WorkloadLabel, NamespaceLabel: cmp.Or(s.NamespaceLabel, "namespace")}
		d := c.out.DataSource(s.Source)
		if s.Source == "" {
			if d = c.out.DefaultSource(policy.DataPrometheus, ""); d == nil {
				d = c.onlyPrometheus()
			}
			if d == nil {
				c.Reject(p.Key("source"), "is missing, and no prometheus data source is the default", "a prometheus data source")
			}
		} else if d == nil || d.Type != policy.DataPrometheus {
			c.Reject(p.Key("source"), "is not a prometheus data source"+wording.DidYouMean(s.Source, c.names(policy.DataPrometheus)),
				wording.List(c.names(policy.DataPrometheus)))
			d = nil
		}
		if d != nil {
			q.Source = d.Name
			c.promQL(s, p, d, &q)
		}
		c.out.Queries = append(c.out.Queries, q)
	}
}

// onlyPrometheus returns the data source of type prometheus if there is exactly one, and nil otherwise. It ignores for which namespaces the
// data source is permitted, because it is used for queries that the platform team writes.
func (c *platformCompiler) onlyPrometheus() *policy.DataSource {
	names := c.names(policy.DataPrometheus)
	if len(names) != 1 {
		return nil
	}
	return c.out.DataSource(names[0])
}

func (c *platformCompiler) names(t policy.DataSourceType) (names []string) {
	for _, d := range c.out.DataSources {
		if d.Type == t {
			names = append(names, d.Name)
		}
	}
	return names
}

func (c *platformCompiler) promQL(s spec.Query, p *decode.Path, d *policy.DataSource, q *policy.Query) {
	for _, label := range []string{"workloadLabel", "namespaceLabel"} {
		if value := map[string]string{"workloadLabel": s.WorkloadLabel, "namespaceLabel": q.NamespaceLabel}[label]; value != "" &&
			!model.LegacyValidation.IsValidLabelName(value) {
			c.Reject(p.Key(label), "is not a label name", "a label name as in Prometheus")
		}
	}
	if s.Query == "" {
		return // the decoder has reported the missing query
	}
	expr, err := promql.Parse(s.Query)
	if err != nil {
		c.Reject(p.Key("query"), "is not PromQL: "+err.Error(), "PromQL with one series per workload")
		return
	}
	if lost := promql.MissingLabel(expr, q.NamespaceLabel, q.WorkloadLabel); lost != "" {
		c.Reject(p.Key("query"), "its series cannot be matched to workloads: the aggregation drops the label "+lost,
			fmt.Sprintf("sum by (%s, %s) (...)", q.NamespaceLabel, q.WorkloadLabel))
	}
	q.ExistsAtZero = !promql.OnlyFromPods(expr)
	if s.ExistsAtZero != nil {
		q.ExistsAtZero = *s.ExistsAtZero
	}
	promql.AddMatchers(expr, d.Matchers)
	q.PromQL = expr.String()
}

func (c *platformCompiler) teams() {
	owner := map[string]string{}
	var groups []string
	for _, g := range c.spec.CapacityGroups {
		groups = append(groups, g.Name)
	}
	for i, s := range c.spec.Teams {
		p := decode.Spec.Key("teams").At(i)
		if s.Namespaces != nil && len(s.Namespaces) == 0 {
			c.Reject(p.Key("namespaces"), "is empty", "at least one namespace")
		}
		for j, ns := range s.Namespaces {
			at := p.Key("namespaces").At(j)
			if len(validation.IsDNS1123Label(ns)) > 0 {
				c.Reject(at, "is not a namespace", "at most 63 lower-case letters, digits and '-'")
			}
			if other, taken := owner[ns]; taken {
				c.Reject(at, "the namespace belongs to team "+other+" already", "each namespace in one team")
			}
			owner[ns] = s.Name
		}
		for j, g := range s.CapacityGroups {
			if !slices.Contains(groups, g) {
				c.Reject(p.Key("capacityGroups").At(j), "there is no such capacity group"+wording.DidYouMean(g, groups), wording.List(groups))
			}
		}
		for j, q := range s.ClusterQueues {
			if len(validation.IsDNS1123Subdomain(q)) > 0 {
				c.Reject(p.Key("clusterQueues").At(j), "is not the name of a ClusterQueue", wording.NameAllowed)
			}
		}
		c.checkResources(s.Limits, p.Key("limits"))
		c.checkCounted(s.Limits, p.Key("limits"))
		c.out.Teams = append(c.out.Teams, policy.Team{
			Name: s.Name, Namespaces: s.Namespaces, CapacityGroups: s.CapacityGroups, ClusterQueues: s.ClusterQueues, ConfigMaps: s.ConfigMaps,
			PolicyStatus: s.PolicyStatus, Limits: s.Limits,
			Bounds:  c.bounds(s.Bounds, p.Key("bounds")),
			Scaling: sharedTeam(&s),
		})
	}
}

// sharedTeam converts a team and its resource limits to the type that the engine uses. It returns nil if the team has no limits.
func sharedTeam(s *spec.Team) *scaling.Team {
	if len(s.Limits) == 0 {
		return nil
	}
	team := &scaling.Team{Name: s.Name, Namespaces: s.Namespaces}
	for _, resource := range slices.Sorted(maps.Keys(s.Limits)) {
		team.Limits = append(team.Limits, scaling.ResourceLimit{Resource: resource, Max: s.Limits[resource]})
	}
	return team
}

// checkCounted rejects limits of resources other than extended resources such as nvidia.com/gpu. The engine counts only extended resources,
// so other limits would have no effect.
func (c *platformCompiler) checkCounted(limits map[string]int64, p *decode.Path) {
	for name := range limits {
		domain, _, found := strings.Cut(name, "/")
		if len(validation.IsQualifiedName(name)) == 0 && (!found || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") ||
			strings.HasPrefix(domain, "requests.") || strings.HasPrefix(domain, "limits.")) {
			c.Reject(p.Key(name), "is not a resource whose requests are counted",
				"an extended resource as in a pod's requests: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu")
		}
	}
}

func (c *platformCompiler) checkResources(limits map[string]int64, p *decode.Path) {
	for name := range limits {
		if len(validation.IsQualifiedName(name)) > 0 {
			c.Reject(p.Key(name), "is not a resource", "a resource name such as nvidia.com/gpu")
		}
	}
}

func (c *platformCompiler) defaults() {
	if c.spec.Defaults != nil {
		c.out.Defaults = *c.spec.Defaults
	}
	// A problem in the defaults would otherwise be reported for every policy. Therefore the defaults are compiled with an empty policy, which
	// reports the problem once, as a problem of the PlatformConfig.
	try := &compiler{Collector: c.Collector, Input: Input{Spec: &spec.Policy{}, Platform: &policy.Platform{}}, policy: &scaling.Policy{}}
	p := decode.Spec.Key("defaults")
	try.behavior(c.out.Defaults.Behavior, p.Key("behavior"))
	try.fallback(c.out.Defaults.Fallback, p.Key("fallback"))
	if share := c.out.Defaults.MinCoverage; share != nil && *share > 1 {
		c.Reject(p.Key("minCoverage"), "is above 100%", "at most 100%")
		c.out.Defaults.MinCoverage = nil
	}
}

func (c *platformCompiler) prices() {
	if c.spec.Prices == nil {
		return
	}
	c.out.Prices = *c.spec.Prices
	p := decode.Spec.Key("prices")
	if book := c.out.Prices.Book; book != "" {
		c.mountedPath(book, p.Key("book"))
	}
	pricebook.CheckOverrides(c.Collector, c.out.Prices.Overrides, p.Key("overrides"))
}
