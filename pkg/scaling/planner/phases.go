package planner

import (
	"cmp"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// ReplicaStart contains the times of one completed start of a replica, in Unix milliseconds. The times of Kubernetes objects have a
// resolution of one second. 0 means that a time is unknown. Without Karpenter, the times of the node are unknown.
type ReplicaStart struct {
	Created     int64 `json:",omitempty"` // the pod was created
	Launched    int64 `json:",omitempty"` // the cloud provider launched the instance of the node
	Registered  int64 `json:",omitempty"` // the node joined the cluster
	Allocatable int64 `json:",omitempty"` // the node reported its GPUs
	Scheduled   int64 `json:",omitempty"` // the pod was assigned to the node
	Running     int64 `json:",omitempty"` // the last container that uses GPUs started; it has not restarted since then
	Ready       int64 `json:",omitempty"` // the pod became Ready
}

// ReplicaStarts contains the newest completed starts of the replicas of a workload. A value never changes after it was created.
type ReplicaStarts struct {
	N    int8
	List [MaxReplicaStarts]ReplicaStart // the first N entries are used, in the order of ReplicaStart.compare
}

// MaxReplicaStarts is the greatest number of starts that are stored. If more replicas become ready in one tick, the phases of the oldest
// starts are not learned.
const MaxReplicaStarts = 8

// compare orders starts by Ready. Starts with the same Ready are ordered by Created, and then by the other times. The order must be
// complete, so that the result of Add does not depend on the order of its calls.
func (s *ReplicaStart) compare(o *ReplicaStart) int {
	return cmp.Or(cmp.Compare(s.Ready, o.Ready), cmp.Compare(s.Created, o.Created), cmp.Compare(s.Scheduled, o.Scheduled),
		cmp.Compare(s.Running, o.Running), cmp.Compare(s.Launched, o.Launched), cmp.Compare(s.Registered, o.Registered),
		cmp.Compare(s.Allocatable, o.Allocatable))
}

// Add inserts a start. If there is no space, the oldest start is removed.
func (r *ReplicaStarts) Add(s ReplicaStart) {
	at := int(r.N)
	for at > 0 && r.List[at-1].compare(&s) > 0 {
		at--
	}
	if r.N == MaxReplicaStarts {
		if at == 0 {
			return
		}
		at--
		copy(r.List[:at], r.List[1:at+1])
	} else {
		copy(r.List[at+1:r.N+1], r.List[at:r.N])
		r.N++
	}
	r.List[at] = s
}

// newest returns start number i, counted from 0, of the last n starts. ok is false if fewer starts are stored.
func (r *ReplicaStarts) newest(i, n int32) (s *ReplicaStart, ok bool) {
	if r == nil {
		return nil, false
	}
	at := int32(r.N) - n + i
	if at < 0 || at >= int32(r.N) {
		return nil, false
	}
	return &r.List[at], true
}

// resolution is the resolution of the times of Kubernetes objects, in milliseconds.
const resolution = 1000

// phases sets the phases of a cold start that began with the decision at the time decided. It omits unknown phases. If the pod existed long
// before the decision, the pod belongs to another start, so no phase is known.
//
// If the pod was assigned to a node without delay, the node existed before, so the phases of the node are not part of the start. If the
// instance was launched before the pod was created, for example for another pod, only the total wait for the node is known.
//
// The times of objects are rounded down to seconds, so decided is rounded down too. Otherwise the first phase would be too short by up to a
// second, or unknown if the instance was launched in the second of the decision.
func (s *ReplicaStart) phases(decided int64, c *objective.ColdStart) {
	decided -= decided % resolution
	if s.Created < decided-decisionLag {
		return
	}
	if s.Scheduled-s.Created > resolution {
		c.Node = between(decided, s.Scheduled)
		if s.Launched >= s.Created {
			c.Phase[objective.NodeLaunch] = between(decided, s.Launched)
			c.Phase[objective.Registration] = between(s.Launched, s.Registered)
		}
		if s.Registered >= s.Created {
			c.Phase[objective.GPUAllocatable] = between(s.Registered, s.Allocatable)
		}
	}
	c.Phase[objective.ImagePull] = between(s.Scheduled, s.Running)
	c.Phase[objective.ModelLoad] = between(s.Running, s.Ready)
}

// between returns the duration from one time to another. It returns 0 if the duration is unknown, because one of the times is missing or
// because the clocks differ so much that the times are in the wrong order. A duration of less than a second is returned as half a second,
// because it is not zero.
func between(from, to int64) time.Duration {
	if from <= 0 || to <= 0 || to < from {
		return 0
	}
	return milliseconds(max(to-from, resolution/2))
}
