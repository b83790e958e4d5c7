package scaling

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// tape decodes a policy and observations from the input of the fuzzer. At the end of the input, it returns only zero values.
type tape struct{ rest []byte }

func (t *tape) byte() byte {
	if len(t.rest) == 0 {
		return 0
	}
	b := t.rest[0]
	t.rest = t.rest[1:]
	return b
}

func (t *tape) word() uint64 {
	var b [8]byte
	t.rest = t.rest[copy(b[:], t.rest):]
	return binary.LittleEndian.Uint64(b[:])
}

func (t *tape) float() float64          { return math.Float64frombits(t.word()) }
func (t *tape) int32() int32            { return int32(t.word()) }
func (t *tape) duration() time.Duration { return time.Duration(t.word()) }

// policy decodes a policy, which is not validated and can be invalid.
func (t *tape) policy() *Policy {
	p := &Policy{Activation: Activation(t.byte() % 2), MinReplicas: t.int32(), MaxReplicas: t.int32(), CooldownPeriod: t.duration(),
		Panic:    Panic{t.float(), t.duration()},
		Fallback: Fallback{t.int32(), FallbackBehavior(t.byte() % 6), t.int32()}}
	for _, d := range []*Direction{&p.ScaleUp, &p.ScaleDown} {
		*d = Direction{StabilizationWindow: t.duration(), Tolerance: t.float(), Select: SelectPolicy(t.byte() % 4)}
		for range t.byte() % 4 {
			d.Rates = append(d.Rates, RatePolicy{RateType(t.byte() % 2), t.int32(), t.duration()})
		}
	}
	for range t.byte() % (MaxSignals + 2) {
		p.Signals = append(p.Signals, Signal{Kind: Kind(t.byte() % 2), Class: Class(t.byte() % 3), Target: t.float(),
			Activation: t.float(), Optional: t.byte()%2 == 0,
			MaxAge: t.duration(), MinCoverage: t.float()})
	}
	for range t.byte() % 4 {
		from := t.duration() % 1e15
		s := on("", from, from+t.duration()%1e15, t.int32(), t.int32())
		s.Lead = t.duration()
		p.Schedules = append(p.Schedules, s)
	}
	if t.byte()%4 == 0 {
		want, ok := t.float(), t.byte()%4 > 0
		p.Formula = func([]Proposal, int32, int32) (float64, bool) { return want, ok }
	}
	return p
}

func (t *tape) observation(now time.Time) Observation {
	o := Observation{Replicas: t.int32(), Ready: t.int32(), Loading: t.int32(), Pending: t.int32(), Forecast: t.int32(),
		Advice:   Advice{Cap: t.int32(), AtRisk: t.int32(), Surge: t.int32()},
		Operator: Operator{Paused: t.byte()%8 == 1, Min: t.int32(), Max: t.int32(), Until: now.Add(t.duration())}}
	if t.byte()%4 == 1 {
		o.HPAMaxReplicas = t.int32()
	}
	for range t.byte() % (MaxSignals + 2) {
		o.Readings = append(o.Readings, Reading{Value: t.float(), At: now.Add(t.duration()), Coverage: t.float(), Failures: t.int32(),
			Known: t.byte()%8 > 0})
	}
	return o
}

// FuzzDecide calls Decide with policies that were not validated, and with observations that do not occur in a cluster. It checks that the
// target is within the bounds, that the last reason contains the target, that two calls return the same result, and that missing inputs do
// not lower the target.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add([]byte("any bytes are a policy and its observations; Decide must not fail for any of them, at any time of the day"), int64(-1))
	seed := make([]byte, 600)
	for i := range seed {
		seed[i] = byte(i * 37)
	}
	f.Add(seed, int64(1763888400))
	f.Fuzz(func(t *testing.T, data []byte, start int64) {
		tape := tape{data}
		p := tape.policy()
		now := time.Unix(start, 0)
		s := Seed(p, tape.int32(), now)
		for range 8 {
			o := tape.observation(now)
			d, next := Decide(p, o, s, now)
			sound(t, p, o, &d)
			if again, _ := Decide(p, o, s, now); again != d {
				t.Errorf("two answers: %+v and %+v", d, again)
			}
			if n := Without(p, o, s, now, d.Binding, d.BindingIndex); (n == d.Replicas) != (d.Tied != RuleNone) {
				t.Errorf("%d, without %v %d %d, tied %v", d.Replicas, d.Binding, d.BindingIndex, n, d.Tied)
			}
			written := o.Operator.Paused || now.Before(o.Operator.Until) && o.Operator.Max >= 0 || len(p.Schedules) > 0
			if least := min(o.Replicas, highest(p, o), maxReplicas); d.Degraded && !written && d.Replicas < least {
				t.Errorf("the target decreased from %d to %d with missing inputs\n%s", o.Replicas, d.Replicas, table(p, &d))
			}
			s = next
			now = now.Add(tape.duration())
		}
	})
}
