// Package karpenter is a model of Karpenter v1.15, kube-scheduler and the kubelets, with a cloud that refuses launches and interrupts spot
// instances. Each node has one GPU and runs one pod.
//
// The model launches a node for each pending pod in the NodePool with the greatest weight whose limit permits the node. After a refused
// launch, it does not try the same NodePool for 15 s. It deletes empty nodes after consolidateAfter, unless a disruption budget permits no
// disruption. These rules follow Karpenter's packages provisioning, scheduling and disruption; e2e/karpenter tests gpuscaler's actions with
// the real Karpenter. The model has no drift, no consolidation of nodes with pods and no schedules of budgets.
package karpenter

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

const (
	// Resource is the resource that pods request. Each node has one unit, and each pod requests one unit.
	Resource = "nvidia.com/gpu"
	// GroupLabel is the label of the nodes of a NodePool. Pods select it, so that they run only on the nodes of their group.
	GroupLabel = "simulate/group"
)

// Durations in the model of Karpenter, the scheduler and the kubelets.
const (
	launchTime      = 20 * time.Second // from the creation of a NodeClaim to its instance
	initializeTime  = 50 * time.Second // from the creation of a NodeClaim to a usable node
	loadTime        = 25 * time.Second // from the assignment of a pod to a node to its readiness
	terminationTime = 10 * time.Second // from the deletion of a NodeClaim to the removal of its node
	launchRetry     = 15 * time.Second // between two launches that the cloud refuses
	batchTime       = 2 * time.Second  // from the creation of a pod to the launch of a node for it
)

// NodePool contains the properties of a NodePool that are never edited.
type NodePool struct{ Name, Group, CapacityType string }

// Surroundings is the part of the simulation that a Cluster needs.
type Surroundings interface {
	// Now returns the virtual time.
	Now() time.Time
	// Refuses reports whether the cloud has no capacity for the NodePool with this name.
	Refuses(nodePool string) bool
	// Note adds a line to the trace of the run.
	Note(format string, args ...any)
}

// Cluster is Karpenter with its nodes. It is not safe for concurrent use.
type Cluster struct {
	api      *apiserver.Server
	around   Surroundings
	pools    []*pool
	groups   []string
	machines map[string]*machine // key: name of the NodeClaim, which is also the name of its node
	claims   int
}

type pool struct {
	NodePool
	refused time.Time // last time at which the cloud refused a launch in the NodePool
	changed time.Time // last time at which a NodeClaim of the NodePool was created, changed or deleted
}

// New returns a cluster without nodes. The slice nodePools determines the order of the NodePools.
func New(api *apiserver.Server, around Surroundings, nodePools []NodePool) *Cluster {
	c := &Cluster{api: api, around: around, machines: map[string]*machine{}}
	for _, p := range nodePools {
		c.pools = append(c.pools, &pool{NodePool: p})
		if !slices.Contains(c.groups, p.Group) {
			c.groups = append(c.groups, p.Group)
		}
	}
	return c
}

func (c *Cluster) names() []string { return slices.Sorted(maps.Keys(c.machines)) }

// Nodes returns the number of NodeClaims of a NodePool.
func (c *Cluster) Nodes(nodePool string) (n int64) {
	for _, m := range c.machines {
		if m.pool.Name == nodePool {
			n++
		}
	}
	return n
}

// Changing returns the number of NodeClaims of a group whose nodes are not usable yet or are being deleted.
func (c *Cluster) Changing(group string) (n int) {
	for _, m := range c.machines {
		if m.pool.Group == group && (m.stage < usable || !m.deleted.IsZero()) {
			n++
		}
	}
	return n
}

// Changed returns the last time at which a NodeClaim of a group was created, changed or deleted.
func (c *Cluster) Changed(group string) (last time.Time) {
	for _, p := range c.pools {
		if p.Group == group && p.changed.After(last) {
			last = p.changed
		}
	}
	return last
}

// Limit returns the number of GPUs in spec.limits of a NodePool; -1: the NodePool has no such limit.
func Limit(nodePool *unstructured.Unstructured) int64 {
	value, found, _ := unstructured.NestedFieldNoCopy(nodePool.Object, "spec", "limits", Resource)
	if !found {
		return -1
	}
	q := resource.MustParse(fmt.Sprint(value))
	return q.Value()
}

// Run simulates one second: it advances the launches, binds pods to nodes, launches nodes for pending pods and deletes empty nodes.
func (c *Cluster) Run() {
	for _, name := range c.names() {
		c.advance(c.machines[name])
	}
	running := map[string]string{}
	for _, p := range c.api.Pods() {
		if p.Spec.NodeName != "" {
			running[p.Spec.NodeName] = p.Name
		}
	}
	c.bind(running)
	c.launch()
	c.consolidate(running)
}

// launch counts the pending pods of each group, subtracts the nodes that are already being launched, and creates a NodeClaim for each
// remaining pod. Each NodeClaim belongs to the NodePool with the greatest weight whose limit permits one more node.
func (c *Cluster) launch() {
	for _, group := range c.groups {
		missing := 0
		for _, p := range c.api.Pods() {
			waits := p.Spec.NodeName == "" && c.around.Now().Sub(p.CreationTimestamp.Time) >= batchTime
			if waits && p.Spec.NodeSelector[GroupLabel] == group {
				missing++
			}
		}
		for _, m := range c.machines {
			if m.pool.Group == group && m.stage < usable && m.deleted.IsZero() {
				missing--
			}
		}
		for range missing {
			p := c.choose(group)
			if p == nil {
				break
			}
			c.request(p)
		}
	}
}

func (c *Cluster) choose(group string) (best *pool) {
	greatest := int64(-1)
	for _, p := range c.pools {
		u := c.nodePool(p)
		if p.Group != group || u == nil || c.around.Now().Sub(p.refused) < launchRetry {
			continue
		}
		if limit := Limit(u); limit >= 0 && c.Nodes(p.Name) >= limit {
			continue
		}
		if weight, _, _ := unstructured.NestedInt64(u.Object, "spec", "weight"); weight > greatest {
			best, greatest = p, weight
		}
	}
	return best
}

func (c *Cluster) nodePool(p *pool) *unstructured.Unstructured {
	u, _ := c.api.Get(apiserver.KindNodePool, p.Name).(*unstructured.Unstructured)
	return u
}

// request creates a NodeClaim. If the cloud has no capacity, it refuses the NodeClaim at once.
func (c *Cluster) request(p *pool) {
	c.claims++
	name := fmt.Sprintf("%s-%04d", p.Name, c.claims)
	m := &machine{pool: p, claim: name, created: c.around.Now()}
	c.putClaim(m)
	if c.around.Refuses(p.Name) {
		p.refused = c.around.Now()
		c.around.Note("the cloud refuses a node of %s", p.Name)
		c.api.Remove(apiserver.KindNodeClaim, name)
		return
	}
	c.machines[name] = m
}

// consolidate deletes nodes without pods after consolidateAfter, unless a disruption budget permits no disruption.
func (c *Cluster) consolidate(running map[string]string) {
	now := c.around.Now()
	for _, name := range c.names() {
		m := c.machines[name]
		switch {
		case running[name] != "" || m.stage < usable || !m.deleted.IsZero():
			m.empty = time.Time{}
			continue
		case m.empty.IsZero():
			m.empty = now
		}
		u := c.nodePool(m.pool)
		if u == nil {
			continue
		}
		after, _, _ := unstructured.NestedString(u.Object, "spec", "disruption", "consolidateAfter")
		wait, err := time.ParseDuration(after)
		if err != nil || now.Sub(m.empty) < wait || blocked(u) {
			continue
		}
		m.deleted = now
		c.putClaim(m)
	}
}

// blocked reports whether a budget permits no disruption of empty nodes. Budgets with a schedule are ignored.
func blocked(u *unstructured.Unstructured) bool {
	budgets, _, _ := unstructured.NestedSlice(u.Object, "spec", "disruption", "budgets")
	for _, b := range budgets {
		if m, ok := b.(map[string]any); ok && m["nodes"] == "0" && m["schedule"] == nil {
			return true
		}
	}
	return false
}

// DeleteNodes deletes the nodes of a NodePool, as Karpenter does when the NodePool is deleted.
func (c *Cluster) DeleteNodes(nodePool string) {
	for _, name := range c.names() {
		if m := c.machines[name]; m.pool.Name == nodePool && m.deleted.IsZero() {
			m.deleted = c.around.Now()
			c.putClaim(m)
		}
	}
}

// Interrupt removes a usable spot node and its pods, like an interruption by the cloud. n modulo the number of usable spot nodes is the
// index of the node.
func (c *Cluster) Interrupt(n int) {
	names := slices.DeleteFunc(c.names(), func(name string) bool {
		return c.machines[name].pool.CapacityType != "spot" || c.machines[name].stage < usable
	})
	if len(names) == 0 {
		return
	}
	m := c.machines[names[n%len(names)]]
	c.around.Note("the cloud takes node %s", m.claim)
	c.remove(m)
}
