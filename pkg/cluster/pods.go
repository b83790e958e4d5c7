package cluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// phase is where a pod stands on its way to serving.
type phase uint8

const (
	podGone    phase = iota // finished or terminating: counts nowhere
	podPending              // no node yet
	podLoading              // on a node, not Ready: image pull, model load
	podReady
	podCrashing // on a node, dies again and again: it will not serve by being waited for
)

// podFacts is all that is kept of a pod, about 600 bytes where a corev1.Pod takes several KiB.
type podFacts struct {
	metav1.ObjectMeta // name, namespace, uid, resourceVersion, labels
	phase             phase
	pod               engine.Pod
	gpus              int32
	group, worker     string         // LeaderWorkerSet: index of the replica, index within it
	gpuPod            *gpupods.Facts // what nodes are decided by; nil where it asks for no extended resource and claims no device
	daemon            bool           // of a DaemonSet, or the kubelet's own: no reason to keep a node
	undisrupted       bool           // karpenter.sh/do-not-disrupt
}

// Labels that LeaderWorkerSet puts on each pod of a replica.
const (
	lwsName   = "leaderworkerset.sigs.k8s.io/name"
	lwsGroup  = "leaderworkerset.sigs.k8s.io/group-index"
	lwsWorker = "leaderworkerset.sigs.k8s.io/worker-index"
)

// trimPod is the transform of the pod informer. It is idempotent, as the informer may hand back its own.
func trimPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	f := &podFacts{
		ObjectMeta: identity(&p.ObjectMeta),
		phase:      phaseOf(p),
		gpus:       gpupods.GPUs(&p.Spec),
		group:      p.Labels[lwsGroup],
		worker:     p.Labels[lwsWorker],
	}
	f.gpuPod, f.daemon = gpupods.FactsOf(p), gpupods.IsDaemon(p)
	f.undisrupted = gpupods.BlocksDisruption(p)
	f.Labels = p.Labels
	f.pod = engine.Pod{
		Name: p.Name, IP: p.Status.PodIP, Node: p.Spec.NodeName,
		Ready:  f.phase == podReady,
		Leader: f.group != "" && f.worker == "0",
	}
	f.pod.SharedGPU = gpupods.SharesGPU(&p.Spec)
	if p.Status.StartTime != nil {
		f.pod.Started = p.Status.StartTime.Time
	}
	return f, nil
}

// identity keeps what an informer's store needs to know of an object.
func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion}
}

func phaseOf(p *corev1.Pod) phase {
	switch {
	case p.DeletionTimestamp != nil, p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
		return podGone
	case p.Spec.NodeName == "":
		return podPending
	case isReady(p):
		return podReady
	case crashing(p.Status.InitContainerStatuses), crashing(p.Status.ContainerStatuses):
		return podCrashing
	}
	return podLoading
}

func isReady(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// crashLoopForgiven is the run after which kubelet itself resets a container's back-off.
const crashLoopForgiven = 10 * time.Minute

// crashing reports a crash loop, also in the seconds between two back-offs in which the container looks alive. One restart
// proves nothing: a model server that lost its first race for a volume starts well the second time.
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
			last.FinishedAt.Sub(last.StartedAt.Time) < crashLoopForgiven {
			return true
		}
	}
	return false
}
