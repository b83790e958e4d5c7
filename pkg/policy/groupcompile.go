package policy

import (
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

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
			group.ReturnNodesPerHour = capacity.DefaultReturn
		}
		group.Windows = c.groupWindows(s, p.key("schedules"))
		c.nodes(&group, p)
		c.out.Groups = append(c.out.Groups, group)
	}
}

func (c *platformCompiler) spotOptions(s GroupSpec, p *yamlPath) {
	pair := s.NodePools["spot"] != "" && s.NodePools["on-demand"] != ""
	if s.SpotWaitTimeout > 0 && !pair {
		c.bad(p.key("spotWaitTimeout"), "there is nothing to fall back to or from", "a spot and an on-demand NodePool")
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
