package configmaps_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/configmaps"
)

// Trim returns an object of another kind unchanged.
func ExampleTrim() {
	pod := &corev1.Pod{}
	kept, err := configmaps.Trim(pod)
	fmt.Println(kept == any(pod), err)
	// Output: true <nil>
}
