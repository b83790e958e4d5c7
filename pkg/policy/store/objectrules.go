package store

import (
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// namesBase refuses an object that says nothing but the name of a policy that no file has.
func (o *object) namesBase(f *decode.Collector) {
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
		f.RejectText(field, name, "no file has a policy of this name in namespace "+o.Namespace, "the name of a ScalingPolicy in force, or further annotations that make one")
	}
}

// oneActivator refuses a second writer of the first replica: where there is a ScaledObject, KEDA writes it.
func (o *object) oneActivator(f *decode.Collector, written *spec.Policy) {
	if o.Kind == "ScaledObject" && written.Activate != nil && *written.Activate {
		f.Reject(decode.Spec.Key("activate"), "KEDA writes 0 to 1 and back for a ScaledObject", "false")
	}
}

// ownBounds takes min, max and the cooldown from the object: they count once, so writing them in the annotations as well is refused.
func (o *object) ownBounds(f *decode.Collector, written *spec.Policy) {
	own := "in spec of the " + o.Kind + " itself"
	if written.MinReplicas != nil {
		f.Reject(decode.Spec.Key("minReplicas"), "comes from the object", own)
	}
	if written.MaxReplicas != nil {
		f.Reject(decode.Spec.Key("maxReplicas"), "comes from the object", own)
	}
	if written.ScaleTargetRef != nil {
		f.Reject(decode.Spec.Key("scaleTargetRef"), "comes from the object", own)
	}
	low, high := o.MinReplicas, o.MaxReplicas
	written.MinReplicas, written.MaxReplicas, written.ScaleTargetRef = &low, &high, nil
	if o.CooldownPeriod != nil && *o.CooldownPeriod > 0 {
		if _, said := f.Origins[decode.Spec.Key("cooldownPeriod").String()]; said {
			f.Reject(decode.Spec.Key("cooldownPeriod"), "would count twice: KEDA waits for the ScaledObject's own", "one of the two, and cooldownPeriod: 0 in the other")
		}
		none := spec.Duration(0)
		written.CooldownPeriod = &none
	}
}
