package gpupods_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

func ExampleGPUs() {
	gpus := corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}}
	fmt.Println(gpupods.GPUs(&corev1.PodSpec{Containers: []corev1.Container{{Resources: gpus}, {Resources: gpus}}}))
	// Output: 8
}
