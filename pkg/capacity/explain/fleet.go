package explain

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// fleetCause returns why the group, whose nodes are found by their labels, gets no additional node.
func (n *Names) fleetCause(r Reason) string {
	nodes := "its nodes " + n.Selector
	switch {
	case r.Cause == CauseNoNewNode:
		return "pods wait, and no node with the labels " + n.Selector + " was added for 15 minutes"
	case r.Name == "":
		return nodes + " are all that it has: neither maxNodes nor maxCapacity is set"
	}
	return nodes + " have reached " + r.Name
}

// fleetText returns the message of a finding about nodes that are found by their labels.
func (f Finding) fleetText(names Names) string {
	n, of := float64(f.Count), fmt.Sprintf("with the labels %s of group %s", names.Selector, names.Group)
	nodes := fmt.Sprintf("%d %s", f.Count, plural(n, "node"))
	switch f.Kind {
	case FindNoNodes:
		return fmt.Sprintf("no node has the labels %s of group %s: its targets are capped; correct nodeSelector, label the nodes, or set "+
			"maxNodes if an autoscaler adds them", names.Selector, names.Group)
	case FindElsewhere:
		return fmt.Sprintf("%s with the labels %s %s to a NodePool of Karpenter or to an earlier group: group %s does not count %s; list "+
			"NodePools in nodePools, and give each group labels of its own", nodes, names.Selector, plural(n, "belongs", "belong"), names.Group,
			plural(n, "it", "them"))
	case FindNoUnits:
		return fmt.Sprintf("%s %s %s no allocatable %s: wait for the device plugin, or correct resource or nodeSelector; "+
			"devices of dynamic resource allocation are not counted", nodes, of,
			plural(n, "has", "have"), names.Resource)
	case FindNotReady:
		return fmt.Sprintf("%s %s %s not Ready or %s cordoned: free GPUs there are not used, and %s of the maximum", nodes, of,
			plural(n, "is", "are"), plural(n, "is", "are"), plural(n, "it is part", "they are part"))
	case FindKeepNodes:
		return fmt.Sprintf("known demand needs %s of group %s until %s, and gpuscaler does not change them: before it, run %s; afterwards, "+
			"set the previous minimum or remove the annotation", nodes, names.Group, clock(f.Until), KeepNodes(names.Selector, f.Count,
			names.MaxNodes))
	}
	return fmt.Sprintf("the Nodes of the cluster cannot be read: group %s caps no target; allow gpuscaler to list and watch nodes, with "+
		"the chart value readNodes: true", names.Group)
}

// KeepNodes returns the command that keeps a number of nodes with the labels of a selector. The labels determine the provider: GKE, AKS
// or EKS. For other labels it returns the command that sets the annotation of Cluster Autoscaler. The parameter most is the greatest
// number of nodes, or 0 if that is not known.
func KeepNodes(selector string, nodes int, most int64) string {
	limit := "MAX"
	if most > 0 {
		limit = strconv.FormatInt(most, 10)
	}
	if command := resize(selector, strconv.Itoa(nodes), limit, "minSize="+strconv.Itoa(nodes)); command != "" {
		return command
	}
	return "kubectl annotate nodes -l " + selector + " cluster-autoscaler.kubernetes.io/scale-down-disabled=true"
}

// RaiseMaximum returns the command that allows an autoscaler to have a number of nodes with the labels of a selector. The labels
// determine the provider. For other labels it returns an instruction.
func RaiseMaximum(selector string, nodes int64) string {
	most := strconv.FormatInt(nodes, 10)
	if command := resize(selector, "MIN", most, "maxSize="+most); command != "" {
		return "run `" + command + "`"
	}
	return "set the maximum of the autoscaler to at least " + most + " nodes"
}

// resize returns the command that sets the minimum and the maximum of a node pool. The labels in selector determine the provider. The
// parameter eks is the scaling configuration in the command for EKS. If the labels belong to no known provider, resize returns "".
func resize(selector, least, most, eks string) string {
	labels := map[string]string{}
	for _, term := range strings.Split(selector, ",") {
		key, value, _ := strings.Cut(term, "=")
		labels[key] = value
	}
	if name := labels["cloud.google.com/gke-nodepool"]; name != "" {
		return fmt.Sprintf("gcloud container clusters update CLUSTER --node-pool %s --enable-autoscaling --total-min-nodes %s "+
			"--total-max-nodes %s", name, least, most)
	}
	if name := cmp.Or(labels["kubernetes.azure.com/agentpool"], labels["agentpool"]); name != "" {
		return fmt.Sprintf("az aks nodepool update --resource-group GROUP --cluster-name CLUSTER --name %s --update-cluster-autoscaler "+
			"--min-count %s --max-count %s", name, least, most)
	}
	if name := labels["eks.amazonaws.com/nodegroup"]; name != "" {
		return fmt.Sprintf("aws eks update-nodegroup-config --cluster-name CLUSTER --nodegroup-name %s --scaling-config %s", name, eks)
	}
	return ""
}
