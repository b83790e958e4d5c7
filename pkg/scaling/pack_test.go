package scaling

import (
	"reflect"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

// Two states get the same observations under changing policies, and one of them is packed and unpacked between the ticks. Their decisions
// must be equal.
func TestPackedStateDecidesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policies := []*Policy{anyPolicy(t, false), anyPolicy(t, false)}
		var unpacked, woken State
		var rest Packed
		now := nine
		for range rapid.IntRange(1, 40).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 60).Draw(t, "seconds")) * time.Second)
			p := policies[rapid.IntRange(0, 9).Draw(t, "edit")/9]
			o := anyObservation(t, p, now, false)
			unpacked.Decide(p, &o, now)
			rest.Unpack(&woken)
			woken.Decide(p, &o, now)
			rest.Pack(&woken)
			if woken.schedules != unpacked.schedules || woken.policy != unpacked.policy || !reflect.DeepEqual(unpacked.Numbers(), woken.Numbers()) {
				t.Fatalf("woke up as\n%+v\nand would have been\n%+v", woken, unpacked)
			}
		}
		var twin Packed
		twin.Copy(&rest)
		rest.Pack(&State{})
		if twin.Unpack(&woken); !reflect.DeepEqual(unpacked.Numbers(), woken.Numbers()) {
			t.Fatalf("a copy follows its original")
		}
		if rest.Unpack(&woken); woken != (State{}) {
			t.Fatalf("a zero state woke up as %+v", woken)
		}
	})
}

// numberFields sets every field of a state to a different number, so that the test detects a field that Pack omits.
func numberFields(v reflect.Value, next *int64) {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	*next++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Float64:
		v.SetFloat(float64(*next))
	case reflect.Array:
		for i := range v.Len() {
			numberFields(v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			numberFields(v.Field(i), next)
		}
	}
}

func TestPackKeepsEveryField(t *testing.T) {
	var s, got State
	var next int64
	numberFields(reflect.ValueOf(&s).Elem(), &next)
	s.policy = &Policy{Schedules: make([]Schedule, MaxSchedules)}
	s.down.n, s.up.n, s.steps.n = windowSize, windowSize, stepsSize
	var p Packed
	p.Pack(&s)
	if p.Unpack(&got); got != s {
		t.Errorf("unpacked\n%+v\nof\n%+v", got, s)
	}
}

func TestPackDoesNotAllocateAndAQuietStateIsSmall(t *testing.T) {
	p := benchPolicy()
	p.Schedules = []Schedule{on("launch", time.Hour, 2*time.Hour, 2, -1)}
	s, now := Seed(p, 6, nine), nine
	o := Observation{Replicas: 6, Ready: 6, Advice: NoAdvice, Operator: NoOperator, Readings: make([]Reading, 3)}
	var packed Packed
	tick := func() {
		now = now.Add(time.Second)
		for i, v := range []float64{58, 0.6, 0.5} {
			o.Readings[i] = Reading{Value: v, At: now, Coverage: 1, Known: true}
		}
		packed.Unpack(&s)
		s.Decide(p, &o, now)
		packed.Pack(&s)
	}
	packed.Pack(&s)
	for range 100 {
		tick()
	}
	if n := testing.AllocsPerRun(100, tick); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
	if n := 8 * len(packed.words); n > 256 {
		t.Errorf("a quiet state has %d bytes", n)
	}
}

func BenchmarkPackAndUnpack(b *testing.B) {
	s := Seed(benchPolicy(), 6, nine)
	var p Packed
	for b.Loop() {
		p.Pack(&s)
		p.Unpack(&s)
	}
}
