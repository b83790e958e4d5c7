package policy

// namesBase refuses an object that says nothing but the name of a policy that no file has.
func (o *object) namesBase(f *findings) {
	if o.base != nil {
		return
	}
	n, name, field := 0, "", ""
	for _, w := range o.written() {
		for _, k := range policyKeys {
			if v, ok := w.values[k.annotation]; ok {
				if n++; k.annotation == AnnotationPolicy {
					name, field = v, w.field(k.annotation)
				}
			}
		}
	}
	if n == 1 && field != "" {
		f.refuse(field, name, "no file has a policy of this name in namespace "+o.Namespace, "the name of a ScalingPolicy in force, or further annotations that make one")
	}
}

// oneActivator refuses a second writer of the first replica: where there is a ScaledObject, KEDA writes it.
func (o *object) oneActivator(f *findings, spec *PolicySpec) {
	if o.Kind == "ScaledObject" && spec.Activate != nil && *spec.Activate {
		f.bad(specPath.key("activate"), "KEDA writes 0 to 1 and back for a ScaledObject", "false")
	}
}

// ownBounds takes min, max and the cooldown from the object: they count once, so writing them in the annotations as well is refused.
func (o *object) ownBounds(f *findings, spec *PolicySpec) {
	own := "in spec of the " + o.Kind + " itself"
	if spec.MinReplicas != nil {
		f.bad(specPath.key("minReplicas"), "comes from the object", own)
	}
	if spec.MaxReplicas != nil {
		f.bad(specPath.key("maxReplicas"), "comes from the object", own)
	}
	if spec.ScaleTargetRef != nil {
		f.bad(specPath.key("scaleTargetRef"), "comes from the object", own)
	}
	low, high := o.MinReplicas, o.MaxReplicas
	spec.MinReplicas, spec.MaxReplicas, spec.ScaleTargetRef = &low, &high, nil
	if o.CooldownPeriod != nil && *o.CooldownPeriod > 0 {
		if _, said := f.origins[specPath.key("cooldownPeriod").String()]; said {
			f.bad(specPath.key("cooldownPeriod"), "would count twice: KEDA waits for the ScaledObject's own", "one of the two, and cooldownPeriod: 0 in the other")
		}
		none := Duration(0)
		spec.CooldownPeriod = &none
	}
}
