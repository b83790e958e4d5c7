package nodes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/schedulability"
)

// fleet observes the nodes of a group that selects nodes by labels (NodeSelector). It also returns which pods can run on these nodes. The
// caller holds the lock.
func (n *Cache) fleet(g *capacity.Group, positions map[string]position) (view capacity.PoolView, runs schedulability.NodePool) {
	view.Exists, view.Ready = n.nodesRead(), true
	if !view.Exists {
		return view, runs
	}
	var all []*Node
	for _, node := range n.nodes {
		switch {
		case !g.Matches(node.labels):
		case node.labels[karpv1.NodePoolLabelKey] != "" || n.belongsToEarlier(g, node):
			view.Elsewhere++
		default:
			all = append(all, node)
		}
	}
	slices.SortFunc(all, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	for i, node := range all {
		positions[node.Name] = position{0, i}
		view.Nodes = append(view.Nodes, n.fleetNode(node, g.Resource))
	}
	return view, schedulability.Of("", templateOf(g, all))
}

// belongsToEarlier reports whether a node belongs to another group. If several groups select a node, it belongs to the first of these
// groups in the PlatformConfig.
func (n *Cache) belongsToEarlier(g *capacity.Group, node *Node) bool {
	if n.options.Groups == nil {
		return false
	}
	first := capacity.FirstMatch(n.options.Groups.Groups(), node.labels)
	return first != nil && first.Name != g.Name
}

// fleetNode converts a Node that has no NodeClaim. A node without allocatable units of the resource counts as starting, unless it has other
// GPUs.
func (n *Cache) fleetNode(node *Node, resource string) capacity.Node {
	out := capacity.Node{
		Name: node.Name, UID: string(node.UID), Type: capacity.OnDemand, Stage: capacity.Launched, Ready: node.ready && !node.cordoned,
		GPUs: node.extended[resource], Created: node.created, InstanceType: node.offer.InstanceType, Deleting: node.deleting,
		Notice: node.interrupted,
	}
	if out.GPUs > 0 || node.offer.CapacityType != "" {
		out.Stage = capacity.Usable
	}
	if kind, known := capacityTypes[node.offer.CapacityType]; known {
		out.Type = kind
	}
	if n.options.Hourly != nil {
		out.Hourly = n.options.Hourly(node.offer)
	}
	return out
}

// templateOf returns a node template for the nodes of a group, from which it is computed which pods can run on these nodes. The template
// has the labels of NodeSelector, and the labels and taints that all nodes have. If a label has different values, the template permits all
// these values.
func templateOf(g *capacity.Group, nodes []*Node) *karpv1.NodeClaimTemplate {
	t := &karpv1.NodeClaimTemplate{ObjectMeta: karpv1.ObjectMeta{Labels: g.NodeSelector}}
	if len(nodes) == 0 {
		return t
	}
	for _, taint := range nodes[0].taints {
		if !slices.ContainsFunc(nodes, func(other *Node) bool {
			return !slices.ContainsFunc(other.taints, func(o corev1.Taint) bool { return o.MatchTaint(&taint) && o.Value == taint.Value })
		}) {
			t.Spec.Taints = append(t.Spec.Taints, taint)
		}
	}
	for key := range nodes[0].labels {
		if _, selected := g.NodeSelector[key]; selected {
			continue
		}
		if values := valuesOf(key, nodes); values != nil {
			t.Spec.Requirements = append(t.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
				Key: key, Operator: corev1.NodeSelectorOpIn, Values: values})
		}
	}
	return t
}

// valuesOf returns the distinct values of a label on the nodes, or nil if at least one node does not have the label.
func valuesOf(key string, nodes []*Node) (values []string) {
	for _, node := range nodes {
		value, has := node.labels[key]
		if !has {
			return nil
		}
		values = append(values, value)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// nodesRead reports whether the informer has read the Nodes of the cluster. The caller holds the lock.
func (n *Cache) nodesRead() bool { return n.nodesSynced != nil && n.nodesSynced() }

// SetNodesRead marks the Nodes in the Cache as completely read. It is called for a cluster that is read from files, without an informer.
func (n *Cache) SetNodesRead() { n.change(func() { n.nodesSynced = func() bool { return true } }) }

// selectsNodes reports whether a capacity group selects its nodes by labels. Nodes are then read even if the API server serves no
// NodePools.
func (n *Cache) selectsNodes() bool {
	return n.options.Groups != nil && slices.ContainsFunc(n.options.Groups.Groups(), (*capacity.Group).SelectsNodes)
}
