package nodepool

import (
	"math"
	"strconv"
	"strings"
)

// String returns the value for messages.
func (v Value) String() string {
	if v == "" {
		return "(absent)"
	}
	return string(v)
}

// Value is the value of a field as JSON text. It is compact and has sorted keys, as encoding/json writes a map. "" means that the field is
// absent. A Value is text so that gpuscaler can restore exactly the original bytes: 8 and "8" are the same limit, but they are different in
// the spec.
type Value string

// Number returns the value as a whole number. The value may be quoted and may have the suffix k or M. ok is false for every other value and
// for an absent field.
func (v Value) Number() (n int64, ok bool) {
	s := strings.Trim(string(v), `"`)
	scale := int64(1)
	switch {
	case strings.HasSuffix(s, "k"):
		s, scale = s[:len(s)-1], 1000
	case strings.HasSuffix(s, "M"):
		s, scale = s[:len(s)-1], 1_000_000
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > MaxUnits || n < -MaxUnits {
		return 0, false
	}
	return n * scale, true
}

// suffixes contains the factor of each suffix of a Kubernetes quantity.
var suffixes = map[string]float64{
	"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// Quantity returns the value as a Kubernetes quantity, which may be quoted. ok is false for every other value and for an absent field.
func (v Value) Quantity() (n float64, ok bool) {
	s := strings.Trim(string(v), `"`)
	digits := strings.TrimRight(s, "numkMGTPEKi")
	scale, known := suffixes[s[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return float64(n * scale), true
}

// Same reports whether two values are equal as numbers or as text. For example, 8 and "8" are equal.
func (v Value) Same(w Value) bool {
	if v == w {
		return true
	}
	if v == "" || w == "" {
		return false
	}
	a, ok1 := v.Number()
	b, ok2 := w.Number()
	return ok1 && ok2 && a == b
}

// MaxUnits is the greatest amount of a resource with which this module computes. Sums of several such amounts, and their products with
// small numbers, fit in an int64.
const MaxUnits = int64(1) << 32

// Units returns an amount of a resource, limited to the range from 0 to MaxUnits.
func Units(n int64) int64 { return max(0, min(n, MaxUnits)) }
