package cache

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// phase is the state of a pod. countReplicas counts the pods of each state.
type phase uint8

const (
	ended       phase = iota // finished or terminating: not counted
	pending                  // not scheduled to a node
	loading                  // on a node and not Ready: the image is pulled or the model is loaded
	ready                    // Ready
	inCrashLoop              // on a node, but its container restarts repeatedly, so it is not expected to become Ready
)

// Pod contains the fields of a pod that the cache stores. With its labels it takes about 2 KB; a corev1.Pod takes about 11 KB.
type Pod struct {
	metav1.ObjectMeta // only name, namespace, uid, resourceVersion, creationTimestamp and labels
	phase             phase
	pod               engine.Pod
	gpu               *gpupods.Facts        // nil: the pod requests no extended resource and claims no device
	daemon            bool                  // the pod belongs to a DaemonSet or is a static pod
	software          uint64                // hash of the software that the pod runs (see softwareOf)
	blocksDisruption  bool                  // whether the pod has the annotation karpenter.sh/do-not-disrupt
	sizes             map[string]int32      // numbers of pods per replica, by environment variable (see WithSizes)
	start             *planner.ReplicaStart // times of the start of the pod (see startOf); nil if the pod is not Ready
}

// NodeName returns the name of the pod's node. It is empty until the pod is scheduled.
func (p *Pod) NodeName() string { return p.pod.Node }

// Ended reports whether the pod has finished or is terminating.
func (p *Pod) Ended() bool { return p.phase == ended }

// Ready reports whether the pod is Ready.
func (p *Pod) Ready() bool { return p.phase == ready }

// Loading reports whether the pod has a node, is not Ready and is not in a crash loop.
func (p *Pod) Loading() bool { return p.phase == loading }

// Daemon reports whether the pod belongs to a DaemonSet or is a static pod. Such a pod does not prevent the removal of its node.
func (p *Pod) Daemon() bool { return p.daemon }

// BlocksDisruption reports whether an annotation of the pod prevents the disruption of its node.
func (p *Pod) BlocksDisruption() bool { return p.blocksDisruption }

// ReplicaSize returns how many pods the pod's replica has according to an environment variable of the pod. It returns 0 if the variable is
// not set to a number above 0.
func (p *Pod) ReplicaSize(variable string) int32 { return p.sizes[variable] }

// GPU returns the extended resources that the pod requests and the devices that it claims. It is nil if the pod has neither.
func (p *Pod) GPU() *gpupods.Facts { return p.gpu }

// Labels that LeaderWorkerSet sets on each pod of a replica.
const (
	lwsNameLabel   = "leaderworkerset.sigs.k8s.io/name"
	lwsGroupLabel  = "leaderworkerset.sigs.k8s.io/group-index"
	lwsWorkerLabel = "leaderworkerset.sigs.k8s.io/worker-index"
)

// TrimPod is the transform of the pod informer. It converts a *corev1.Pod to a *Pod. An informer can pass an object to its transform twice,
// so TrimPod returns an object of another type unchanged.
func TrimPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod := &Pod{
		ObjectMeta:       informer.Identity(p),
		phase:            phaseOf(p),
		gpu:              gpupods.FactsOf(p),
		daemon:           gpupods.IsDaemon(p),
		blocksDisruption: gpupods.BlocksDisruption(p),
		software:         softwareOf(&p.Spec),
	}
	pod.Labels, pod.CreationTimestamp = p.Labels, p.CreationTimestamp
	pod.pod = engine.Pod{
		Name: p.Name, IP: p.Status.PodIP, Node: p.Spec.NodeName,
		Ready:     pod.phase == ready,
		Leader:    p.Labels[lwsGroupLabel] != "" && p.Labels[lwsWorkerLabel] == "0",
		SharedGPU: gpupods.SharesGPU(&p.Spec),
	}
	if pod.phase == ready {
		pod.start = startOf(p)
	}
	if p.Status.StartTime != nil {
		pod.pod.Started = p.Status.StartTime.Time
	}
	return pod, nil
}

// WithSizes returns the transform of the pod informer for kinds whose pods have an environment variable with the number of pods per
// replica. In addition to TrimPod, the transform stores the value of this variable if it is a whole number above 0.
func WithSizes(kinds []ScaleKind) func(obj any) (any, error) {
	var variables []string
	for _, k := range kinds {
		if k.variable != "" {
			variables = append(variables, k.variable)
		}
	}
	return func(obj any) (any, error) {
		trimmed, err := TrimPod(obj)
		if p, ok := obj.(*corev1.Pod); ok && err == nil {
			trimmed.(*Pod).sizes = sizesOf(p, variables)
		}
		return trimmed, err
	}
}

// sizesOf returns the values of environment variables of a pod. If several containers have the same variable, it returns the largest value.
func sizesOf(p *corev1.Pod, variables []string) (sizes map[string]int32) {
	for _, c := range p.Spec.Containers {
		for _, v := range c.Env {
			if !slices.Contains(variables, v.Name) {
				continue
			}
			n, err := strconv.Atoi(v.Value)
			if err != nil || n < 1 || n > gpupods.MaxGPUs {
				continue
			}
			if sizes == nil {
				sizes = map[string]int32{}
			}
			sizes[v.Name] = max(sizes[v.Name], int32(n))
		}
	}
	return sizes
}

func phaseOf(p *corev1.Pod) phase {
	switch {
	case p.DeletionTimestamp != nil, p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
		return ended
	case p.Spec.NodeName == "":
		return pending
	case isReady(p):
		return ready
	case crashing(p.Status.InitContainerStatuses), crashing(p.Status.ContainerStatuses):
		return inCrashLoop
	}
	return loading
}

func isReady(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// backoffReset is how long a container must run before the kubelet resets its restart back-off (the delay before the next restart).
const backoffReset = 10 * time.Minute

// crashing reports whether a container of the pod is in a crash loop. Either the container waits in CrashLoopBackOff, or it is not ready
// after at least two restarts and its last run failed in less than backoffReset. A single restart is not a crash loop: a model server that
// failed once because a volume was not ready usually starts the second time.
func crashing(statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		s := &statuses[i]
		if s.Ready {
			continue
		}
		if w := s.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
			return true
		}
		last := s.LastTerminationState.Terminated
		if s.RestartCount >= 2 && last != nil && last.ExitCode != 0 &&
			last.FinishedAt.Sub(last.StartedAt.Time) < backoffReset {
			return true
		}
	}
	return false
}
