// Package annotations reads what users write in the annotations of a ScaledObject, an HPA or a workload: the parts of a policy, and the
// pause and override of an operator. The metadata of a KEDA trigger can set the same parts; it wins over the annotations.
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

// The annotations of a ScaledObject or an HPA that make a policy. All but Policy and Spec are short forms of fields of spec.
const (
	Policy        = Prefix + "policy"                  // name of the policy: one of a file, which the annotations extend, or a new one
	Spec          = Prefix + "spec"                    // the same YAML as the spec of a file
	Mode          = Prefix + "mode"                    // auto, advisory or hold
	CapacityGroup = Prefix + "capacity-group"          // capacityGroup
	GPUTarget     = Prefix + "gpu-utilization-target"  // target of a dcgm signal named gpu
	QueueSource   = Prefix + "queue-source"            // source of a signal named queue
	QueueTarget   = Prefix + "queue-depth-per-replica" // target of the signal named queue
	Schedule      = Prefix + "schedule"                // schedules, one a line
	ManageKEDA    = Prefix + "manage-keda"             // the annotations of KEDA that gpuscaler may write: activation, hold
)

// policyKeys lists the annotations that make a policy in the order in which they are applied, each with its name in the metadata of a
// KEDA trigger.
var policyKeys = []struct{ annotation, metadata string }{
	{Policy, "policy"}, {Spec, "spec"}, {Mode, "mode"}, {CapacityGroup, "capacityGroup"},
	{GPUTarget, "gpuUtilizationTarget"}, {QueueSource, "queueSource"}, {QueueTarget, "queueDepthPerReplica"},
	{Schedule, "schedule"},
}

// otherKeys lists the annotations with our prefix that are no part of a policy.
var otherKeys = []string{Paused, Override, Prefix + "last-decision", Prefix + "nudge", ManageKEDA}

// CarriesPolicy reports whether annotations make a policy.
func CarriesPolicy(values map[string]string) bool { return FromAnnotations(values).Len() > 0 }

// Layer is one source of the parts of a policy: the annotations of an object, or the metadata of its trigger.
type Layer struct {
	Values map[string]string       // by annotation key
	Field  func(key string) string // returns the place of a key, for problems
}

// FromAnnotations returns the layer of an object's annotations.
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

// Len returns the number of keys that make a policy.
func (l Layer) Len() (n int) {
	for _, k := range policyKeys {
		if _, ok := l.Values[k.annotation]; ok {
			n++
		}
	}
	return n
}

// FieldOf returns the field of an annotation, as a Problem names it.
func FieldOf(key string) string { return "metadata.annotations[" + key + "]" }

func metadataField(key string) string {
	for _, k := range policyKeys {
		if k.annotation == key {
			return "trigger metadata " + k.metadata
		}
	}
	return key
}

// CheckKeys reports annotations with our prefix that do not exist. A misspelled target would otherwise be ignored without a message.
func CheckKeys(c *decode.Collector, values map[string]string) {
	known := slices.Clone(otherKeys)
	for _, k := range policyKeys {
		known = append(known, k.annotation)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(key, Prefix) && !slices.Contains(known, key) {
			c.Problems = append(c.Problems, policy.Problem{
				File: c.File, Field: FieldOf(key), Message: "there is no such annotation" + wording.DidYouMean(key, known),
				Found: wording.Quote(values[key]), Allowed: wording.List(known),
			})
		}
	}
}
