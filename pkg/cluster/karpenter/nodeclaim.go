package karpenter

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// NodeClaim contains the data of a NodeClaim that the informer stores. The whole object would take 24 KB of memory.
type NodeClaim struct {
	metav1.ObjectMeta           // name, UID, resourceVersion and labels only
	NodePool, Node    string    // Node is empty until the node registers
	Created, Deleted  time.Time // Deleted is the deletion timestamp; zero: the NodeClaim is not being deleted
	ExpireAfter       time.Duration
	Launched          bool // whether the cloud provider has launched an instance
	Initialized       bool
	Voluntary         bool // whether Karpenter itself decided to remove the node, so that it has set a disruption reason
	Drifted           bool // whether the node differs from its NodePool or NodeClass
	InstanceType      string
	CapacityType      string
	Zone, Region      string
	Extended          map[string]int64   // extended resources in status.capacity; the requested ones until status.capacity is set
	Capacity          map[string]float64 // all resources in status.capacity, which count against the limits of the NodePool
	Start             StartTimes
	Err               error // why the NodeClaim could not be decoded; only its metadata is set in this case
}

// StartTimes are the times at which the phases of a node's start ended, from the conditions of its NodeClaim. A time is zero if the phase
// has not ended.
type StartTimes struct {
	Launched    time.Time // the cloud provider launched the instance
	Registered  time.Time // the node joined the cluster
	Initialized time.Time // the node is Ready and has reported all requested resources, such as GPUs
}

// TrimNodeClaim is the transform of the NodeClaim informer.
func TrimNodeClaim(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return DecodeNodeClaim(u), nil
	}
	return obj, nil
}

// DecodeNodeClaim decodes a NodeClaim. If it cannot be decoded, the result has only its metadata and Err.
func DecodeNodeClaim(u *unstructured.Unstructured) *NodeClaim {
	labels := u.GetLabels()
	c := &NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Labels: labels},
		NodePool:   labels[karpv1.NodePoolLabelKey], CapacityType: labels[karpv1.CapacityTypeLabelKey],
		InstanceType: labels[corev1.LabelInstanceTypeStable], Zone: labels[corev1.LabelTopologyZone], Region: labels[corev1.LabelTopologyRegion],
		Created: u.GetCreationTimestamp().Time, Extended: map[string]int64{}, Capacity: map[string]float64{},
	}
	if t := u.GetDeletionTimestamp(); t != nil {
		c.Deleted = t.Time
	}
	typed, err := decodeTyped[karpv1.NodeClaim](u)
	if c.Err = err; err == nil {
		c.read(typed)
	}
	return c
}

func (c *NodeClaim) read(typed *karpv1.NodeClaim) {
	since := func(kind string) (at time.Time, is bool) {
		for i := range typed.Status.Conditions {
			if c := &typed.Status.Conditions[i]; c.Type == kind && c.Status == metav1.ConditionTrue {
				return c.LastTransitionTime.Time, true
			}
		}
		return at, false
	}
	is := func(kind string) bool { _, is := since(kind); return is }
	c.Node = typed.Status.NodeName
	c.Launched = typed.Status.ProviderID != "" || is(karpv1.ConditionTypeLaunched)
	c.Initialized, c.Voluntary = is(karpv1.ConditionTypeInitialized), is(karpv1.ConditionTypeDisruptionReason)
	c.Start.Launched, _ = since(karpv1.ConditionTypeLaunched)
	c.Start.Registered, _ = since(karpv1.ConditionTypeRegistered)
	c.Start.Initialized, _ = since(karpv1.ConditionTypeInitialized)
	c.Drifted = is(karpv1.ConditionTypeDrifted)
	if typed.Spec.ExpireAfter.Duration != nil {
		c.ExpireAfter = *typed.Spec.ExpireAfter.Duration
	}
	// read the spec before the status, so that values of the status replace values of the spec
	for _, list := range []corev1.ResourceList{typed.Spec.Resources.Requests, typed.Status.Capacity} {
		for name, q := range list {
			if gpupods.IsExtended(name) {
				c.Extended[string(name)] = max(q.Value(), 0)
			}
		}
	}
	for name, q := range typed.Status.Capacity {
		c.Capacity[string(name)] = fraction(&q)
	}
}

// ExpiresBy reports whether the NodeClaim reaches its spec.expireAfter before or up to a minute after the given time. Karpenter sets no
// disruption reason when it deletes an expired NodeClaim. Such a deletion must not count as a lost node.
func (c *NodeClaim) ExpiresBy(at time.Time) bool {
	return c.ExpireAfter > 0 && at.Sub(c.Created) >= c.ExpireAfter-time.Minute
}

// Stage returns how far the launch of the node has progressed.
func (c *NodeClaim) Stage() capacity.Stage {
	switch {
	case c.Initialized:
		return capacity.Usable
	case c.Launched:
		return capacity.Launched
	}
	return capacity.Requested
}

// Offer returns the instance type, capacity type and location of the node, and how the NodeOverlays of the cluster change its price.
func (c *NodeClaim) Offer(overlays []*NodeOverlay) cost.Offer {
	return cost.Offer{InstanceType: c.InstanceType, CapacityType: c.CapacityType, Zone: c.Zone, Region: c.Region,
		PriceChange: PriceChange(overlays, c.Labels)}
}

// NodePoolOfClaimName returns the NodePool that a NodeClaim's name, "<NodePool>-<random>", contains. It is used for an Event about a
// NodeClaim that is not in the cache.
func NodePoolOfClaimName(name string) string {
	i := strings.LastIndexByte(name, '-')
	return name[:max(i, 0)]
}
