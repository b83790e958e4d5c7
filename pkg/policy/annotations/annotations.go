// Package annotations reads two things from the annotations of a ScaledObject, an HPA or a workload: fields of a policy, and the pause or
// override that a human operator sets. The metadata of a KEDA trigger can contain the same fields of a policy. This metadata takes
// precedence over the annotations.
package annotations

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
)

// Prefix is the prefix of every annotation of gpuscaler.
const Prefix = "gpuscaler.io/"

// Annotations of a ScaledObject or an HPA that define a policy. Policy contains a name and Spec a whole spec. Every other annotation is a
// short form of one field of the spec.
const (
	Policy        = Prefix + "policy"                  // name of a policy in a file, which the annotations extend, or the name of a new policy
	Spec          = Prefix + "spec"                    // the fields of a policy as YAML, as in spec of a policy in a file
	Mode          = Prefix + "mode"                    // auto, advisory or hold
	CapacityGroup = Prefix + "capacity-group"          // name of the capacityGroup
	Objective     = Prefix + "objective"               // the objective, for example "wait=10s percentile=99"
	GPUTarget     = Prefix + "gpu-utilization-target"  // target of a dcgm signal named gpu
	QueueSource   = Prefix + "queue-source"            // source of a signal named queue
	QueueTarget   = Prefix + "queue-depth-per-replica" // target of the signal named queue
	Schedule      = Prefix + "schedule"                // schedules, one per line
	ManageKEDA    = Prefix + "manage-keda"             // the annotations of KEDA that gpuscaler may write: activation, hold
)

// PolicyStatus is the annotation in which gpuscaler writes whether it accepted or refused the policies of an HPA, a ScaledObject or a
// ConfigMap. gpuscaler never reads a policy from it.
const PolicyStatus = Prefix + "policy-status"

// policyKeys lists the annotations that define a policy, in the order in which they are applied. metadata is the corresponding key in the
// metadata of a KEDA trigger.
var policyKeys = []struct{ annotation, metadata string }{
	{Policy, "policy"}, {Spec, "spec"}, {Mode, "mode"}, {CapacityGroup, "capacityGroup"},
	{Objective, "objective"}, {GPUTarget, "gpuUtilizationTarget"}, {QueueSource, "queueSource"}, {QueueTarget, "queueDepthPerReplica"},
	{Schedule, "schedule"},
}

// otherKeys lists the annotations with the prefix gpuscaler.io/ that do not define a policy.
var otherKeys = []string{Paused, Override, Prefix + "last-decision", Prefix + "nudge", ManageKEDA, PolicyStatus}

// CarriesPolicy reports whether the annotations of an object define a policy.
func CarriesPolicy(values map[string]string) bool { return FromAnnotations(values).Len() > 0 }

// Layer contains the fields of a policy from one source: the annotations of an object, or the metadata of its KEDA trigger.
type Layer struct {
	Values map[string]string       // by the key of the annotation
	Field  func(key string) string // returns the text of Problem.Field for a key of Values
}

// FromAnnotations returns the policy fields that the annotations of an object contain.
func FromAnnotations(values map[string]string) Layer { return Layer{Values: values, Field: FieldOf} }

// FromMetadata returns the layer of a trigger's metadata. Keys of KEDA itself, such as scalerAddress, are left out.
func FromMetadata(metadata map[string]string) Layer {
	values := map[string]string{}
	for _, k := range policyKeys {
		if v, ok := metadata[k.metadata]; ok {
			values[k.annotation] = v
		}
	}
	return Layer{Values: values, Field: metadataField}
}

// Len returns the number of keys in the layer that define a policy.
func (l Layer) Len() (n int) {
	for _, k := range policyKeys {
		if _, ok := l.Values[k.annotation]; ok {
			n++
		}
	}
	return n
}

// FieldOf returns the value of Problem.Field for an annotation.
func FieldOf(key string) string { return "metadata.annotations[" + key + "]" }

func metadataField(key string) string {
	for _, k := range policyKeys {
		if k.annotation == key {
			return "trigger metadata " + k.metadata
		}
	}
	return key
}

// CheckKeys adds a problem for each unknown annotation with the prefix gpuscaler.io/. Without this check, a misspelled annotation would be
// ignored without a message.
func CheckKeys(c *decode.Collector, values map[string]string) {
	known := slices.Clone(otherKeys)
	for _, k := range policyKeys {
		known = append(known, k.annotation)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(key, Prefix) && !slices.Contains(known, key) && !c.Full() {
			c.Include([]policy.Problem{{
				File: c.File, Field: FieldOf(key), Message: "there is no such annotation" + wording.DidYouMean(key, known),
				Found: wording.Quote(values[key]), Allowed: wording.List(known),
			}})
		}
	}
}
