package history

import (
	"reflect"
	"slices"
	"testing"
)

// fullWindow returns a window, and fullSteps returns steps. In both, every field of every entry has a different value.
func fullWindow() (w Window) {
	w.n = windowSize
	for i := range w.list {
		w.list[i] = sample{at: int64(3*i + 1), value: int32(-3*i - 2), late: int32(3*i + 3)}
	}
	return w
}

func fullSteps() (s Steps) {
	s.n = stepsSize
	for i := range s.list {
		s.list[i] = Step{Start: int64(-3*i - 1), Low: int32(3*i + 2), High: int32(3*i + 3)}
	}
	return s
}

// past has a field for each type of the package that is encoded.
type past struct {
	window   Window
	steps    Steps
	trend    Trend
	forecast Forecast
}

func (p *past) words() []int64 {
	return p.forecast.Append(p.trend.Append(p.steps.Append(p.window.Append(nil))))
}

func (p *past) read(r *Reader) {
	p.window.Read(r)
	p.steps.Read(r)
	p.trend.Read(r)
	p.forecast.Read(r)
}

// TestEncodingKeepsEveryField also fails if a field was added to a type but not to its encoding: the test requires that the variable full
// has a value in every field.
func TestEncodingKeepsEveryField(t *testing.T) {
	full := past{window: fullWindow(), steps: fullSteps(), trend: Trend{true, 1.5, -2.5}, forecast: Forecast{true, 3.5, 4.5, 5.5}}
	if zero := firstZero(reflect.ValueOf(full), "past"); zero != "" {
		t.Fatalf("%s is not set: set it in this test and encode it", zero)
	}
	var got past
	r := Reader{Words: full.words()}
	if got.read(&r); got != full || r.Invalid || len(r.Words) > 0 {
		t.Errorf("decoded\n%+v (invalid %v, %d words left)\nof\n%+v", got, r.Invalid, len(r.Words), full)
	}
}

// firstZero returns the path of the first field that is zero, or "" if there is none.
func firstZero(v reflect.Value, path string) string {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if zero := firstZero(v.Field(i), path+"."+v.Type().Field(i).Name); zero != "" {
				return zero
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			if zero := firstZero(v.Index(i), path+"[]"); zero != "" {
				return zero
			}
		}
	default:
		if v.IsZero() {
			return path
		}
	}
	return ""
}

// Words that Append did not write, for example from a damaged recording, must be reported as invalid. A number of entries that exceeds the
// size of a list must never be accepted.
func TestTruncatedAndHostileWordsAreInvalid(t *testing.T) {
	full := past{window: fullWindow(), steps: fullSteps()}
	words := full.words()
	for n := range words {
		var p past
		r := Reader{Words: words[:n]}
		if p.read(&r); !r.Invalid {
			t.Errorf("the first %d of %d words are accepted", n, len(words))
		}
	}
	for _, count := range []int64{-1, windowSize + 1, 256, 1 << 40} {
		hostile := slices.Clone(words)
		hostile[0] = count
		var p past
		r := Reader{Words: hostile}
		if p.read(&r); !r.Invalid || p.window.n != 0 {
			t.Errorf("a window of %d entries is accepted", count)
		}
	}
}
