package karpenter

import (
	"slices"
	"time"
)

// Template describes the pods of one workload.
type Template struct {
	Name         string   // name of the workload; without NodePools, the random numbers of a pod's node depend on this name
	Image        int32    // index of the image, below Config.Images
	GPUs         int32    // GPUs of a pod
	Pools        []string // names of the allowed NodePools; empty: all
	DoNotDisrupt bool     // consolidation does not disrupt the nodes of these pods
	boots        boots
}

// Replica is the process in a pod. The package that simulates the workload implements it.
type Replica interface {
	// Start is called when the pod is on a node whose GPUs are usable. pull is the time until the image is on the node.
	Start(pull time.Duration)
	// Evict terminates the pod within its grace period. The workload may create another pod during the call.
	Evict()
	// Kill ends the pod at once, because its node is lost.
	Kill()
}

// phase is the state of a pod in scheduling.
type phase uint8

const (
	unassigned  phase = iota // no node was chosen
	nominated                // its node is starting
	bound                    // it runs on its node
	terminating              // it was terminated and may still use its GPUs
)

// Pod is a pod of the simulated cluster, from its creation to its termination. The zero value is not usable; Cluster.Create returns a Pod.
type Pod struct {
	// Shield is the value of the annotation do-not-disrupt; "": absent.
	Shield string

	template *Template
	replica  Replica
	node     *Node
	phase    phase
}

// Register creates the random numbers for nodes that belong to one pod of the template. It must be called before Create.
func (c *Cluster) Register(t *Template) { t.boots = c.newBoots("of " + t.Name) }

// Create initializes pod as a pod without a node. The pod starts only after a call of Provision. The template t must be registered.
func (c *Cluster) Create(pod *Pod, t *Template, r Replica) {
	*pod = Pod{template: t, replica: r}
	c.waiting = append(c.waiting, pod)
}

// Delete removes a pod that has ended from its node.
func (c *Cluster) Delete(pod *Pod) {
	if pod.phase < bound {
		c.settle(pod)
	}
	if n := pod.node; n != nil {
		pod.node = nil
		n.vacate(pod)
	}
}

// Terminating records that the pod of a ready replica was terminated and still uses its GPUs.
func (pod *Pod) Terminating() { pod.phase = terminating }

// Node returns the node of the pod, or nil. It may be a starting node that Karpenter chose for the pod.
func (pod *Pod) Node() *Node { return pod.node }

// Replica returns the replica that runs in the pod.
func (pod *Pod) Replica() Replica { return pod.replica }

// Start binds an initial pod to a usable node that already has the image. It returns false if no NodePool has capacity for the pod. In this
// case the pod waits for a node.
func (c *Cluster) Start(pod *Pod) bool {
	n := c.initialNode(pod.template)
	if n == nil {
		return false
	}
	n.pulled[pod.template.Image] = -1
	n.change(func() { n.used += pod.template.GPUs })
	n.pods = append(n.pods, pod)
	c.settle(pod)
	pod.node, pod.phase = n, bound
	return true
}

// WithoutNode returns the number of pods that have no node. A pod with a starting node is not included.
func (c *Cluster) WithoutNode() (n int32) {
	for _, pod := range c.waiting {
		if pod.withoutNode() {
			n++
		}
	}
	return n
}

func (pod *Pod) withoutNode() bool { return pod.phase == unassigned }

// protected reports whether the pod must not be disrupted.
func (pod *Pod) protected() bool { return pod.template.DoNotDisrupt || pod.Shield != "" }

// settle removes a pod from the list of waiting pods.
func (c *Cluster) settle(pod *Pod) {
	if i := slices.Index(c.waiting, pod); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
}
