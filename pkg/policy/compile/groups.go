package compile

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
)

var capacityTypes = []string{"spot", "on-demand", "reserved"}

func (c *platformCompiler) groups() {
	owner := map[string]string{}
	for i, s := range c.spec.CapacityGroups {
		p := decode.Spec.Key("capacityGroups").At(i)
		if s.Resource != "" && len(validation.IsQualifiedName(s.Resource)) > 0 {
			c.Reject(p.Key("resource"), "is not a resource", "a resource name such as nvidia.com/gpu")
		}
		if s.NodePools != nil && len(s.NodePools) == 0 {
			c.Reject(p.Key("nodePools"), "is empty", "at least one NodePool, by capacity type")
		}
		c.nodeSelector(i, p)
		c.nodePools(s, p.Key("nodePools"), owner)
		c.spotOptions(s, p)
		c.deviceClass(s, p)
		group := policy.Group{Group: s, Mode: policy.StricterMode(policy.ModeOf(s.Mode), c.out.Mode)}
		if group.ReturnNodesPerHour == 0 {
			group.ReturnNodesPerHour = capacity.DefaultReturn
		}
		group.Windows = c.groupWindows(s, p.Key("schedules"))
		c.nodes(&group, p)
		c.out.Groups = append(c.out.Groups, group)
	}
}

// nodePools checks the names of a group's NodePools. owner maps each NodePool that was already checked to its group and capacity type.
func (c *platformCompiler) nodePools(s spec.Group, p *decode.Path, owner map[string]string) {
	for _, kind := range slices.Sorted(maps.Keys(s.NodePools)) {
		pools, at := s.NodePools[kind], p.Key(kind)
		if !slices.Contains(capacityTypes, kind) {
			c.Reject(at, "is not a capacity type"+wording.DidYouMean(kind, capacityTypes), wording.List(capacityTypes))
		}
		if len(pools) == 0 {
			c.Reject(at, "is empty", "the name of a NodePool, or a list of names")
		}
		for i, pool := range pools {
			if len(pools) > 1 {
				at = p.Key(kind).At(i)
			}
			if len(validation.IsDNS1123Subdomain(pool)) > 0 {
				c.Reject(at, "is not the name of a NodePool", "a name as in Kubernetes")
			}
			if other, taken := owner[pool]; taken {
				c.Reject(at, "the NodePool belongs to "+other+" already", "each NodePool once")
			}
			owner[pool] = s.Name + "'s " + kind
		}
	}
}

func (c *platformCompiler) spotOptions(s spec.Group, p *decode.Path) {
	if s.NodeSelector != nil {
		return // nothing to check: the check of nodeSelector rejects these fields
	}
	pair := len(s.NodePools["spot"]) > 0 && len(s.NodePools["on-demand"]) > 0
	if s.SpotWaitTimeout > 0 && !pair {
		c.Reject(p.Key("spotWaitTimeout"), "there is no pair of NodePools to switch between", "a spot and an on-demand NodePool")
	}
	if s.Fallback == "hard" && !pair {
		c.Reject(p.Key("fallback"), "there is no NodePool to fall back to", "a spot and an on-demand NodePool")
	}
	if s.OnDemandBaseCapacity > 0 && len(s.NodePools["on-demand"]) == 0 {
		c.Reject(p.Key("onDemandBaseCapacity"), "there is no on-demand NodePool", "0, or an on-demand NodePool")
	}
}

// deviceClass rejects the fields that set limits of NodePools, if the resource of the group is a DeviceClass. Karpenter's limits do not
// include devices of a DeviceClass, so these fields would have no effect.
func (c *platformCompiler) deviceClass(s spec.Group, p *decode.Path) {
	if strings.Contains(s.Resource, ".") && !strings.Contains(s.Resource, "/") {
		c.Reject(p.Key("resource"), "is not the name of an extended resource",
			"a name such as nvidia.com/gpu, or of a DeviceClass: "+capacity.DeviceClassPrefix+s.Resource)
	}
	if !strings.HasPrefix(s.Resource, capacity.DeviceClassPrefix) {
		return
	}
	for _, rule := range []struct {
		key string
		set bool
	}{
		{"zeroLimit", s.ZeroLimit}, {"spotWaitTimeout", s.SpotWaitTimeout > 0}, {"onDemandBaseCapacity", s.OnDemandBaseCapacity > 0},
		{"fallback", s.Fallback == "hard"},
	} {
		if rule.set {
			c.Reject(p.Key(rule.key), "sets a limit, and Karpenter's limits do not count devices of a DeviceClass",
				"this rule only for an extended resource such as nvidia.com/gpu")
		}
	}
	for i, w := range s.Schedules {
		if _, set := w.Limits[s.Resource]; set {
			c.Reject(p.Key("schedules").At(i).Key("limits").Key(s.Resource), "has no effect: Karpenter's limits do not count devices of a "+
				"DeviceClass", "limits of other resources, such as cpu or nodes")
		}
	}
}

func (c *platformCompiler) groupWindows(s spec.Group, p *decode.Path) (out []policy.GroupWindow) {
	names := map[string]bool{}
	for i, w := range s.Schedules {
		at := p.At(i)
		if names[w.Name] {
			c.Reject(at.Key("name"), "another schedule has this name", "a unique name")
		}
		names[w.Name] = true
		window, _ := schedule.Compile(c.Collector, schedule.Text{Name: w.Name, Timezone: w.Timezone, Start: w.Start, End: w.End, From: w.From,
			Until: w.Until}, at)
		if w.Limits == nil && w.Weight == nil && w.Disruption == nil {
			c.Reject(at, "the window has no effect", "limits, weight or disruption")
		}
		c.checkResources(w.Limits, at.Key("limits"))
		if w.Weight != nil && (*w.Weight < 1 || *w.Weight > 100) {
			c.Reject(at.Key("weight"), "is out of range", "1 to 100, as in a NodePool")
		}
		compiled := policy.GroupWindow{Window: window, Limits: w.Limits, Weight: w.Weight, NodePools: w.NodePools}
		if w.Disruption != nil {
			compiled.Disruption = *w.Disruption
			c.consolidateAfter(w.Disruption.ConsolidateAfter, at.Key("disruption").Key("consolidateAfter"))
		}
		for j, kind := range w.NodePools {
			if len(s.NodePools[kind]) == 0 {
				c.Reject(at.Key("nodePools").At(j), "the group has no NodePool of this capacity type",
					wording.List(slices.Sorted(maps.Keys(s.NodePools))))
			}
		}
		if compiled.NodePools == nil {
			compiled.NodePools = slices.Sorted(maps.Keys(s.NodePools))
		}
		out = append(out, compiled)
	}
	return out
}

var consolidateAfter = regexp.MustCompile(`^(([0-9]+(s|m|h))+|Never)$`)

func (c *platformCompiler) consolidateAfter(text string, p *decode.Path) {
	if text != "" && !consolidateAfter.MatchString(text) {
		c.Reject(p, "is not a value of a NodePool's consolidateAfter", "a duration such as 30s or 1h30m, or Never")
	}
}
