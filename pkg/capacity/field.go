package capacity

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Field is a field of a NodePool's spec that may be overridden. None of them is part of Karpenter's drift hash.
type Field uint8

// Values of Field.
const (
	FieldWeight Field = iota
	FieldConsolidateAfter
	FieldConsolidationPolicy
	FieldBudgets
	FieldLimit // limit of the first resource of the group; the limits of its other resources follow
	numFields  = FieldLimit + MaxLimits
)

// fieldSet is a set of fields, one bit each.
type fieldSet uint16

// valueFormat is how Kubernetes writes the value of a field.
type valueFormat uint8

const (
	formatNumber   valueFormat = iota // a JSON number
	formatQuantity                    // a resource.Quantity: a JSON string, as kubectl writes it
	formatText                        // a JSON string
	formatList                        // a JSON array that the package builds itself
)

// fieldTable describes each field once: its path, the consent that a write needs, and the format of its value. The patch, the record,
// and every text that names a field use this table.
var fieldTable = [FieldLimit + 1]struct {
	path    Path // of FieldLimit: the path of the map that has one entry for each resource
	consent Fields
	format  valueFormat
}{
	FieldWeight:              {Path{"spec", "weight"}, ConsentWeight, formatNumber},
	FieldConsolidateAfter:    {Path{"spec", "disruption", "consolidateAfter"}, ConsentDisruption, formatText},
	FieldConsolidationPolicy: {Path{"spec", "disruption", "consolidationPolicy"}, ConsentDisruption, formatText},
	FieldBudgets:             {Path{"spec", "disruption", "budgets"}, ConsentDisruption, formatList},
	FieldLimit:               {Path{"spec", "limits"}, ConsentLimits, formatQuantity},
}

// Consent returns the consent that gpuscaler.io/nudge must contain before the field may be written.
func (f Field) Consent() Fields { return fieldTable[min(f, FieldLimit)].consent }

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

// number returns n as the value of the field: a JSON number, or a quoted string for a limit.
func (f Field) number(n int64) Value {
	text := strconv.FormatInt(n, 10)
	if fieldTable[min(f, FieldLimit)].format == formatQuantity {
		text = strconv.Quote(text)
	}
	return Value(text)
}

// text returns s as a quoted JSON string. The values that Karpenter accepts in such a field contain no characters that JSON must escape.
func (f Field) text(s string) Value { return Value(strconv.Quote(s)) }

// Path is the location of a field in an object: the keys from the root.
type Path []string

// String returns the path for people: keys joined by dots, and the resource of a limit in brackets.
func (p Path) String() string {
	var b strings.Builder
	for i, key := range p {
		switch {
		case i > 0 && p[i-1] == "limits":
			b.WriteString("[" + key + "]")
		case i > 0:
			b.WriteString("." + key)
		default:
			b.WriteString(key)
		}
	}
	return b.String()
}

var (
	pointerEscapes   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")
)

// Pointer returns the path as a JSON pointer (RFC 6901), such as /spec/limits/nvidia.com~1gpu.
func (p Path) Pointer() string {
	var b strings.Builder
	for _, key := range p {
		b.WriteString("/" + pointerEscapes.Replace(key))
	}
	return b.String()
}

// resource returns the resource of a limit, and "" for every other field.
func (s *State) resource(f Field) string {
	if f < FieldLimit || f >= numFields {
		return ""
	}
	return s.Limits[f-FieldLimit]
}

// limit returns the field for the limit of a resource. If the resource has none yet, limit assigns an unused field to it. ok is false if
// all MaxLimits fields are in use.
func (s *State) limit(resource string) (f Field, ok bool) {
	for i := range s.Limits {
		switch s.Limits[i] {
		case "":
			s.Limits[i] = resource
			return FieldLimit + Field(i), true
		case resource:
			return FieldLimit + Field(i), true
		}
	}
	return 0, false
}

// fieldAt returns the field at a JSON pointer: the inverse of Field.Path and Path.Pointer. ok is false for every other path.
func (s *State) fieldAt(pointer string) (f Field, ok bool) {
	for f := range FieldLimit {
		if fieldTable[f].path.Pointer() == pointer {
			return f, true
		}
	}
	key, below := strings.CutPrefix(pointer, fieldTable[FieldLimit].path.Pointer()+"/")
	if !below || key == "" || strings.Contains(key, "/") {
		return 0, false
	}
	return s.limit(pointerUnescapes.Replace(key))
}

// Value is the value of a field as JSON text. It is compact and has sorted keys, as encoding/json writes a map. "" means that the field is
// absent. A Value is text so that gpuscaler can restore exactly the original bytes: 8 and "8" are the same limit, but they are different in
// the spec.
type Value string

// number returns the value as a whole number. The value may be quoted and may have the suffix k or M. ok is false for every other value and
// for an absent field.
func (v Value) number() (n int64, ok bool) {
	s := strings.Trim(string(v), `"`)
	scale := int64(1)
	switch {
	case strings.HasSuffix(s, "k"):
		s, scale = s[:len(s)-1], 1000
	case strings.HasSuffix(s, "M"):
		s, scale = s[:len(s)-1], 1_000_000
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > maxUnits || n < -maxUnits {
		return 0, false
	}
	return n * scale, true
}

// suffixes contains the factor of each suffix of a Kubernetes quantity.
var suffixes = map[string]float64{
	"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// quantity returns the value as a Kubernetes quantity, which may be quoted. ok is false for every other value and for an absent field.
func (v Value) quantity() (n float64, ok bool) {
	s := strings.Trim(string(v), `"`)
	digits := strings.TrimRight(s, "numkMGTPEKi")
	scale, known := suffixes[s[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return float64(n * scale), true
}

// same reports whether two values are equal as numbers or as text: 8 and "8" are.
func (v Value) same(w Value) bool {
	if v == w {
		return true
	}
	if v == "" || w == "" {
		return false
	}
	a, ok1 := v.number()
	b, ok2 := w.number()
	return ok1 && ok2 && a == b
}

// maxUnits is the maximum of all amounts of a resource. With it, sums and products of a few amounts fit in an int64.
const maxUnits = int64(1) << 32

// units returns an amount of a resource, limited to the range from 0 to maxUnits.
func units(n int64) int64 { return max(0, min(n, maxUnits)) }
