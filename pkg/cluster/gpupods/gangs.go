package gpupods

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

const (
	kueueGroupLabel = "kueue.x-k8s.io/pod-group-name"
	// KueueGroupSize is the annotation with the number of pods of a group that Kueue admits as a whole.
	KueueGroupSize = "kueue.x-k8s.io/pod-group-total-count"
	// volcanoGroup is the annotation with the name of Volcano's PodGroup.
	volcanoGroup = "scheduling.k8s.io/group-name"
)

// gangLabels are the pod labels with the name of a gang (pods that start only together). They are set for Kueue, the coscheduling plugin
// of kube-scheduler, JobSet, the Training Operator (PyTorchJob) and KubeRay. If a pod has several of these labels, the first one in this
// list applies, because a pod that Kueue manages can also have the label of another framework.
var gangLabels = []string{
	kueueGroupLabel, "scheduling.x-k8s.io/pod-group", "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name", "ray.io/cluster",
}

// Gang describes the group of pods with which a pod must start together, from the pod's labels and annotations.
type Gang struct {
	Name    string // unique in a namespace; empty: the pod belongs to no gang
	Size    int64  // number of pods of the gang; 0: unknown
	Invalid string // name of the annotation with the size, if its value is not a number from 1 to MaxGPUs
}

// GangName returns the label with the name of a pod's gang, as KEY=VALUE, or "" if the pod has no such label.
func GangName(labels map[string]string) string {
	for _, label := range gangLabels {
		if name := labels[label]; name != "" {
			return label + "=" + name
		}
	}
	return ""
}

func gangOf(p *corev1.Pod) (g Gang) {
	g.Name = GangName(p.Labels)
	if name := p.Annotations[volcanoGroup]; g.Name == "" && name != "" {
		g.Name = volcanoGroup + "=" + name
	}
	text := p.Annotations[KueueGroupSize]
	if p.Labels[kueueGroupLabel] == "" || text == "" {
		return g
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 1 || size > MaxGPUs {
		g.Invalid = KueueGroupSize
		return g
	}
	g.Size = size
	return g
}

// isHeld reports whether a pod waits for something other than a node, so that Karpenter and Cluster Autoscaler launch no node for it. Both
// autoscalers launch nodes only for pods whose condition PodScheduled has the reason Unschedulable. Volcano sets another reason if a pod
// fits on existing nodes but other pods of its gang do not. A pod that no scheduler has examined yet is not held.
func isHeld(p *corev1.Pod) bool {
	if p.Spec.NodeName != "" {
		return false
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonUnschedulable
		}
	}
	return len(p.Spec.SchedulingGates) > 0
}
