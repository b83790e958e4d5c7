// Package policystatus writes into the annotation gpuscaler.io/policy-status of an HPA, a ScaledObject or a ConfigMap whether the policies
// that it carries are accepted, or the line and field of the first error. Events report the same, but the API server deletes them after an
// hour.
//
// The name is policy-status and not status, because the annotation does not describe the HPA or ScaledObject itself. Two settings enable
// the annotation: a chart value and a field of the PlatformConfig. With only the chart value, an upgrade that unsets it would remove
// gpuscaler's permission to remove the annotation from objects.
//
// The annotation is written only for teams with policyStatus: true in the PlatformConfig, and only in the namespaces of the chart value
// policyStatus.namespaces, in which the service account may patch these objects. It is removed when the object no longer has a policy, and
// when the team no longer has policyStatus. `gpuscaler restore` also removes it, by a Remover.
//
// A Writer receives what the informers read, and compares it with the status of the policy store:
//
//   - Its own field manager applies only this annotation. If another field manager owns the annotation, its value stays.
//   - It writes an object at most once a minute, even after a change of the leader, and at most ten objects a second.
//   - It writes nothing while the annotation has the right value, even after a restart.
//   - The informers exclude the annotation from what the policy store reads, so a write causes no new decoding of the policy.
//
// A failed write is repeated with increasing delays. Conflicts with another field manager are reported once for each object, a missing
// permission once for each namespace and kind. An object that was deleted meanwhile is not reported, because there is nothing to do.
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

// resources contains the resource of each kind that can carry a policy.
var resources = map[string]schema.GroupVersionResource{
	"HorizontalPodAutoscaler": {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	"ScaledObject":            {Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"},
	configMapKind:             {Version: "v1", Resource: "configmaps"},
}

// Written is the annotation as an informer read it.
type Written struct {
	Value string
	Ours  bool      // gpuscaler's field manager applied it
	At    time.Time // time at which gpuscaler's field manager last changed it
}

// Read returns the annotation of an object.
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

// Apply sets the annotation of an object by server-side apply, or removes it if text is empty. Because of the UID, the write cannot change
// a later object with the same name and cannot create a deleted object again.
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
