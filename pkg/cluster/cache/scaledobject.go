package cache

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/informer"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/manual"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/policystatus"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// ScaledObjects is the kind of KEDA's ScaledObjects.
var ScaledObjects = kedav1alpha1.GroupVersion.WithKind(ScaledObjectKind)

// Defaults of KEDA for a ScaledObject.
const (
	kedaMinReplicas = 0
	kedaMaxReplicas = 100
)

// kedaNameLabel is the label by which KEDA's metrics server selects the ScaledObject whose metric is read.
const kedaNameLabel = "scaledobject.keda.sh/name"

// ScaledObject contains the fields of a ScaledObject that the cache stores.
type ScaledObject struct {
	metav1.ObjectMeta
	Target Ref
	Manage manual.ManageKEDA
	Checks objects.ScaledObjectFacts

	PolicyStatus policystatus.Written

	scaleTargetRef scaling.Target
	min, max       int32
	pause          manual.KEDAPause
	operator       manual.Operator
	annotations    map[string]string // annotations with gpuscaler's prefix
	metadata       map[string]string // metadata of the trigger for gpuscaler; nil if the ScaledObject has no such trigger
	triggers       []string          // names of all triggers
	// metrics contains the name of the external metric that KEDA serves for each named trigger. The name is "" if it cannot be determined.
	metrics map[string]string
	invalid string // why the object cannot be decoded; empty: it was decoded
}

// TrimScaledObject is the transform of the ScaledObject informer. It returns a *ScaledObject. It keeps an object that cannot be decoded,
// with its scale target: KEDA may scale this target, so gpuscaler must not write the target's /scale.
func TrimScaledObject(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	o, err := DecodeScaledObject(u)
	set, managed := u.GetAnnotations(), u.GetManagedFields()
	s := &ScaledObject{
		ObjectMeta:  informer.Identity(u),
		min:         kedaMinReplicas,
		max:         kedaMaxReplicas,
		pause:       manual.ReadKEDAPause(set, managed),
		Manage:      manual.ReadManageKEDA(set, managed),
		operator:    manual.ReadOperator(set, managed),
		annotations: ownAnnotations(set),
		metrics:     triggerMetrics(o),

		PolicyStatus: policystatus.Read(u),
	}
	if err != nil {
		s.invalid = err.Error()
	}
	ref := o.Spec.ScaleTargetRef
	if ref == nil {
		ref = &kedav1alpha1.ScaleTarget{}
	}
	s.Target = RefOf(s.Namespace, ref.APIVersion, ref.Kind, ref.Name)
	s.scaleTargetRef = scaleTargetWithDefaults(ref)
	if n := o.Spec.MinReplicaCount; n != nil {
		s.min = clampReplicas(*n)
	}
	if n := o.Spec.MaxReplicaCount; n != nil {
		s.max = clampReplicas(*n)
	}
	s.readTriggers(o)
	return s, nil
}

// DecodeScaledObject converts a ScaledObject to KEDA's type. If the conversion fails, it returns the error and an object with only the
// scale target.
func DecodeScaledObject(u *unstructured.Unstructured) (*kedav1alpha1.ScaledObject, error) {
	o := &kedav1alpha1.ScaledObject{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o)
	if err == nil {
		return o, nil
	}
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", field)
		return value
	}
	target := &kedav1alpha1.ScaleTarget{APIVersion: text("apiVersion"), Kind: text("kind"), Name: text("name")}
	return &kedav1alpha1.ScaledObject{Spec: kedav1alpha1.ScaledObjectSpec{ScaleTargetRef: target}},
		fmt.Errorf("decode ScaledObject %s/%s: %w", u.GetNamespace(), u.GetName(), err)
}

// scaleTargetWithDefaults returns a scale target with KEDA's defaults: a Deployment of apps/v1.
func scaleTargetWithDefaults(t *kedav1alpha1.ScaleTarget) scaling.Target {
	target := scaling.Target{APIVersion: t.APIVersion, Kind: t.Kind, Name: t.Name}
	if target.Kind == "" {
		target.Kind = "Deployment"
	}
	if target.APIVersion == "" {
		target.APIVersion = "apps/v1"
	}
	return target
}

func clampReplicas(n int32) int32 { return min(max(n, 0), maxReplicas) }

// readTriggers sets s.triggers to the names of the triggers, s.metadata to the metadata of the first trigger for gpuscaler, and s.Checks to
// the fields that are checked for configuration errors.
func (s *ScaledObject) readTriggers(o *kedav1alpha1.ScaledObject) {
	s.Checks = objects.ScaledObjectFacts{MinReplicas: s.min, Formula: o.IsUsingModifiers()}
	if n := o.Spec.CooldownPeriod; n != nil {
		cooldown := seconds(max(*n, 0))
		s.Checks.Cooldown = &cooldown
	}
	s.Checks.ZeroFallback = o.Spec.Fallback != nil && o.Spec.Fallback.Replicas <= 0
	s.triggers = []string{}
	for i := range o.Spec.Triggers {
		trigger := &o.Spec.Triggers[i]
		if trigger.Name != "" {
			s.triggers = append(s.triggers, trigger.Name)
		}
		if !s.Checks.HasTrigger && isOwnTrigger(trigger) {
			s.Checks.HasTrigger, s.Checks.Cached, s.Checks.NoPush = true, trigger.UseCachedMetrics, trigger.Type == "external"
			if s.metadata = trigger.Metadata; s.metadata == nil {
				s.metadata = map[string]string{}
			}
		}
	}
}

// isOwnTrigger reports whether a trigger is for gpuscaler: an external scaler whose name is "gpuscaler" or whose address contains
// "gpuscaler".
func isOwnTrigger(t *kedav1alpha1.ScaleTriggers) bool {
	external := t.Type == "external" || t.Type == "external-push"
	return external && (t.Name == ownership.Manager || strings.Contains(t.Metadata["scalerAddress"], ownership.Manager))
}

// Reference returns the object reference that an Event about the ScaledObject contains.
func (s *ScaledObject) Reference() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: ScaledObjects.GroupVersion().String(), Kind: ScaledObjectKind, Namespace: s.Namespace, Name: s.Name, UID: s.UID,
	}
}

// PolicyObject returns the ScaledObject in the form from which the policy store reads policies in annotations and trigger metadata.
func (s *ScaledObject) PolicyObject() store.Object {
	return store.Object{
		Kind: ScaledObjectKind, Namespace: s.Namespace, Name: s.Name, Target: s.scaleTargetRef, Annotations: s.annotations,
		Metadata: s.metadata, MinReplicas: s.min, MaxReplicas: s.max, Triggers: s.triggers, CooldownPeriod: s.Checks.Cooldown,
	}
}

// triggerMetrics returns the name of the external metric that KEDA serves for each named trigger, for example "s2-aws-sqs-queue" for the
// third trigger in spec.triggers. In the following cases the name is empty, because otherwise gpuscaler could read the value of another
// trigger:
//
//   - two triggers have the same name
//   - the status lists no metric for the trigger
//   - the status lists several metrics for the trigger, whose values cannot be added
//
// If spec.advanced.scalingModifiers is set, triggerMetrics returns nil, because KEDA then serves the result of the formula for every
// metric.
func triggerMetrics(o *kedav1alpha1.ScaledObject) map[string]string {
	if o.IsUsingModifiers() {
		return nil
	}
	metrics := map[string]string{}
	for i := range o.Spec.Triggers {
		name := o.Spec.Triggers[i].Name
		if name == "" {
			continue
		}
		if _, twice := metrics[name]; twice {
			metrics[name] = ""
			continue
		}
		metrics[name] = onlyWithPrefix(o.Status.ExternalMetricNames, "s"+strconv.Itoa(i)+"-")
	}
	return metrics
}

// onlyWithPrefix returns the only name that begins with a prefix. It returns "" if no name or several names begin with it.
func onlyWithPrefix(names []string, prefix string) string {
	matching := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	if len(matching) != 1 {
		return ""
	}
	return matching[0]
}
