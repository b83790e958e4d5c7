package policy

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	defaultInterval  = 15 * time.Second
	defaultTimeout   = 10 * time.Second
	defaultMaxBytes  = 32 << 20 // 10,000 series of 300 bytes are 3 MiB
	defaultMaxSeries = 50_000
	defaultReturn    = 4 // nodes an hour: one at a time, with room to see what it did
)

// platformCompiler turns a PlatformConfig as written into a Platform.
type platformCompiler struct {
	*findings
	spec *PlatformSpec
	out  *Platform
}

func (d *document) compilePlatform() *Platform {
	c := &platformCompiler{findings: &d.findings, spec: d.platform, out: &Platform{
		Name: d.key.Name, Cluster: cmp.Or(d.platform.Cluster, d.key.Name), Mode: modeOf(d.platform.Mode), Origin: d.origin(),
	}}
	c.out.Bounds = c.bounds(c.spec.Bounds, specPath.key("bounds"))
	c.unique()
	c.dataSources()
	c.queries()
	c.groups()
	c.teams()
	c.defaults()
	c.prices()
	if c.failed() {
		return nil
	}
	return c.out
}

// unique refuses names that are given twice in a list.
func (c *platformCompiler) unique() {
	check := func(field string, n int, name func(int) string) {
		seen := map[string]bool{}
		for i := range n {
			p := specPath.key(field).at(i).key("name")
			if seen[name(i)] {
				c.bad(p, "another entry has this name", "a name of its own")
			}
			if name(i) != "" && len(validation.IsDNS1123Label(name(i))) > 0 {
				c.bad(p, "is not a name", "at most 63 lower-case letters, digits and '-'")
			}
			seen[name(i)] = true
		}
	}
	s := c.spec
	check("dataSources", len(s.DataSources), func(i int) string { return s.DataSources[i].Name })
	check("queries", len(s.Queries), func(i int) string { return s.Queries[i].Name })
	check("teams", len(s.Teams), func(i int) string { return s.Teams[i].Name })
	check("capacityGroups", len(s.CapacityGroups), func(i int) string { return s.CapacityGroups[i].Name })
}

func (c *platformCompiler) bounds(s *BoundsSpec, p *yamlPath) (b Bounds) {
	if s == nil {
		return b
	}
	if s.MinReplicas != nil {
		b.Min = *s.MinReplicas
	}
	if s.MaxReplicas != nil {
		if b.Max = *s.MaxReplicas; b.Max == 0 {
			c.bad(p.key("maxReplicas"), "no workload could ever run", "1 or more; mode: hold stops everything where it is")
		}
		if b.Min > b.Max {
			c.bad(p.key("minReplicas"), "is above maxReplicas", "at most maxReplicas")
		}
	}
	return b
}

func (c *platformCompiler) queries() {
	for i, s := range c.spec.Queries {
		p := specPath.key("queries").at(i)
		q := Query{Name: s.Name, Source: s.Source, WorkloadLabel: s.WorkloadLabel, NamespaceLabel: cmp.Or(s.NamespaceLabel, "namespace")}
		d := c.out.DataSource(s.Source)
		if s.Source == "" {
			if d = c.out.defaultSource(DataPrometheus, ""); d == nil {
				d = c.onlyPrometheus()
			}
			if d == nil {
				c.bad(p.key("source"), "is missing, and no prometheus data source is the default", "a prometheus data source")
			}
		} else if d == nil || d.Type != DataPrometheus {
			c.bad(p.key("source"), "is not a prometheus data source"+didYouMean(s.Source, c.names(DataPrometheus)), list(c.names(DataPrometheus)))
			d = nil
		}
		if d != nil {
			q.Source = d.Name
			c.promQL(s, p, d, &q)
		}
		c.out.Queries = append(c.out.Queries, q)
	}
}

// onlyPrometheus is the prometheus data source where there is one, whoever may name it: queries are the platform's own.
func (c *platformCompiler) onlyPrometheus() *DataSource {
	names := c.names(DataPrometheus)
	if len(names) != 1 {
		return nil
	}
	return c.out.DataSource(names[0])
}

func (c *platformCompiler) names(t DataSourceType) (names []string) {
	for _, d := range c.out.DataSources {
		if d.Type == t {
			names = append(names, d.Name)
		}
	}
	return names
}

func (c *platformCompiler) promQL(s QuerySpec, p *yamlPath, d *DataSource, q *Query) {
	for _, label := range []string{"workloadLabel", "namespaceLabel"} {
		if value := map[string]string{"workloadLabel": s.WorkloadLabel, "namespaceLabel": q.NamespaceLabel}[label]; value != "" && !model.LegacyValidation.IsValidLabelName(value) {
			c.bad(p.key(label), "is not a label's name", "a label name as in Prometheus")
		}
	}
	if s.Query == "" {
		return // said by the decoder, or empty
	}
	expr, err := parsePromQL(s.Query)
	if err != nil {
		c.bad(p.key("query"), "is not PromQL: "+err.Error(), "PromQL with one series per workload")
		return
	}
	if lost := missingLabel(expr, q.NamespaceLabel, q.WorkloadLabel); lost != "" {
		c.bad(p.key("query"), "its series cannot be matched back to workloads: the aggregation drops the label "+lost,
			fmt.Sprintf("sum by (%s, %s) (...)", q.NamespaceLabel, q.WorkloadLabel))
	}
	q.ExistsAtZero = !comesFromPods(expr)
	if s.ExistsAtZero != nil {
		q.ExistsAtZero = *s.ExistsAtZero
	}
	inject(expr, d.Matchers)
	q.PromQL = expr.String()
}

func (c *platformCompiler) teams() {
	owner := map[string]string{}
	var groups []string
	for _, g := range c.spec.CapacityGroups {
		groups = append(groups, g.Name)
	}
	for i, s := range c.spec.Teams {
		p := specPath.key("teams").at(i)
		if s.Namespaces != nil && len(s.Namespaces) == 0 {
			c.bad(p.key("namespaces"), "is empty", "at least one namespace")
		}
		for j, ns := range s.Namespaces {
			at := p.key("namespaces").at(j)
			if len(validation.IsDNS1123Label(ns)) > 0 {
				c.bad(at, "is not a namespace", "at most 63 lower-case letters, digits and '-'")
			}
			if other, taken := owner[ns]; taken {
				c.bad(at, "the namespace belongs to team "+other+" already", "each namespace in one team")
			}
			owner[ns] = s.Name
		}
		for j, g := range s.CapacityGroups {
			if !slices.Contains(groups, g) {
				c.bad(p.key("capacityGroups").at(j), "there is no such capacity group"+didYouMean(g, groups), list(groups))
			}
		}
		c.resources(s.Limits, p.key("limits"))
		c.out.Teams = append(c.out.Teams, Team{
			Name: s.Name, Namespaces: s.Namespaces, CapacityGroups: s.CapacityGroups, Limits: s.Limits, Bounds: c.bounds(s.Bounds, p.key("bounds")),
		})
	}
}

func (c *platformCompiler) resources(limits map[string]int64, p *yamlPath) {
	for name := range limits {
		if len(validation.IsQualifiedName(name)) > 0 {
			c.bad(p.key(name), "is not a resource", "a resource name such as nvidia.com/gpu")
		}
	}
}

var capacityTypes = []string{"spot", "on-demand", "reserved"}

func (c *platformCompiler) groups() {
	owner := map[string]string{}
	for i, s := range c.spec.CapacityGroups {
		p := specPath.key("capacityGroups").at(i)
		if s.Resource != "" && len(validation.IsQualifiedName(s.Resource)) > 0 {
			c.bad(p.key("resource"), "is not a resource", "a resource name such as nvidia.com/gpu")
		}
		if s.NodePools != nil && len(s.NodePools) == 0 {
			c.bad(p.key("nodePools"), "is empty", "at least one NodePool, by capacity type")
		}
		for kind, pool := range s.NodePools {
			at := p.key("nodePools").key(kind)
			if !slices.Contains(capacityTypes, kind) {
				c.bad(at, "is not a capacity type"+didYouMean(kind, capacityTypes), list(capacityTypes))
			}
			if len(validation.IsDNS1123Subdomain(pool)) > 0 {
				c.bad(at, "is not the name of a NodePool", "a name as in Kubernetes")
			}
			if other, taken := owner[pool]; taken {
				c.bad(at, "the NodePool stands in "+other+" already: two would pull it both ways", "each NodePool once")
			}
			owner[pool] = s.Name + "'s " + kind
		}
		c.spotOptions(s, p)
		group := Group{GroupSpec: s, Mode: stricter(modeOf(s.Mode), c.out.Mode)}
		if group.ReturnNodesPerHour == 0 {
			group.ReturnNodesPerHour = defaultReturn
		}
		group.Windows = c.groupWindows(s, p.key("schedules"))
		c.out.Groups = append(c.out.Groups, group)
	}
}

func (c *platformCompiler) spotOptions(s GroupSpec, p *yamlPath) {
	pair := s.NodePools["spot"] != "" && s.NodePools["on-demand"] != ""
	if s.SpotPatience > 0 && !pair {
		c.bad(p.key("spotPatience"), "there is nothing to fall back to or from", "a spot and an on-demand NodePool")
	}
	if s.Fallback == "hard" && !pair {
		c.bad(p.key("fallback"), "there is nothing to fall back to", "a spot and an on-demand NodePool")
	}
	if s.OnDemandBaseCapacity > 0 && s.NodePools["on-demand"] == "" {
		c.bad(p.key("onDemandBaseCapacity"), "there is no on-demand NodePool", "0, or an on-demand NodePool")
	}
}

func (c *platformCompiler) groupWindows(s GroupSpec, p *yamlPath) (out []GroupWindow) {
	names := map[string]bool{}
	for i, w := range s.Schedules {
		at := p.at(i)
		if names[w.Name] {
			c.bad(at.key("name"), "another schedule has this name", "a name of its own")
		}
		names[w.Name] = true
		window, _ := c.window(windowText{w.Name, w.Timezone, w.Start, w.End, w.From, w.Until}, at)
		if w.Limits == nil && w.Weight == nil && w.Disruption == nil {
			c.bad(at, "the window does nothing", "limits, weight or disruption")
		}
		c.resources(w.Limits, at.key("limits"))
		if w.Weight != nil && (*w.Weight < 1 || *w.Weight > 100) {
			c.bad(at.key("weight"), "is out of range", "1 to 100, as in a NodePool")
		}
		compiled := GroupWindow{Window: window, Limits: w.Limits, Weight: w.Weight, NodePools: w.NodePools}
		if w.Disruption != nil {
			compiled.Disruption = *w.Disruption
			c.consolidateAfter(w.Disruption.ConsolidateAfter, at.key("disruption").key("consolidateAfter"))
		}
		for j, kind := range w.NodePools {
			if s.NodePools[kind] == "" {
				c.bad(at.key("nodePools").at(j), "the group has no NodePool of this capacity type", list(sortedKeys(s.NodePools)))
			}
		}
		if compiled.NodePools == nil {
			compiled.NodePools = sortedKeys(s.NodePools)
		}
		out = append(out, compiled)
	}
	return out
}

var consolidateAfter = regexp.MustCompile(`^(([0-9]+(s|m|h))+|Never)$`)

func (c *platformCompiler) consolidateAfter(text string, p *yamlPath) {
	if text != "" && !consolidateAfter.MatchString(text) {
		c.bad(p, "is not what a NodePool takes", "a duration such as 30s or 1h30m, or Never")
	}
}

func (c *platformCompiler) defaults() {
	if c.spec.Defaults != nil {
		c.out.defaults = *c.spec.Defaults
	}
	// What is wrong in a default would be reported once for every policy: it is tried here on an empty one.
	try := &compiler{findings: c.findings, spec: &PolicySpec{}, platform: noPlatform, policy: &scaling.Policy{}}
	p := specPath.key("defaults")
	try.behavior(c.out.defaults.Behavior, p.key("behavior"))
	try.fallback(c.out.defaults.Fallback, p.key("fallback"))
	if share := c.out.defaults.MinCoverage; share != nil && *share > 1 {
		c.bad(p.key("minCoverage"), "is more than everything", "at most 100%")
		c.out.defaults.MinCoverage = nil
	}
}

func (c *platformCompiler) prices() {
	if c.spec.Prices == nil {
		return
	}
	c.out.Prices = *c.spec.Prices
	p := specPath.key("prices")
	if book := c.out.Prices.Book; book != "" {
		c.mounted(book, p.key("book"))
	}
	type price struct{ kind, capacity, region string }
	seen := map[price]bool{}
	for i, o := range c.out.Prices.Overrides {
		if k := (price{o.InstanceType, o.CapacityType, o.Region}); seen[k] {
			c.bad(p.key("overrides").at(i), "this price is given twice", "one price for an instance type, capacity type and region")
		} else {
			seen[k] = true
		}
	}
}

// mounted refuses what is not an absolute path: a relative one would depend on where the process was started.
func (f *findings) mounted(file string, p *yamlPath) {
	if file != "" && (!path.IsAbs(file) || path.Clean(file) != file) {
		f.bad(p, "is not the path of a mounted file", "an absolute path such as /etc/gpuscaler/redis/password")
	}
}

func checkURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return fmt.Errorf("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Hostname() == "":
		return fmt.Errorf("is not an http or https URL")
	case u.User != nil:
		return fmt.Errorf("holds credentials: write them as http.basic_auth with a password_file")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return fmt.Errorf("holds more than a host and a path")
	}
	return nil
}

func checkHostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || strings.Trim(port, "0123456789") != "" || len(port) > 5 {
		return fmt.Errorf("is not host:port")
	}
	return nil
}
