package ownership_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// Transfer makes kubectl the owner of the field weight. A restore does this with the original owners in the record annotation of a
// NodePool.
func ExampleFields_Transfer() {
	fields := ownership.Read([]metav1.ManagedFieldsEntry{{
		Manager: ownership.Manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "karpenter.sh/v1",
		FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:weight":{}}}`)},
	}})
	fields.Transfer([]string{"spec", "weight"}, ownership.ParseOwners("kubectl/Update"), "karpenter.sh/v1")
	fmt.Println(fields.Owners("spec", "weight"))
	// Output: [kubectl/Update]
}
