package lint

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// RolloutWaits is the name of the check in the findings that Rollouts returns.
const RolloutWaits = "RolloutNeedsMoreGPUs"

// Rollout describes how a Deployment replaces its pods: how many pods it starts in addition to its replicas (Surge), and how many pods it
// removes before their successors are ready (Unavailable).
type Rollout struct{ Surge, Unavailable int32 }

// Fleet contains the facts about a cluster that Rollouts needs.
type Fleet struct {
	Requests Requests
	// Rollout returns how a workload replaces its pods if it has the given number of replicas. known is false if the rollout settings of the
	// workload were not read, or if workloads of this kind always remove a pod before they create its successor.
	Rollout func(w *scaling.Workload, replicas int32) (r Rollout, known bool)
	// Room returns how much of the group's resource the nodes of the group may have in total. known is false if there is no limit.
	Room func(group *policy.Group) (amount int64, known bool)
}

// Rollouts returns a finding for each workload whose rollout can wait forever. This happens if all GPUs that its capacity group may have
// are in use: the Deployment starts a new pod before it removes an old one, and there is no GPU for the new pod. Rollouts assumes that the
// other workloads of the group run minReplicas.
func Rollouts(policies []*policy.Compiled, platform *policy.Platform, fleet Fleet) (all []Finding) {
	for _, c := range policies {
		w := &c.Workload
		group := platform.Group(w.Group)
		if group == nil {
			continue
		}
		each, known := fleet.Requests(w, group.Resource)
		room, limited := fleet.Room(group)
		if !known || !limited || each <= 0 {
			continue
		}
		others := otherMinimums(policies, c, group, fleet.Requests)
		replicas := (room - others) / each
		if replicas < 1 || replicas > int64(w.Policy.MaxReplicas) {
			continue // the GPUs do not suffice for one replica, or they suffice for maxReplicas and one more pod
		}
		if r, known := fleet.Rollout(w, int32(replicas)); known && r.Surge > 0 && r.Unavailable == 0 {
			all = append(all, waitingRollout(w, group, allUsed{replicas, each, room, others}))
		}
	}
	return all
}

// allUsed describes a state in which no part of a group's resource is free. The field room is the total amount of the resource. The field
// replicas is the number of replicas of the workload, and each is the amount that one replica requests. The field others is the amount that
// the pods of all other workloads request.
type allUsed struct{ replicas, each, room, others int64 }

func waitingRollout(w *scaling.Workload, group *policy.Group, u allUsed) Finding {
	others := ""
	if u.others > 0 {
		others = fmt.Sprintf(", minReplicas of other workloads use %d", u.others)
	}
	return Finding{Severity: Warning, Check: RolloutWaits, About: "ScalingPolicy " + w.Key.String(),
		What: fmt.Sprintf("at %d replicas, %s %s has no room for a rollout: it starts a new pod before it removes an old one, the new pod "+
			"needs %d %s, the replicas use %d%s, and the NodePools of capacity group %s are limited to %d", u.replicas, w.Target.Kind, w.Target.Name,
			u.each, group.Resource, u.replicas*u.each, others, group.Name, u.room),
		Why: "the new pod gets no GPU and no old pod is removed before it is ready, so the rollout waits until the target decreases",
		Fix: fmt.Sprintf("set maxSurge: 0 and maxUnavailable: 1 in spec.strategy.rollingUpdate: 1 of %d replicas (%s of the capacity) is then "+
			"missing while a pod is replaced; or raise the limits of the NodePools to %d", u.replicas,
			scaling.Percent.Format(1/float64(u.replicas)), u.others+(u.replicas+1)*u.each)}
}

// otherMinimums returns how much of a group's resource the minReplicas of the group's other workloads request.
func otherMinimums(policies []*policy.Compiled, of *policy.Compiled, group *policy.Group, requests Requests) (sum int64) {
	for _, c := range policies {
		if w := &c.Workload; c != of && w.Group == group.Name {
			if each, known := requests(w, group.Resource); known {
				sum += int64(w.Policy.MinReplicas) * each
			}
		}
	}
	return sum
}
