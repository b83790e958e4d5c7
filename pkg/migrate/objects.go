package migrate

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Importable contains the kinds that import reads, in the order in which they are looked up. ScaledObjects are first, because KEDA creates
// an HPA for each ScaledObject, and this HPA can have the same name as the ScaledObject.
var Importable = []schema.GroupVersionResource{
	{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"},
	{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
}

// MadeByKEDA reports whether KEDA created the HPA for a ScaledObject. Such an HPA is not imported.
func MadeByKEDA(u *unstructured.Unstructured) bool {
	for _, o := range u.GetOwnerReferences() {
		if o.Kind == "ScaledObject" {
			return true
		}
	}
	return false
}
