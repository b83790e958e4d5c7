package informer_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
)

func ExamplePluralOf() {
	served := &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "nodepools", Kind: "NodePool"},
		{Name: "nodepools/status", Kind: "NodePool"}}}
	fmt.Println(informer.PluralOf(served, "NodePool"))
	// Output: nodepools
}
