package gpupods

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestClaimRefsOfAPod(t *testing.T) {
	const prefix = "deviceclass.resource.kubernetes.io/"
	template, shared, generated := "gpus", "shared", "chat-1-gpus-abcde"
	p := &corev1.Pod{
		Spec: corev1.PodSpec{
			ResourceClaims: []corev1.PodResourceClaim{
				{Name: "own", ResourceClaimTemplateName: &template}, {Name: "common", ResourceClaimName: &shared}, {Name: "of a later version"},
			},
			Containers: []corev1.Container{
				container(prefix+"gpu.nvidia.com", "2"), container(prefix+"gpu.nvidia.com", "1"),
				container(prefix+"rdma", "9223372036854775807"), container(prefix+"none", "-1"),
			},
		},
		Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "own", ResourceClaimName: &generated}}},
	}
	want := []ClaimRef{{Name: generated, Template: template}, {Name: shared}, {},
		{Class: "gpu.nvidia.com", Devices: 3}, {Class: "rdma", Devices: MaxGPUs}}
	facts := FactsOf(p)
	if facts == nil || !slices.Equal(facts.Claims, want) || len(facts.Extended) != 0 {
		t.Errorf("facts %+v, want the claims %+v", facts, want)
	}
	if got := ClaimRefs(&p.Spec)[0]; got != (ClaimRef{Template: template}) {
		t.Errorf("pod template: %+v", got)
	}
}
