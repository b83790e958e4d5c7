package explain

// LiftReason is the reason why the NodePools of a group do not have the zero limit.
type LiftReason uint8

// The reasons why a group does not have the zero limit.
const (
	LiftedByDemand        LiftReason = iota // a policy requests units
	LiftedByPendingPod                      // a pod is pending that may need these NodePools
	LiftedByUnknownDemand                   // demand is unknown
	LiftedByKnownDemand                     // known demand starts soon
	LiftedByPods                            // pods still run
	NotLifted                               // there is no demand: the limit becomes 0 after ZeroLimitDelay
)

// Cause is the reason why a group stopped using spot, or why pods get no node.
type Cause uint8

// The causes of a fallback, or of pods without a node.
const (
	CauseNone            Cause = iota
	CauseRefused               // launches failed for lack of capacity
	CauseLost                  // the provider took nodes
	CauseSpotWaitTimeout       // pods waited longer than the spot wait timeout
	CauseLimit                 // the NodePool is at its limit
	CauseNotReady              // the NodePool is not ready or does not exist
	CauseQuota                 // the API server rejects the pods, for example because of a ResourceQuota or a LimitRange
	CauseProbe                 // a probe failed
	CauseReservation           // the capacity reservation of the NodePool has no free instance
	CauseFleet                 // the group may have no more nodes: maxNodes or maxCapacity is reached, or neither is set
	CauseNoNewNode             // pods wait, and the autoscaler of the cluster adds no node
	CauseDrifted               // the node differs from its NodePool or NodeClass
	CauseDisrupted             // Karpenter has chosen the node for another voluntary disruption
	CauseInfeasible            // no node that the autoscaler may add has space for a replica, as a CapacityBuffer reports
)

// StaticReplicas is used instead of a resource in a CauseLimit if spec.replicas of a static NodePool is the limit.
const StaticReplicas = "spec.replicas"

// text returns the cause as a clause about NodePools. The parameter p is the phrase that names these NodePools. The parameter resource is
// the resource of a limit, or "" if the resource is unknown.
func (c Cause) text(p phrase, resource string) string {
	switch c {
	case CauseRefused:
		return "launches in " + p.text + " failed for lack of capacity"
	case CauseLost:
		return "the provider took nodes of " + p.text
	case CauseSpotWaitTimeout:
		return "pods waited for " + p.text + " longer than spotWaitTimeout"
	case CauseLimit:
		if resource == StaticReplicas && !p.several {
			return p.text + " has all nodes of its spec.replicas"
		}
		if resource != "" && !p.several {
			return p.text + " has reached limits[" + resource + "]"
		}
		return p.text + p.verb(" has reached its limits", " have reached their limits")
	case CauseNotReady:
		return p.text + p.verb(" is not ready", " are not ready")
	case CauseReservation:
		return "the reservation of " + p.text + " has no free instance: pods wait, and Karpenter launches no node there"
	case CauseProbe:
		return "the probe of " + p.text + " failed"
	}
	return "the cause is unknown"
}

// text returns the reason why the limit is not 0, as a clause.
func (l LiftReason) text(resource string) string {
	switch l {
	case LiftedByDemand:
		return "a policy requests " + resource
	case LiftedByPendingPod:
		return "a pod that may need " + resource + " is pending"
	case LiftedByUnknownDemand:
		return "the demand for " + resource + " is unknown"
	case LiftedByKnownDemand:
		return "known demand for " + resource + " starts soon"
	case LiftedByPods:
		return "pods that request " + resource + " run"
	}
	return "no pod or policy requests " + resource
}
