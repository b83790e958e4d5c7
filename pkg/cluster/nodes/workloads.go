package nodes

import (
	"cmp"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Workloads is the cache of scale targets and pods. Every method except RLock and RUnlock must be called between RLock and RUnlock, and
// its result may be used only until RUnlock.
type Workloads interface {
	RLock()
	RUnlock()
	// Version returns a number that changes with each change of a scale target or a pod.
	Version() uint64
	// NodeTarget returns the scale target of a workload. ok is false if it does not exist.
	NodeTarget(w *scaling.Workload) (t Target, ok bool)
	// TargetPods returns the pods of the scale target of a workload. The pods of one replica are adjacent in the list.
	TargetPods(w *scaling.Workload) []Pod
	// GPUPods returns all pods that request an extended resource or claim devices.
	GPUPods() iter.Seq[Pod]
	// AllPods returns all pods, with and without GPUs.
	AllPods() iter.Seq[Pod]
}

// Target contains the fields of a scale target that the observation of a group needs.
type Target struct {
	APIVersion   string
	UID          types.UID
	Replicas     int32            // spec.replicas
	Size         int32            // pods of one replica
	SizeVariable string           // environment variable of the pods that contains Size; empty: all replicas have the same Size
	ReplicaLabel string           // key of the pod label that identifies the replica; empty if a replica has one pod
	Extended     []gpupods.Amount // extended resources of one replica
	PerPod       []gpupods.Amount // extended resources of the largest pod; empty if a replica has one pod
	Claims       []gpupods.ClaimRef
	LimitsOnly   bool // whether the pod template has a limit of an extended resource and no request
	Quota        bool // whether the API server rejects pods, for example because of a ResourceQuota or a LimitRange
}

// Pod is a pod in the cache. Two Pod values are equal only if they are the same version of the same pod, so a Pod can be a map key.
type Pod interface {
	metav1.Object
	// NodeName returns the name of the pod's node, or "" if the pod is not scheduled.
	NodeName() string
	// Ended reports whether the pod has finished or is terminating.
	Ended() bool
	Ready() bool
	// Loading reports whether the pod has a node, is not ready and does not crash repeatedly.
	Loading() bool
	// Daemon reports whether the pod belongs to a DaemonSet or is a static pod.
	Daemon() bool
	// BlocksDisruption reports whether an annotation of the pod prevents the disruption of its node.
	BlocksDisruption() bool
	// ReplicaSize returns how many pods the pod's replica has according to an environment variable of the pod, or 0 if the pod does not have
	// the variable.
	ReplicaSize(variable string) int32
	// GPU returns the extended resources and devices that the pod requests, or nil if it requests no extended resource and claims no
	// device.
	GPU() *gpupods.Facts
}

// podList is the result of sortedPods for a version of the workloads.
type podList struct {
	known   bool
	version uint64
	pods    []Pod
}

// sortedPods returns the GPU pods, except pods of DaemonSets and static pods, sorted by byName. All groups use the same list, so that the
// pods of the cluster are sorted only once after each change. The caller holds the lock of the workloads.
func (n *Cache) sortedPods() []Pod {
	if version := n.options.Workloads.Version(); !n.sorted.known || n.sorted.version != version {
		n.sorted = podList{known: true, version: version, pods: n.sorted.pods[:0]}
		for p := range n.options.Workloads.GPUPods() {
			if !p.Daemon() {
				n.sorted.pods = append(n.sorted.pods, p)
			}
		}
		slices.SortFunc(n.sorted.pods, byName)
	}
	return n.sorted.pods
}

// byName compares two pods by namespace and name. The cache returns pods in random order, but actions and observations need a fixed order.
func byName(a, b Pod) int {
	return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}
