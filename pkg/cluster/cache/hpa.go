package cache

import (
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/manual"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/policystatus"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Kinds of the objects that scale a scale target.
const (
	HPAKind          = "HorizontalPodAutoscaler"
	ScaledObjectKind = "ScaledObject"
)

// HPA contains the fields of a HorizontalPodAutoscaler that the cache stores.
type HPA struct {
	metav1.ObjectMeta
	Target       Ref
	ScaledObject string // name of the ScaledObject for which KEDA created the HPA; empty: KEDA did not create the HPA
	PolicyStatus policystatus.Written

	scaleTargetRef scaling.Target
	min, max       int32
	desired        int32
	inactive       string // why the HPA does not scale, from its condition ScalingActive; empty: it scales
	readsTarget    bool   // whether one of its metrics is gpuscaler's metric
	composite      bool   // whether it reads the result of a ScaledObject's scalingModifiers, whose formula can use gpuscaler's metric
	policy         string // the policy that its metric selects; empty if KEDA created the HPA
	operator       manual.Operator
	// annotations contains the annotations with gpuscaler's prefix. It is nil if KEDA created the HPA, because KEDA copies the annotations
	// from the ScaledObject.
	annotations map[string]string
	spec        *autoscalingv2.HorizontalPodAutoscalerSpec
}

// TrimHPA is the transform of the HPA informer. It returns an *HPA.
func TrimHPA(obj any) (any, error) {
	object, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return obj, nil
	}
	t := object.Spec.ScaleTargetRef
	h := &HPA{
		ObjectMeta:     informer.Identity(object),
		Target:         RefOf(object.Namespace, t.APIVersion, t.Kind, t.Name),
		scaleTargetRef: scaling.Target{APIVersion: t.APIVersion, Kind: t.Kind, Name: t.Name},
		min:            1, max: object.Spec.MaxReplicas,
		desired:  object.Status.DesiredReplicas,
		inactive: inactiveReason(object),
	}
	if object.Spec.MinReplicas != nil {
		h.min = *object.Spec.MinReplicas
	}
	for _, o := range object.OwnerReferences {
		if o.Kind == ScaledObjectKind && strings.HasPrefix(o.APIVersion, "keda.sh/") {
			h.ScaledObject = o.Name
		}
	}
	h.policy, h.readsTarget = objects.ReadsTarget(&object.Spec)
	h.composite = h.ScaledObject != "" && objects.ReadsComposite(&object.Spec)
	if h.readsTarget || h.composite {
		spec := object.Spec // a copy: a pointer into the object would keep the status and metadata of the object in memory
		h.spec = &spec
	}
	if h.ScaledObject == "" {
		h.operator = manual.ReadOperator(object.Annotations, object.ManagedFields)
		h.annotations = ownAnnotations(object.Annotations)
		h.PolicyStatus = policystatus.Read(object)
	}
	return h, nil
}

// Reference returns the object reference that an Event about the HPA contains.
func (h *HPA) Reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "autoscaling/v2", Kind: HPAKind, Namespace: h.Namespace, Name: h.Name, UID: h.UID}
}

// Object returns the HPA with its metadata and spec. It is called only for an HPA that reads gpuscaler's metric.
func (h *HPA) Object() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta, Spec: *h.spec}
}

// PolicyObject returns the HPA in the form from which the policy store reads policies in annotations. ok is false for an HPA that KEDA
// created for a ScaledObject, because KEDA copies its annotations from the ScaledObject.
func (h *HPA) PolicyObject() (o store.Object, ok bool) {
	return store.Object{
		Kind: HPAKind, Namespace: h.Namespace, Name: h.Name, Target: h.scaleTargetRef, Annotations: h.annotations,
		MinReplicas: h.min, MaxReplicas: h.max,
	}, h.ScaledObject == ""
}

// inactiveReason returns why an HPA does not scale, for example because it cannot read its metric. For an HPA with minReplicas 1 or more at
// zero replicas it returns "", because such an HPA is always inactive at zero replicas. An HPA with minReplicas 0 is inactive at zero
// replicas only if another client scaled the workload to zero.
func inactiveReason(h *autoscalingv2.HorizontalPodAutoscaler) string {
	for _, c := range h.Status.Conditions {
		switch {
		case c.Type != autoscalingv2.ScalingActive || c.Status != corev1.ConditionFalse:
		case c.Reason != "ScalingDisabled":
			return "it holds: " + c.Reason
		case h.Spec.MinReplicas != nil && *h.Spec.MinReplicas == 0:
			t := h.Spec.ScaleTargetRef
			return fmt.Sprintf("it is disabled, because another client scaled %s %s to 0 replicas; "+
				"to enable it: kubectl -n %s scale %s %s --replicas=1", t.Kind, t.Name, h.Namespace, strings.ToLower(t.Kind), t.Name)
		}
	}
	return ""
}

// ownAnnotations returns the annotations with gpuscaler's prefix, or nil if the object has no such annotation. It excludes the annotation
// gpuscaler.io/policy-status, which gpuscaler writes: this write must not look like an edit of a policy.
func ownAnnotations(all map[string]string) map[string]string {
	var own map[string]string
	for k, v := range all {
		if strings.HasPrefix(k, annotations.Prefix) && k != annotations.PolicyStatus {
			if own == nil {
				own = map[string]string{}
			}
			own[k] = v
		}
	}
	return own
}

// seconds returns a duration of n seconds.
func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
