package gpupods

import corev1 "k8s.io/api/core/v1"

// ClaimRef names a ResourceClaim or a ResourceClaimTemplate in the namespace of the pod that refers to it.
type ClaimRef struct {
	Name     string
	Template bool // a ResourceClaimTemplate
}

// ClaimRefs returns the ResourceClaims and ResourceClaimTemplates to which a pod or a pod template refers.
func ClaimRefs(spec *corev1.PodSpec) (all []ClaimRef) {
	for i := range spec.ResourceClaims {
		c := &spec.ResourceClaims[i]
		switch {
		case c.ResourceClaimTemplateName != nil:
			all = append(all, ClaimRef{Name: *c.ResourceClaimTemplateName, Template: true})
		case c.ResourceClaimName != nil:
			all = append(all, ClaimRef{Name: *c.ResourceClaimName})
		}
	}
	return all
}
