package schedulability_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/schedulability"
)

func ExampleNodePool_Accepts() {
	template := &karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{
			Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeSpot},
		}},
	}}
	spot := schedulability.Of("l40s-spot", template)
	pod := &gpupods.Facts{NodeSelector: map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand}}
	fmt.Println(spot.Accepts(pod) == schedulability.No)
	// Output: true
}
