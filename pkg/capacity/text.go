package capacity

import (
	"fmt"
	"strings"
)

// Text returns one line for each changed field, with the old value, the new value and the rule. A patch that only changes the record has
// one line that says so.
func (p NodePoolPatch) Text() string {
	var b strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "%s %s: %s -> %s  (%s)\n", p.Pool, c.Path(), c.From, c.To, c.Why())
	}
	if len(p.Changes) == 0 {
		fmt.Fprintf(&b, "%s: no field changes, only the annotation with the owner's values\n", p.Pool)
	}
	return b.String()
}

// String returns the value for messages.
func (v Value) String() string {
	if v == "" {
		return "(absent)"
	}
	return string(v)
}

// Name returns the field for messages: its path below spec.
func (c Change) Name() string { return c.Field.Name(c.Resource) }

// Path returns the path of the field in the NodePool.
func (c Change) Path() Path { return c.Field.Path(c.Resource) }

// Why returns the rule that sets the field, or that the owner's value is restored.
func (c Change) Why() string {
	if c.Restore {
		return "owner's value restored"
	}
	return c.Rule.String()
}

// String returns the key of the annotation.
func (k AnnotationKind) String() string {
	return [...]string{"karpenter.sh/do-not-disrupt", "controller.kubernetes.io/pod-deletion-cost"}[min(k, DeletionCost)]
}

// Text returns one line with the pod, the annotation, its new value and the rule.
func (m PodAnnotation) Text() string {
	return fmt.Sprintf("%s/%s %s: %s  (%s)\n", m.Namespace, m.Name, m.Kind, Value(m.Value), m.Rule)
}

// Text returns one line with the workload and the number of replicas of its CapacityBuffer.
func (b Buffer) Text() string {
	return fmt.Sprintf("%s CapacityBuffer: %d %s\n", b.Workload, b.Replicas, plural(float64(b.Replicas), "replica"))
}
