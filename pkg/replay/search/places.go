package search

import (
	"math"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// placeOf returns the position of v in tries, counted from 0. tries contains values in ascending or descending order. Position 1.5 is
// halfway between the second and the third value, on the scale that logarithmic selects. A value outside the range has the position of the
// nearer end.
func placeOf(tries []float64, v float64) float64 {
	last := len(tries) - 1
	for i, at := range tries {
		switch {
		case at == v:
			return float64(i)
		case i > 0 && (tries[i-1] < v) == (v < at):
			from := tries[i-1]
			if logarithmic(from, at) {
				return float64(i-1) + math.Log(v/from)/math.Log(at/from)
			}
			return float64(i-1) + (v-from)/(at-from)
		}
	}
	if math.Abs(v-tries[0]) < math.Abs(v-tries[last]) {
		return 0
	}
	return float64(last)
}

// logarithmic reports whether positions between two values are on a logarithmic scale, for example so that a target of one millisecond
// stays above 0. The scale is linear if one of the values is not above 0, or if their ratio exceeds the range of a float64.
func logarithmic(from, to float64) bool {
	ratio := to / from
	return from > 0 && ratio > 0 && !math.IsInf(ratio, 1)
}

// valueAt returns the value at a position in tries, 0 to the last index. Between two values it interpolates on the scale that logarithmic
// selects. The result is rounded to a few digits and is never outside the two values.
func valueAt(tries []float64, place float64) float64 {
	i := int(place)
	if i+1 >= len(tries) || float64(i) == place {
		return tries[i]
	}
	from, to, part := tries[i], tries[i+1], place-float64(i)
	v := from + float64(part*(to-from))
	if logarithmic(from, to) {
		v = from * math.Pow(to/from, part)
	}
	switch {
	case v >= 10:
		v = math.Round(v)
	case logarithmic(from, to):
		v = ThreeDigits(v)
	default: // the smaller end is 0, or almost 0: the other end determines the number of digits
		unit := digit(max(math.Abs(from), math.Abs(to)))
		v = reproducible.ThreeDigits(math.Round(v/unit) * unit)
	}
	return min(max(v, min(from, to)), max(from, to))
}

// At returns the settings at the given positions in Tries: 1.5 is halfway between the second and the third value.
func (s *Search[R]) At(places []float64) (settings []float64) {
	for k, place := range places {
		v := valueAt(s.Tries[k], place)
		if s.Whole != nil && s.Whole[k] {
			v = math.Round(v)
		}
		settings = append(settings, v)
	}
	return settings
}

func (s *Search[R]) at(places []float64) *Tried[R] {
	return &Tried[R]{Settings: s.At(places), places: places}
}

// ThreeDigits rounds a positive value to three significant digits. A value halfway between two such numbers is rounded up: 1.125 becomes
// 1.13. reproducible.ThreeDigits rounds such a value to the even digit.
func ThreeDigits(v float64) float64 {
	unit := digit(v)
	if out := reproducible.ThreeDigits(math.Round(v/unit) * unit); out > 0 {
		return out
	}
	return v
}

// digit returns the place value of the third significant digit of a number above 0: 0.01 for 5.43.
func digit(v float64) float64 { return math.Pow(10, math.Floor(math.Log10(v))-2) }
