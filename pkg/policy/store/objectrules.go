package store

import (
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// checkBase rejects an object whose only annotation is gpuscaler.io/policy, if no file contains a policy with the name in this annotation.
func (o *object) checkBase(f *decode.Collector) {
	if o.base != nil {
		return
	}
	n, name, field := 0, "", ""
	for _, l := range o.layers() {
		n += l.Len()
		if v, ok := l.Values[annotations.Policy]; ok {
			name, field = v, l.Field(annotations.Policy)
		}
	}
	if n == 1 && field != "" {
		f.RejectText(field, name, "no file has a policy of this name in namespace "+o.Namespace,
			"the name of a ScalingPolicy in force, or further annotations that define a policy")
	}
}

// checkActivator rejects activate: true for a ScaledObject, because KEDA scales the workload of a ScaledObject between 0 and 1.
func (o *object) checkActivator(f *decode.Collector, written *spec.Policy) {
	if o.Kind == "ScaledObject" && written.Activate != nil && *written.Activate {
		f.Reject(decode.Spec.Key("activate"), "KEDA writes 0 to 1 and back for a ScaledObject", "false")
	}
}

// takeBounds sets minReplicas, maxReplicas and cooldownPeriod of the policy to the values of the object. It rejects annotations that set
// minReplicas, maxReplicas or scaleTargetRef. It also rejects a cooldownPeriod that both the annotations and the object set.
func (o *object) takeBounds(f *decode.Collector, written *spec.Policy) {
	own := "in spec of the " + o.Kind + " itself"
	if written.MinReplicas != nil {
		f.Reject(decode.Spec.Key("minReplicas"), "is set by the object", own)
	}
	if written.MaxReplicas != nil {
		f.Reject(decode.Spec.Key("maxReplicas"), "is set by the object", own)
	}
	if written.ScaleTargetRef != nil {
		f.Reject(decode.Spec.Key("scaleTargetRef"), "is set by the object", own)
	}
	low, high := o.MinReplicas, o.MaxReplicas
	written.MinReplicas, written.MaxReplicas, written.ScaleTargetRef = &low, &high, nil
	if o.CooldownPeriod != nil && *o.CooldownPeriod > 0 {
		if _, said := f.Origins[decode.Spec.Key("cooldownPeriod").String()]; said {
			f.Reject(decode.Spec.Key("cooldownPeriod"), "would apply twice: KEDA waits for the cooldownPeriod of the ScaledObject",
				"one of the two, and cooldownPeriod: 0 in the other")
		}
		none := spec.Duration(0)
		written.CooldownPeriod = &none
	}
}
