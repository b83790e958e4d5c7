package capacity

import (
	"math"
	"strconv"
	"strings"
)

// Value is a field's JSON, compact and with sorted keys as encoding/json prints a map; "" is a field that is absent. It is kept as
// text so that what goes back is what was there, byte for byte: 8 and "8" are the same limit and not the same spec.
type Value string

// writable reports whether the API server takes a write of the field: its word is in gpuscaler.io/nudge.
func (t *tick) writable(pool int, f Field) bool { return t.o.Pools[pool].Consent&f.Consent() != 0 }

// handedOver reports whether the field may be overridden: it is writable, and its owner did not ask for the originals.
func (t *tick) handedOver(pool int, f Field) bool {
	return t.writable(pool, f) && t.o.Pools[pool].Consent&ConsentRestore == 0
}

// view returns what the observation shows of a field.
func (t *tick) view(pool int, f Field) FieldView {
	p := &t.o.Pools[pool]
	switch f {
	case FieldWeight:
		return p.Weight
	case FieldConsolidateAfter:
		return p.ConsolidateAfter
	case FieldConsolidationPolicy:
		return p.ConsolidationPolicy
	case FieldBudgets:
		return p.Budgets
	}
	resource := t.s.resource(f)
	if resource == "" {
		return FieldView{Unsupported: true}
	}
	for i := range p.Limits {
		if p.Limits[i].Resource == resource {
			return p.Limits[i].FieldView
		}
	}
	return FieldView{}
}

// number reads a whole number, quoted or not, with the suffixes that people put on counts. ok is false for anything else; an
// absent value is not a number.
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

// quantity reads any Kubernetes quantity, quoted or not. ok is false for anything else; an absent value is no quantity.
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

// same tells whether two values mean the same: 8 and "8" do.
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

func units(n int64) int64 { return max(0, min(n, maxUnits)) }
