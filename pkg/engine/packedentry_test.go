package engine

import (
	"context"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/engine/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// fill sets every field of v to a generated value.
func fill(t *rapid.T, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		at := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos"))
		if *x = at.UTC(); rapid.Bool().Draw(t, "local") {
			*x = at.In(time.Local)
		}
		return
	case *scaling.Reasons:
		list := make([]scaling.Reason, rapid.IntRange(0, scaling.MaxReasons).Draw(t, "reasons"))
		for i := range list {
			fill(t, reflect.ValueOf(&list[i]).Elem())
		}
		*x = scaling.ReasonsOf(list)
		return
	case **scaling.Policy:
		*x = &scaling.Policy{MinReplicas: 3}
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint"))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Pointer:
		if v.SetZero(); rapid.Bool().Draw(t, "pointer") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		if v.SetZero(); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("a record contains a %s, which the history cannot store", v.Type())
	}
}

// A record that the history encodes and decodes keeps every field except the UID of the scale target. The test also covers fields that are
// added later.
func TestHistoryKeepsEveryFieldOfARecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want Record
		fill(t, reflect.ValueOf(&want).Elem())
		if rapid.Bool().Draw(t, "common text") {
			want.View.ManagedHPA.Kind = rapid.SampledFrom([]string{"HorizontalPodAutoscaler", "ScaledObject"}).Draw(t, "kind")
		}
		var h History
		h.add(&want, &want.Workload)
		want.View.UID = ""
		if got, ok := h.At(want.Workload.Key, want.At); !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("the history returned\n%+v\nwant\n%+v", got, want)
		}
	})
}

// A packedView keeps every field of a view. The test also covers fields that are added later.
func TestEntryKeepsEveryFieldOfAView(t *testing.T) {
	var k packedView
	rapid.Check(t, func(t *rapid.T) {
		want := View{Operator: scaling.NoOperator}
		if rapid.Bool().Draw(t, "seldom") {
			fill(t, reflect.ValueOf(&want).Elem())
		}
		k.set(&want)
		if got := k.unpack(); got != want || k.operator() != want.Operator {
			t.Fatalf("unpacked\n%+v\nof\n%+v", got, want)
		}
	})
}

// A reader that copied the view in one tick must not observe the values of later ticks.
func TestUnpackedViewDoesNotChangeWithTheNextTick(t *testing.T) {
	var k packedView
	k.set(&View{Crashing: 2, CrashingPod: "chat-0"})
	first := k.unpack()
	k.set(&View{Crashing: 1, CrashingPod: "chat-1"})
	if first.Crashing != 2 || first.CrashingPod != "chat-0" {
		t.Errorf("the copy changed to %+v", first)
	}
	if n := testing.AllocsPerRun(100, func() { k.set(&View{Crashing: 3, CrashingPod: "chat-1"}) }); n != 0 {
		t.Errorf("%g allocations for a view with a crashing pod", n)
	}
}

func TestHistoryKeepsNaNAndInfinities(t *testing.T) {
	r := Record{At: nine, Readings: []scaling.Reading{{Value: math.NaN()}, {Value: math.Inf(1)}, {}}}
	var h History
	h.add(&r, &r.Workload)
	found, _ := h.At(r.Workload.Key, nine)
	got := found.Readings
	if len(got) != 3 || !math.IsNaN(got[0].Value) || !math.IsInf(got[1].Value, 1) || got[2] != (scaling.Reading{}) {
		t.Errorf("the history returned the readings %+v", got)
	}
}

func TestRecordsShareTheWorkloadOfTheirVersion(t *testing.T) {
	w := newFakeCluster("chat")
	e := New(w, w, w, Options{})
	chat := w.workloads[0].Key
	e.Tick(context.Background(), nine)
	w.backlog[chat] = 90
	w.after(e, time.Second)
	w.workloads = []scaling.Workload{{Key: chat, Policy: queuePolicy(), Origin: "edited"}}
	w.backlog[chat] = 190
	w.after(e, time.Second)
	list := e.Decisions().history.log.Between(chat, nine, w.now)
	if len(list) != 3 || list[0].Value.workload != list[1].Value.workload || list[1].Value.workload == list[2].Value.workload {
		t.Fatalf("%d records", len(list))
	}
	for i, want := range []struct {
		replicas int32
		origin   string
	}{{2, ""}, {9, ""}, {19, "edited"}} {
		if r := unpack(list[i]); r.Decision.Replicas != want.replicas || r.Workload.Origin != want.origin || len(r.Readings) != 1 ||
			len(r.Without) == 0 {
			t.Errorf("record %d: %+v", i, r)
		}
	}
}

func BenchmarkEncodeRecord(b *testing.B) {
	s := newSteady(1)
	e := New(s, s, s, Options{})
	s.at(nine)
	e.Tick(context.Background(), nine)
	r, _ := e.Decisions().Record(s.workloads[0].Key)
	r.Workload, r.View.UID = scaling.Workload{}, "" // History.add also clears these fields before it encodes a record
	var encoder history.Encoder
	data := ""
	b.ReportAllocs()
	for b.Loop() {
		data = encoder.Encode(&r, r.At)
	}
	b.ReportMetric(float64(len(data)), "bytes")
}

// A packedDecision keeps every field of a decision. The test also covers fields that are added later.
func TestStoreKeepsEveryFieldOfADecision(t *testing.T) {
	var k packedDecision
	rapid.Check(t, func(t *rapid.T) {
		var want scaling.Decision
		fill(t, reflect.ValueOf(&want).Elem())
		k.set(&want)
		if got := k.unpack(); got != want {
			t.Fatalf("packedDecision\n%+v\nof\n%+v", got, want)
		}
	})
}
