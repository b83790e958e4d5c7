package cache

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// NodeStart contains the times at which a node started, in Unix milliseconds. 0 means that a time is unknown.
type NodeStart struct {
	Launched    int64 // the cloud provider launched the instance
	Registered  int64 // the node joined the cluster
	Allocatable int64 // the node reported its GPUs
}

// SetNodeStarts sets the function that returns the times at which a node started. It must be called before the first object is put. Without
// the function, these times are unknown. The function is called while the Cache is locked, so it must not call methods of the Cache.
func (c *Cache) SetNodeStarts(of func(node string) NodeStart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodeStarts = of
}

// startOf returns the creation time of a Ready pod and the times at which the phases of its start ended. The time at which its containers
// started is unknown if a container that uses GPUs has restarted. If no container uses GPUs, a restart of any container makes this time
// unknown.
func startOf(p *corev1.Pod) *planner.ReplicaStart {
	out := &planner.ReplicaStart{Created: Stamp(p.CreationTimestamp.Time)}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == corev1.PodScheduled:
			out.Scheduled = Stamp(c.LastTransitionTime.Time)
		case c.Type == corev1.PodReady:
			out.Ready = Stamp(c.LastTransitionTime.Time)
		}
	}
	status := make(map[string]*corev1.ContainerStatus, len(p.Status.ContainerStatuses))
	for i := range p.Status.ContainerStatuses {
		status[p.Status.ContainerStatuses[i].Name] = &p.Status.ContainerStatuses[i]
	}
	all := !anyUsesGPUs(p.Spec.Containers)
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; all || usesGPUs(*c) {
			s := status[c.Name]
			if s == nil || s.RestartCount > 0 || s.State.Running == nil {
				out.Running = 0
				break
			}
			out.Running = max(out.Running, Stamp(s.State.Running.StartedAt.Time))
		}
	}
	return out
}

// Stamp returns a time in Unix milliseconds, as in a planner.ReplicaStart. It returns 0 for the zero time.
func Stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return history.Stamp(t)
}

// startedReplicas returns the latest completed starts of the ready replicas, or nil if no start is known. before is the previous result.
// If the starts are unchanged, startedReplicas returns the pointer before, because the engine also keeps this pointer.
func (e *entry) startedReplicas(before *planner.ReplicaStarts) *planner.ReplicaStarts {
	var all planner.ReplicaStarts
	add := func(pods []*Pod) {
		if s := e.replicaStart(pods); s.Ready > 0 && s.Created > 0 {
			all.Add(s)
		}
	}
	if e.target.Size > 1 {
		for _, pods := range e.podsByReplica() {
			if countPhase(pods, ready) >= e.sizeOf(pods) {
				add(pods)
			}
		}
	} else {
		for _, p := range e.pods {
			if p.phase == ready {
				add([]*Pod{p})
			}
		}
	}
	switch {
	case all.N == 0:
		return nil
	case before != nil && *before == all:
		return before
	}
	return &all
}

// replicaStart returns the start of a replica with one or more pods. The start begins with the creation of the first pod. Each later phase
// ends with the last pod that completes it. The times of the node are taken from the pod that was scheduled last.
func (e *entry) replicaStart(pods []*Pod) (out planner.ReplicaStart) {
	node := ""
	for i, p := range pods {
		s := p.start
		if s == nil {
			return planner.ReplicaStart{}
		}
		if i == 0 {
			out, node = *s, p.pod.Node
			continue
		}
		if s.Scheduled > out.Scheduled {
			node = p.pod.Node
		}
		out.Created = min(out.Created, s.Created)
		out.Scheduled, out.Running, out.Ready = last(out.Scheduled, s.Scheduled), last(out.Running, s.Running), last(out.Ready, s.Ready)
	}
	if e.nodeStarts != nil {
		n := e.nodeStarts(node)
		out.Launched, out.Registered, out.Allocatable = n.Launched, n.Registered, n.Allocatable
	}
	return out
}

// last returns the later of two times, or 0 if one of the two times is unknown.
func last(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// setStarted sets v.Started to the latest completed starts of the ready replicas.
func (e *entry) setStarted(v *engine.View) { v.Started = e.startedReplicas(e.view.Started) }
