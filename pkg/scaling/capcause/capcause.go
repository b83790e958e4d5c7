// Package capcause contains the reason why a capacity group caps the targets of its workloads, and the text of this reason.
package capcause

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cause is the reason why a capacity group caps targets: no NodePool of the group launches a node for waiting pods, or the autoscaler of
// the cluster adds no node with the labels of the group. A Cause never changes after it was created.
type Cause struct {
	Group    string
	Resource string // the resource that the group counts, such as nvidia.com/gpu
	// Selector is the label selector of the nodes of a group without NodePools. Such a group has one element in Pools.
	Selector string
	Pools    []Pool    // the NodePools of the group that exist, in the order of the group
	Until    time.Time // when the group tries again to scale to the full target
}

// Pool is a NodePool that launches no node. Units and Unmanaged are set for every Kind. The comment of each Kind lists the other fields
// that are set. The remaining fields are 0 or "".
type Pool struct {
	Name string
	Kind Kind
	// Limited is what is limited. For Limit it is a resource, such as nvidia.com/gpu, cpu or nodes, or "spec.replicas" for a static
	// NodePool. For Maximum it is maxNodes or maxCapacity, or "" if neither is set.
	Limited string
	Limit   float64 // the limit or maximum of Limited
	Used    float64 // how much of Limited is used
	// Scheduled is true if an open schedule of the group set the limit. Left is true if the limit is an override that gpuscaler may no longer
	// change, because the owner of the NodePool has withdrawn the consent. If both are false, it is the owner's limit.
	Scheduled, Left bool
	// Waiting is how many units the smallest waiting pod requests, if the limit allows only nodes that are too small for this pod.
	Waiting   int64
	Units     int64 // units of the group's resource on the nodes of the NodePool
	Unmanaged int64 // units of the group's resource that pods without a policy use on these nodes
	Refused   int   // launches that failed for lack of capacity
}

// Kind is the kind of reason why a NodePool launches no node.
type Kind uint8

// Values of Kind.
const (
	Unknown     Kind = iota
	Limit            // the NodePool is at a limit; sets Limited, Limit, Used, Scheduled, Left and Waiting
	Refused          // launches failed for lack of capacity; sets Refused
	NotReady         // the NodePool is not Ready
	Reservation      // the capacity reservation has no free instance: pods wait, and Karpenter launches no node
	Maximum          // the labeled nodes are at the maximum of the group; sets Limited, Limit and Used
	NoNewNode        // pods wait, and the autoscaler of the cluster adds no labeled node
	Infeasible       // according to a CapacityBuffer, no node that the autoscaler may add has space for a replica
	numKinds
)

var kindNames = [numKinds]string{"unknown", "limit", "launches refused", "not ready", "reservation full", "maximum", "no new node",
	"infeasible"}

// String returns the kind in one or two words, for JSON.
func (k Kind) String() string { return kindNames[min(k, numKinds-1)] }

// Text returns a clause for each NodePool, such as "NodePool gpu-spot is at its owner's limit of 8 GPUs, 2 of them used by pods that no
// policy of the group manages".
func (c *Cause) Text() string {
	clauses := make([]string, len(c.Pools))
	for i := range c.Pools {
		clauses[i] = c.poolText(&c.Pools[i])
	}
	return strings.Join(clauses, ", and ")
}

// PoolText returns the clause of one NodePool, or "" if the NodePool is not one of Pools. The receiver may be nil.
func (c *Cause) PoolText(name string) string {
	if c == nil {
		return ""
	}
	for i := range c.Pools {
		if c.Pools[i].Name == name {
			return c.poolText(&c.Pools[i])
		}
	}
	return ""
}

func (c *Cause) poolText(p *Pool) string {
	name := "NodePool " + p.Name
	switch p.Kind {
	case Limit:
		return c.limitText(p)
	case Refused:
		return fmt.Sprintf("%s failed for lack of capacity in %s", count(float64(p.Refused), "launch", "launches"), name)
	case NotReady:
		return name + " is not Ready"
	case Reservation:
		return "the reservation of " + name + " has no free instance: pods wait, and Karpenter launches no node there"
	case Maximum:
		return c.maximumText(p)
	case NoNewNode:
		return "pods wait, and no node with the labels " + c.Selector + " was added for 15 minutes"
	}
	if p.Kind == Infeasible {
		return "no node " + c.nodes(p) + " can have space for a replica: its CapacityBuffer reports Infeasible"
	}
	return name + " provides no node"
}

// nodes returns to which nodes a cause applies: the nodes of the NodePool, or the nodes with the labels of the group.
func (c *Cause) nodes(p *Pool) string {
	if c.Selector != "" {
		return "with the labels " + c.Selector
	}
	return "of NodePool " + p.Name
}

// limitText names the limit of a NodePool. A NodePool below its limit launches no node if one more node would exceed the limit, or if the
// limit allows only nodes that are too small for the waiting pods.
func (c *Cause) limitText(p *Pool) string {
	if p.Limited == "spec.replicas" {
		return fmt.Sprintf("NodePool %s is static, with spec.replicas %s, so Karpenter launches no further node", p.Name, number(p.Limit)) +
			c.unmanagedText(p)
	}
	owner, end := "its owner's limit of ", ""
	switch {
	case p.Scheduled:
		owner = "the limit of an open schedule, "
	case p.Left:
		owner, end = "a limit of ", ", which gpuscaler set and may no longer change: gpuscaler.io/nudge does not list limits any more"
	}
	if p.Used >= p.Limit {
		return "NodePool " + p.Name + " is at " + owner + c.amount(p.Limited, p.Limit) + c.unmanagedText(p) + end
	}
	node := "further node"
	if p.Waiting > 0 {
		node = "node for a pod with " + c.amount(c.Resource, float64(p.Waiting))
	}
	return fmt.Sprintf("NodePool %s has %s, and %s%s allows no %s", p.Name, c.amount(p.Limited, p.Used), owner, c.amount(p.Limited, p.Limit),
		node) + c.unmanagedText(p) + end
}

// maximumText names the maximum of a group whose nodes are found by their labels.
func (c *Cause) maximumText(p *Pool) string {
	nodes := "the nodes with the labels " + c.Selector
	switch p.Limited {
	case "":
		return fmt.Sprintf("%s have %s, and neither maxNodes nor maxCapacity is set", nodes, c.amount(c.Resource, float64(p.Units))) +
			c.unmanagedText(p)
	case "maxNodes":
		return fmt.Sprintf("%s are %s, and maxNodes is %s", nodes, number(p.Used), number(p.Limit)) + c.unmanagedText(p)
	}
	return fmt.Sprintf("%s have %s, and maxCapacity is %s", nodes, c.amount(c.Resource, p.Used), number(p.Limit)) + c.unmanagedText(p)
}

// unmanagedText returns how many units pods without a policy use, because these units are not available to the workload.
func (c *Cause) unmanagedText(p *Pool) string {
	used := c.amount(c.Resource, float64(p.Unmanaged))
	switch {
	case p.Unmanaged == 0:
		return ""
	case p.Limited == c.Resource && p.Used >= p.Limit:
		used = strconv.FormatInt(p.Unmanaged, 10) + " of them"
	}
	return ", " + used + " used by pods that no policy of the group manages"
}

// amount returns an amount of a resource, such as "8 GPUs", "4 nodes", "64 CPUs" or "256 GiB of memory".
func (c *Cause) amount(resource string, n float64) string {
	switch {
	case strings.HasSuffix(resource, "/gpu"):
		return count(n, "GPU", "GPUs")
	case resource == "nodes":
		return count(n, "node", "nodes")
	case resource == "cpu":
		return count(n, "CPU", "CPUs")
	case resource == "memory" || resource == "ephemeral-storage":
		return strconv.FormatFloat(n/(1<<30), 'g', 4, 64) + " GiB of " + resource
	}
	return number(n) + " " + resource
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func count(n float64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + several
}
