package gpupods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// ClaimRef is one source from which a pod gets devices by dynamic resource allocation (DRA). If no field is set, the pod uses a form of
// reference that this version of gpuscaler does not support.
type ClaimRef struct {
	Name     string // name of a ResourceClaim in the namespace of the pod; if Template is also set, the claim was generated from this template
	Template string // name of a ResourceClaimTemplate in the namespace of the pod
	Class    string // name of a DeviceClass, if the pod requests its devices by a resource name and without a claim
	Devices  int64  // number of devices of Class
}

// ClaimCount is how many devices the claims of a pod or of a replica reserve, counted as units of one resource. A device is one result of
// an allocation: a whole GPU, or a partition of a GPU such as a MIG instance.
type ClaimCount struct {
	Devices int64
	// Claimed is true if at least one claim requests devices of the resource. Devices can be 0 although Claimed is true, because a claim that
	// several pods share counts only for the first of these pods.
	Claimed bool
	// Unknown is true if a claim may request GPUs that Devices does not include.
	Unknown bool
}

// Counted is the set of claims that were already counted, by namespace and name, because several pods can share a claim.
type Counted map[[2]string]bool

// ClassOf returns the DeviceClass in a resource name such as deviceclass.resource.kubernetes.io/gpu.nvidia.com. It returns "" for every
// other resource name. Kubernetes defines this form for pods that request devices without a ResourceClaim.
func ClassOf(resource string) string {
	class, found := strings.CutPrefix(resource, resourcev1.ResourceDeviceClassPrefix)
	if !found {
		return ""
	}
	return class
}

// ClaimRefs returns the sources from which a pod, or the pods of a template, get devices.
func ClaimRefs(spec *corev1.PodSpec) (all []ClaimRef) {
	for i := range spec.ResourceClaims {
		ref, c := ClaimRef{}, &spec.ResourceClaims[i]
		switch {
		case c.ResourceClaimTemplateName != nil:
			ref.Template = *c.ResourceClaimTemplateName
		case c.ResourceClaimName != nil:
			ref.Name = *c.ResourceClaimName
		}
		all = append(all, ref)
	}
	return append(all, classRefs(spec)...)
}

// podClaimRefs returns the sources from which a pod gets devices. For a claim that was generated from a template, it returns the name of
// the claim, because the claim contains the allocated devices and still exists after the template is deleted.
func podClaimRefs(p *corev1.Pod) []ClaimRef {
	all := ClaimRefs(&p.Spec)
	for i := range p.Spec.ResourceClaims {
		for j := range p.Status.ResourceClaimStatuses {
			s := &p.Status.ResourceClaimStatuses[j]
			if s.Name == p.Spec.ResourceClaims[i].Name && s.ResourceClaimName != nil {
				all[i].Name = *s.ResourceClaimName
			}
		}
	}
	return all
}

// classRefs returns the devices that containers request by the resource name of a DeviceClass.
func classRefs(spec *corev1.PodSpec) (all []ClaimRef) {
	seen := map[corev1.ResourceName]bool{}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, list := range []corev1.ResourceList{containers[i].Resources.Limits, containers[i].Resources.Requests} {
				for name := range list {
					class := ClassOf(string(name))
					if class == "" || seen[name] {
						continue
					}
					seen[name] = true
					n := reserved(spec, func(other corev1.ResourceName) bool { return other == name })
					if n > 0 {
						all = append(all, ClaimRef{Class: class, Devices: min(n, MaxGPUs)})
					}
				}
			}
		}
	}
	return all
}
