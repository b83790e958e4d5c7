package nodepoolwriter

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

var (
	podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	pods    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// WriteAnnotation sets or removes one annotation of one pod. It does not change an annotation that another manager owns.
func (w *Writer) WriteAnnotation(m capacity.PodAnnotation) {
	if !w.options.Leading() {
		return
	}
	key, manager := gpupods.DeletionCostAnnotation, ownership.DeletionCostManager
	if m.Kind == capacity.DoNotDisrupt {
		key, manager = gpupods.DoNotDisruptAnnotation, ownership.DoNotDisruptManager
	}
	desired := newObject(podKind, m.Namespace, m.Name)
	desired.SetUID(types.UID(m.UID)) // the UID prevents a write to a later pod of the same name
	if m.Value != "" {
		desired.SetAnnotations(map[string]string{key: m.Value})
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	_, err := w.options.Client.Resource(pods).Namespace(m.Namespace).Apply(ctx, m.Name, desired, metav1.ApplyOptions{FieldManager: manager})
	switch {
	case err == nil:
		w.count("pod", "written")
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		w.count("pod", "conflict")
	default:
		w.count("pod", "failed")
		w.options.Log.Warn("the annotation of a pod was not written", "pod", m.Namespace+"/"+m.Name, "annotation", key, "error", err)
	}
}
