package lint

import (
	"fmt"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Checks of capacity groups whose nodes are found by their labels.
const (
	GroupWithoutNodes = "NodeGroupWithoutNodes" // no node has the labels, and no node can be added
	GroupAboveMaximum = "NodeGroupAboveMaximum" // the group has more nodes than maxNodes
	GroupTooSmall     = "NodeGroupTooSmall"     // the nodes that the group may have do not suffice for minReplicas
	PodNotOnGroup     = "PodCannotUseNodeGroup" // the pods of a workload can run on no node of their group
	PodTooLarge       = "PodLargerThanNode"     // a pod requests more than the largest node of its group has
	PodOnOtherNodes   = "PodCanUseOtherNodes"   // the pods of a workload can also run on nodes outside of their group
)

// NodeFacts contains the facts about a cluster that NodeGroups needs.
type NodeFacts struct {
	Requests Requests
	Nodes    func(group *policy.Group) (n objects.GroupNodes, known bool)
	// Placement returns on which nodes the pods of a workload can run. known is false if the workload's pod template or the nodes were not
	// read.
	Placement func(w *scaling.Workload, group *policy.Group) (p objects.Placement, known bool)
	// Selector returns the group's nodeSelector in the format of kubectl.
	Selector func(group *policy.Group) string
	// Raise returns the command, or the instruction, that allows the autoscaler to have the given number of nodes.
	Raise func(group *policy.Group, nodes int64) string
}

// NodeGroups returns the findings about capacity groups whose nodes are found by their labels, and about the policies of these groups.
// Checks of a group whose nodes were not read are skipped.
func NodeGroups(policies []*policy.Compiled, platform *policy.Platform, facts NodeFacts) (all []Finding) {
	for i := range platform.Groups {
		g := &platform.Groups[i]
		n, known := objects.GroupNodes{}, false
		if len(g.NodeSelector) > 0 {
			n, known = facts.Nodes(g)
		}
		if !known {
			continue
		}
		check := groupCheck{policies: policies, group: g, nodes: n, facts: facts}
		all = append(all, check.members()...)
		for _, c := range policies {
			if c.Workload.Group == g.Name {
				all = append(all, check.minimum(c)...)
				all = append(all, check.placement(&c.Workload)...)
			}
		}
	}
	return all
}

// groupCheck checks one capacity group.
type groupCheck struct {
	policies []*policy.Compiled
	group    *policy.Group
	nodes    objects.GroupNodes
	facts    NodeFacts
}

// members checks the number of nodes in the group.
func (k *groupCheck) members() []Finding {
	g, selector, about := k.group, k.facts.Selector(k.group), "capacity group "+k.group.Name
	switch {
	case k.nodes.Nodes == 0 && g.MaxNodes == 0 && g.MaxCapacity == 0:
		near := ""
		if len(k.nodes.Near) > 0 {
			near = "; other nodes have " + strings.Join(k.nodes.Near, ", ")
		}
		var keys, labels []string
		for _, term := range strings.Split(selector, ",") {
			key, _, _ := strings.Cut(term, "=")
			keys, labels = append(keys, key), append(labels, term)
		}
		return []Finding{{Severity: Error, Check: GroupWithoutNodes, About: about,
			What: "no node has the labels " + selector + near,
			Why:  "neither maxNodes nor maxCapacity is set, so the group counts as full and caps every target",
			Fix: fmt.Sprintf("correct nodeSelector (`kubectl get nodes -L %s` prints the labels), label the nodes (`kubectl label nodes NODE "+
				"%s`), or set maxNodes if an autoscaler adds them", strings.Join(keys, ","), strings.Join(labels, " "))}}
	case g.MaxNodes > 0 && int64(k.nodes.Nodes) > g.MaxNodes:
		return []Finding{{Severity: Warning, Check: GroupAboveMaximum, About: about,
			What: fmt.Sprintf("%d nodes have the labels %s, and maxNodes is %d", k.nodes.Nodes, selector, g.MaxNodes),
			Why:  "gpuscaler caps targets as if no node could be added, even if the autoscaler may add some",
			Fix:  fmt.Sprintf("set maxNodes to the maximum of the autoscaler, at least %d", k.nodes.Nodes)}}
	}
	return nil
}

// room returns how much of the group's resource the nodes of the group may have in total. known is false if the size of a node is unknown.
func (k *groupCheck) room() (units int64, known bool) {
	g, n := k.group, k.nodes
	switch {
	case g.MaxNodes == 0 && g.MaxCapacity == 0:
		return n.Units, n.Nodes > 0
	case g.MaxNodes == 0:
		units = g.MaxCapacity
	case n.Largest == 0:
		return 0, false
	case g.MaxCapacity == 0:
		units = g.MaxNodes * n.Largest
	default:
		units = min(g.MaxNodes*n.Largest, g.MaxCapacity)
	}
	if n.Largest > 0 { // the autoscaler adds a node only if the whole node is within the maximum
		units = n.Units + max(units-n.Units, 0)/n.Largest*n.Largest
	}
	return max(units, n.Units), true
}

// minimum checks whether the nodes that the group may have suffice for the minReplicas of all its policies. For the policy c it uses the
// greatest value of minReplicas and of the minReplicas of its schedules.
func (k *groupCheck) minimum(c *policy.Compiled) []Finding {
	w, g := &c.Workload, k.group
	each, known := k.facts.Requests(w, g.Resource)
	room, limited := k.room()
	least, of := int64(w.Policy.MinReplicas), "minReplicas"
	for i := range w.Policy.Schedules {
		if s := &w.Policy.Schedules[i]; int64(s.Min) > least {
			least, of = int64(s.Min), "minReplicas of schedule "+s.Window.Name
		}
	}
	others := otherMinimums(k.policies, c, g, k.facts.Requests)
	need := least*each + others
	if !known || !limited || least == 0 || each <= 0 || need <= room {
		return nil
	}
	beside := ""
	if others > 0 {
		beside = fmt.Sprintf(", minReplicas of other policies need %d", others)
	}
	return []Finding{{Severity: Error, Check: GroupTooSmall, About: "ScalingPolicy " + w.Key.String(),
		What: fmt.Sprintf("%s %d needs %d %s%s, and the nodes of capacity group %s may have %d", of, least, least*each, g.Resource, beside,
			g.Name, room),
		Why: "the remaining pods wait, and the target is capped",
		Fix: k.enlarge(need)}}
}

// enlarge returns what the user must change so that the group can have the given units of its resource.
func (k *groupCheck) enlarge(need int64) string {
	if k.nodes.Largest == 0 {
		return fmt.Sprintf("set maxCapacity to at least %d, and allow the autoscaler as many nodes; or decrease minReplicas", need)
	}
	count := (need + k.nodes.Largest - 1) / k.nodes.Largest
	if k.group.MaxNodes == 0 && k.group.MaxCapacity == 0 {
		return fmt.Sprintf("add nodes to a total of %d, or decrease minReplicas", count)
	}
	field, value := "maxNodes", count
	if k.group.MaxCapacity > 0 && k.group.MaxCapacity < need {
		field, value = "maxCapacity", need
	}
	return fmt.Sprintf("%s, and set %s to at least %d; or decrease minReplicas", k.facts.Raise(k.group, count), field, value)
}

// placement checks whether the pods of a workload can run on the nodes of the group, and only on these nodes.
func (k *groupCheck) placement(w *scaling.Workload) (all []Finding) {
	about, target := "ScalingPolicy "+w.Key.String(), w.Target.Kind+" "+w.Target.Name
	if each, known := k.facts.Requests(w, k.group.Resource); known && k.nodes.Largest > 0 && each > k.nodes.Largest {
		all = append(all, Finding{Severity: Error, Check: PodTooLarge, About: about,
			What: fmt.Sprintf("a pod of %s requests %d %s, and the largest node of capacity group %s has %d", target, each, k.group.Resource,
				k.group.Name, k.nodes.Largest),
			Why: "no node accepts the pod, so the replicas wait although the target is raised",
			Fix: fmt.Sprintf("request at most %d, or use a group with larger nodes", k.nodes.Largest)})
	}
	p, known := k.facts.Placement(w, k.group)
	if !known {
		return all
	}
	why, fix := k.obstacle(w, &p)
	switch {
	case p.Accepted == 0 && (k.nodes.Nodes > 0 || p.LabelOfGroup):
		all = append(all, Finding{Severity: Error, Check: PodNotOnGroup, About: about,
			What: fmt.Sprintf("no node of capacity group %s accepts the pods of %s: %s", k.group.Name, target, why),
			Why:  "the pods wait, or run on nodes that the group does not count", Fix: fix})
	case p.Elsewhere > 0:
		all = append(all, Finding{Severity: Warning, Check: PodOnOtherNodes, About: about,
			What: fmt.Sprintf("the pods of %s can also run on nodes outside capacity group %s: on %d now", target,
				k.group.Name, p.Elsewhere),
			Why: "if the group is full, its cap applies although these nodes have free " + k.group.Resource,
			Fix: "`" + k.selectGroup(w) + "`"})
	}
	return all
}

// obstacle returns why the nodes of the group do not accept the pods of a workload, and the command or the instruction that corrects this.
func (k *groupCheck) obstacle(w *scaling.Workload, p *objects.Placement) (why, fix string) {
	key, value, _ := strings.Cut(p.Label, "=")
	switch {
	case p.LabelOfGroup:
		return "they require the label " + p.Label + ", and the nodes have " + key + "=" + k.group.NodeSelector[key], "`" + k.selectGroup(w) + "`"
	case p.Taint != "":
		return "they do not tolerate the taint " + p.Taint, "`" + patch(w, "--type json -p '"+tolerate(p)+"'") + "`"
	case p.Label != "":
		without := patch(w, fmt.Sprintf(`-p '{"spec":{"template":{"spec":{"nodeSelector":{%q:null}}}}}'`, key))
		return "they require the label " + p.Label, fmt.Sprintf("`kubectl label nodes -l %s %s=%s` if the nodes have this property, otherwise "+
			"`%s`", k.facts.Selector(k.group), key, value, without)
	}
	return "their required node affinity matches none of them", fmt.Sprintf("correct the affinity: `kubectl -n %s get %s %s -o "+
		"jsonpath='{.spec.template.spec.affinity.nodeAffinity}'` prints it", w.Key.Namespace, strings.ToLower(w.Target.Kind), w.Target.Name)
}

// selectGroup returns the command that restricts the pods of a workload to the nodes of the group.
func (k *groupCheck) selectGroup(w *scaling.Workload) string {
	var labels []string
	for _, term := range strings.Split(k.facts.Selector(k.group), ",") {
		key, value, _ := strings.Cut(term, "=")
		labels = append(labels, fmt.Sprintf("%q:%q", key, value))
	}
	return patch(w, `-p '{"spec":{"template":{"spec":{"nodeSelector":{`+strings.Join(labels, ",")+`}}}}}'`)
}

func patch(w *scaling.Workload, change string) string {
	return fmt.Sprintf("kubectl -n %s patch %s %s %s", w.Key.Namespace, strings.ToLower(w.Target.Kind), w.Target.Name, change)
}

// tolerate returns the JSON patch that adds a toleration of the taint to a pod template. Taint has the format of kubectl: key=value:effect.
func tolerate(p *objects.Placement) string {
	label, effect, _ := strings.Cut(p.Taint, ":")
	key, value, hasValue := strings.Cut(label, "=")
	toleration := fmt.Sprintf(`{"key":%q,"operator":"Exists","effect":%q}`, key, effect)
	if hasValue {
		toleration = fmt.Sprintf(`{"key":%q,"operator":"Equal","value":%q,"effect":%q}`, key, value, effect)
	}
	if p.Tolerates {
		return `[{"op":"add","path":"/spec/template/spec/tolerations/-","value":` + toleration + `}]`
	}
	return `[{"op":"add","path":"/spec/template/spec/tolerations","value":[` + toleration + `]}]`
}
