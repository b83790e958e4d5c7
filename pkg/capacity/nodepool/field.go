package nodepool

import (
	"slices"
	"strconv"
	"strings"
)

// MaxPools and MaxLimits bound a group, so that its state is a plain value of fixed size.
const (
	MaxPools  = 8 // maximum number of NodePools of a group
	MaxLimits = 4 // maximum number of resources whose limits a group may set, including its own resource
)

// Field is a field of a NodePool's spec that may be overridden. None of these fields is part of Karpenter's drift hash, so an override does
// not make Karpenter replace nodes.
type Field uint8

// Values of Field.
const (
	FieldWeight Field = iota
	FieldConsolidateAfter
	FieldConsolidationPolicy
	FieldBudgets
	FieldLimit // limit of the first resource of the group; the limits of its other resources follow
	NumFields  = FieldLimit + MaxLimits
)

// FieldSet is a set of fields, one bit each.
type FieldSet uint16

// valueFormat is how Kubernetes writes the value of a field.
type valueFormat uint8

const (
	formatNumber   valueFormat = iota // a JSON number
	formatQuantity                    // a resource.Quantity: a JSON string, as kubectl writes it
	formatText                        // a JSON string
	formatList                        // a JSON array
)

// fieldTable describes each field once: its path, the consent that a write needs, and the format of its value. The patch, the record
// annotation, and every text that names a field use this table.
var fieldTable = [FieldLimit + 1]struct {
	path    Path // for FieldLimit, the path of spec.limits, which has one entry for each resource
	consent Consent
	format  valueFormat
}{
	FieldWeight:              {Path{"spec", "weight"}, ConsentWeight, formatNumber},
	FieldConsolidateAfter:    {Path{"spec", "disruption", "consolidateAfter"}, ConsentDisruption, formatText},
	FieldConsolidationPolicy: {Path{"spec", "disruption", "consolidationPolicy"}, ConsentDisruption, formatText},
	FieldBudgets:             {Path{"spec", "disruption", "budgets"}, ConsentDisruption, formatList},
	FieldLimit:               {Path{"spec", "limits"}, ConsentLimits, formatQuantity},
}

// Consent returns the consent that gpuscaler.io/nudge must contain before the field may be written.
func (f Field) Consent() Consent { return fieldTable[min(f, FieldLimit)].consent }

// Path returns the path of the field in a NodePool. The path of a limit ends with the name of its resource.
func (f Field) Path(resource string) Path {
	path := fieldTable[min(f, FieldLimit)].path
	if f >= FieldLimit {
		return append(slices.Clone(path), resource)
	}
	return path
}

// Name returns the field for messages: its path below spec, such as weight or limits[nvidia.com/gpu].
func (f Field) Name(resource string) string {
	return strings.TrimPrefix(f.Path(resource).String(), "spec.")
}

// Number returns n as the value of the field: a JSON number, or a quoted string for a limit.
func (f Field) Number(n int64) Value {
	text := strconv.FormatInt(n, 10)
	if fieldTable[min(f, FieldLimit)].format == formatQuantity {
		text = strconv.Quote(text)
	}
	return Value(text)
}

// Text returns s as a quoted JSON string. It does not escape s as JSON requires, because the values that Karpenter accepts in a text field
// contain no character that must be escaped.
func (f Field) Text(s string) Value { return Value(strconv.Quote(s)) }
