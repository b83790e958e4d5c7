// Package informer builds informers. It provides an event handler for typed objects, the metadata that the store of an informer needs, and
// informers of kinds whose CRD can be installed or removed while the controller runs.
package informer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Handler returns an event handler for an informer whose transform returns *T. It calls put for new and changed objects. The argument old
// of put is the previous version of the object, or nil for a new object. Handler calls drop for deleted objects and ignores objects of
// other types.
func Handler[T any](put func(old, object *T), drop func(object *T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if object, ok := obj.(*T); ok {
				put(nil, object)
			}
		},
		UpdateFunc: func(before, obj any) {
			old, _ := before.(*T)
			if object, ok := obj.(*T); ok {
				put(old, object)
			}
		},
		DeleteFunc: func(obj any) {
			if final, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = final.Obj
			}
			if object, ok := obj.(*T); ok {
				drop(object)
			}
		},
	}
}

// Identity returns the fields of an object's metadata that the store of an informer needs.
func Identity(m metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion()}
}

// CRD is a kind whose CustomResourceDefinition may be installed or removed while the controller runs.
type CRD interface {
	// Synced returns a function that reports whether the handler has received the first list of the kind. It returns nil while the API server
	// does not serve the kind.
	Synced() cache.InformerSynced
}
