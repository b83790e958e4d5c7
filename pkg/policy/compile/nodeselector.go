package compile

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// nodeSelector checks the fields that define the nodes of the capacity group with index i. The group must have either nodePools or a
// nodeSelector. In a group with a nodeSelector, the fields that change NodePools are rejected.
func (c *platformCompiler) nodeSelector(i int, p *decode.Path) {
	s := &c.spec.CapacityGroups[i]
	if s.NodeSelector == nil {
		if s.NodePools == nil {
			c.Reject(p, "has no nodes", "nodePools, or nodeSelector in a cluster without Karpenter")
		}
		c.rejectFields(p, "has no effect without nodeSelector", "spec.limits of the NodePools",
			setField{"maxNodes", s.MaxNodes != 0}, setField{"maxCapacity", s.MaxCapacity != 0})
		return
	}
	at := p.Key("nodeSelector")
	if len(s.NodeSelector) == 0 {
		c.Reject(at, "is empty", "at least one label of the nodes")
	}
	if s.NodePools != nil {
		c.Reject(at, "nodePools is set too", "one of nodePools and nodeSelector")
	}
	for _, key := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(s.NodeSelector[key])) > 0 {
			c.Reject(at.Key(key), "is not a label", "key and value of a label, as in nodeSelector of a pod")
		}
		if strings.HasPrefix(key, "karpenter.sh/") {
			c.Reject(at.Key(key), "is a label of Karpenter's nodes", "the NodePool in nodePools")
		}
	}
	for j := range i {
		earlier := capacity.Group{NodeSelector: c.spec.CapacityGroups[j].NodeSelector}
		if len(s.NodeSelector) > 0 && earlier.Matches(s.NodeSelector) {
			c.Reject(at, "every node with these labels belongs to group "+c.spec.CapacityGroups[j].Name+", which is earlier in the list",
				"labels of its own, or this group before "+c.spec.CapacityGroups[j].Name)
		}
	}
	c.withoutNodePools(s, p)
}

// withoutNodePools rejects the fields of a group with a nodeSelector that only apply to NodePools.
func (c *platformCompiler) withoutNodePools(s *spec.Group, p *decode.Path) {
	if strings.HasPrefix(s.Resource, capacity.DeviceClassPrefix) {
		c.Reject(p.Key("resource"), "devices of a DeviceClass are not counted on the nodes of a nodeSelector",
			"an extended resource such as nvidia.com/gpu")
	}

	c.rejectFields(p, "needs NodePools of Karpenter, and the group has a nodeSelector", "the group without this field",
		setField{"onDemandBaseCapacity", s.OnDemandBaseCapacity > 0}, setField{"spotWaitTimeout", s.SpotWaitTimeout > 0},
		setField{"fallback", s.Fallback == "hard"}, setField{"returnNodesPerHour", s.ReturnNodesPerHour > 0},
		setField{"zeroLimit", s.ZeroLimit}, setField{"startupShield", s.StartupShield}, setField{"schedules", len(s.Schedules) > 0})
}

// setField contains the name of a field, and whether the field is set.
type setField struct {
	key string
	set bool
}

// rejectFields reports a problem with the given text for each field that is set.
func (c *platformCompiler) rejectFields(p *decode.Path, problem, allowed string, fields ...setField) {
	for _, f := range fields {
		if f.set {
			c.Reject(p.Key(f.key), problem, allowed)
		}
	}
}
