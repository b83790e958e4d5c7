package scaling

import (
	"reflect"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

// Two states receive the same observations, while their policies change. One of the states is packed and unpacked between the ticks. Both
// states must result in the same decisions.
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

// numberFields sets every field of a state to a different number, so that the test detects a field that Pack omits. It does not set the
// fields of windows and steps, because package history tests their encoding.
func numberFields(v reflect.Value, next *int64) {
	switch v.Type() {
	case reflect.TypeFor[history.Window](), reflect.TypeFor[history.Steps]():
		return
	}
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
	for i := range int32(100) {
		s.down.Push(int64(i), 100-i, 0)
		s.up.Push(int64(i), 200-i, 0)
		s.steps.Push(int64(i), i, 1000)
	}
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

// A state that was encoded and decoded must give the same decision as the original state.
func TestDecodedStateDecidesTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Policy{
			Signals: []Signal{{Name: "queue", Target: 5, MaxAge: time.Minute}}, MaxReplicas: 50, CooldownPeriod: time.Minute,
			ScaleDown: Direction{StabilizationWindow: 3 * time.Minute, Rates: []RatePolicy{{Value: 2, Period: time.Minute}}},
			ScaleUp:   Direction{StabilizationWindow: 20 * time.Second}, Panic: Panic{Threshold: 2, Window: 30 * time.Second},
		}
		var s State
		now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
		for range rapid.IntRange(2, 80).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
			o := Observation{Replicas: 3, Ready: 3, Advice: NoAdvice, Operator: NoOperator,
				Readings: []Reading{{Value: rapid.Float64Range(0, 300).Draw(t, "queue"), At: now, Coverage: 1, Reported: -1,
					Known: rapid.Bool().Draw(t, "known")}}}
			again, err := StateOf(p, s.Numbers())
			if err != nil {
				t.Fatal(err)
			}
			again.policy = s.policy
			want, got := s.Decide(p, &o, now), again.Decide(p, &o, now)
			if want != got {
				t.Fatalf("%+v from its numbers, %+v otherwise", got, want)
			}
		}
		numbers := s.Numbers()
		if _, err := StateOf(p, numbers[:len(numbers)-1]); err == nil {
			t.Fatal("a missing number is accepted")
		}
		if _, err := StateOf(p, append(numbers, 1)); err == nil {
			t.Fatal("an additional number is accepted")
		}
	})
}

func BenchmarkPackAndUnpack(b *testing.B) {
	s := Seed(benchPolicy(), 6, nine)
	var p Packed
	for b.Loop() {
		p.Pack(&s)
		p.Unpack(&s)
	}
}
