// Package policystatus writes the annotation gpuscaler.io/policy-status of the HPAs, ScaledObjects and ConfigMaps that contain policies (in
// this package: carriers). The annotation says whether the policies are accepted, or contains the line and field of the first error. Events
// report the same, but the API server deletes Events after an hour.
//
// The name is policy-status instead of status, because the annotation does not describe the HPA or ScaledObject itself. Two settings enable
// the annotation: a chart value and a field of the PlatformConfig. If the chart value were the only setting, an upgrade that unsets the
// value would also remove gpuscaler's permission to remove the annotation from objects.
//
// The annotation is written only for teams with policyStatus: true in the PlatformConfig, and only in the namespaces of the chart value
// policyStatus.namespaces, in which the service account may patch the objects. The annotation is removed when the object no longer has a
// policy, and when policyStatus is removed from the team. `gpuscaler restore` also removes it, by a Remover.
//
// A Writer receives the objects that the informers read, and compares their annotation with the status in the policy store:
//
//   - The Writer uses a separate field manager that applies only this annotation. If another field manager owns the annotation, its value
//     stays.
//   - It writes an object at most once a minute, even after a change of the leader, and at most ten objects a second.
//   - It writes nothing while the annotation has the correct value, even after a restart.
//   - The informers remove the annotation before they pass an object to the policy store, so a write does not cause the policy to be
//     decoded again.
//
// A failed write is repeated with increasing delays. A conflict with another field manager is reported once for each object, and a missing
// permission once for each namespace and kind. If the object was deleted in the meantime, nothing is reported.
package policystatus

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

const configMapKind = "ConfigMap"

// resources contains the resource of each kind whose objects can contain a policy.
var resources = map[string]schema.GroupVersionResource{
	"HorizontalPodAutoscaler": {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	"ScaledObject":            {Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"},
	configMapKind:             {Version: "v1", Resource: "configmaps"},
}

// Written is the annotation policy-status of an object, as an informer read it.
type Written struct {
	Value string
	Ours  bool      // whether gpuscaler's field manager applied the annotation
	At    time.Time // time at which gpuscaler's field manager last changed it
}

// Read returns the annotation policy-status of an object.
func Read(o metav1.Object) (w Written) {
	w.Value = o.GetAnnotations()[annotations.PolicyStatus]
	managed := o.GetManagedFields()
	for i := range managed {
		if m := &managed[i]; m.Manager == ownership.PolicyStatusManager {
			w.Ours = true
			if m.Time != nil {
				w.At = m.Time.Time
			}
		}
	}
	return w
}

// Apply sets the annotation policy-status of an object by server-side apply, or removes it if text is empty. The request contains the UID,
// so it can neither change a later object of the same name nor create a deleted object again.
func Apply(ctx context.Context, client dynamic.Interface, about corev1.ObjectReference, text string) error {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(about.APIVersion)
	u.SetKind(about.Kind)
	u.SetNamespace(about.Namespace)
	u.SetName(about.Name)
	u.SetUID(about.UID)
	if text != "" {
		u.SetAnnotations(map[string]string{annotations.PolicyStatus: text})
	}
	_, err := client.Resource(resources[about.Kind]).Namespace(about.Namespace).Apply(ctx, about.Name, u,
		metav1.ApplyOptions{FieldManager: ownership.PolicyStatusManager})
	return err
}
