package capacity

import (
	"math"
	"strconv"
	"strings"
)

// Value is the JSON of a field, compact and with sorted keys as encoding/json prints a map; "" is an absent field. It is text, so that a
// restored value is byte for byte the original: 8 and "8" are the same limit, but not the same spec.
type Value string

// number reads a whole number, quoted or not, with the suffixes k and M. ok is false for everything else; an absent value is no number.
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

// suffixes are those of a Kubernetes quantity.
var suffixes = map[string]float64{
	"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// quantity reads every Kubernetes quantity, quoted or not. ok is false for everything else; an absent value is no quantity.
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

// maxUnits keeps every sum and product of a few counts inside an int64.
const maxUnits = int64(1) << 32

// units returns a count between 0 and maxUnits.
func units(n int64) int64 { return max(0, min(n, maxUnits)) }
