package history

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// sample has a field of every kind that the encoding supports.
type sample struct {
	Flag    bool
	Signed  int32
	Small   uint8
	Value   float64
	Text    string
	At      time.Time
	Pointer *sample
	List    []float64
	Array   [4]int64
}

// Decode must return these values unchanged: negative and largest numbers, a pointer to a zero value, an array that ends with zeros, texts
// of the list commonTexts, times far from the base time and times in the local time zone.
func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	base := nine
	for name, want := range map[string]sample{
		"zero":          {},
		"numbers":       {Flag: true, Signed: math.MinInt32, Small: math.MaxUint8, Value: -0.1, Array: [4]int64{math.MinInt64, math.MaxInt64}},
		"common text":   {Text: "ScaledObject"},
		"text":          {Text: "ScaledObjects"},
		"past":          {At: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)},
		"future, local": {At: time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC).In(time.Local)},
		"nested":        {Pointer: &sample{Pointer: &sample{}, List: []float64{0, math.Inf(-1), 47, 0}}},
	} {
		var e Encoder
		e.Encode(&sample{Text: "the buffer is reused"}, base)
		data := e.Encode(&want, base)
		var got sample
		if Decode(data, base, &got); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// The memory for records depends on the size of the encoding: the zero value takes one byte, and a value near the base time takes few
// bytes.
func TestEncodingIsCompact(t *testing.T) {
	var e Encoder
	if data := e.Encode(&sample{}, nine); len(data) != 1 {
		t.Errorf("the zero value takes %d bytes, want 1", len(data))
	}
	if data := e.Encode(&sample{Value: 47, At: nine.Add(time.Minute), Text: "ScaledObject"}, nine); len(data) > 12 {
		t.Errorf("three fields take %d bytes, want at most 12", len(data))
	}
}

// Encode must panic for a field of an unsupported type. Otherwise the value of a new field could be lost without a failed test.
func TestEncodePanicsOnAnUnsupportedType(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Encode accepted a map")
		}
	}()
	var e Encoder
	e.Encode(&struct{ Labels map[string]string }{map[string]string{"a": "b"}}, nine)
}
