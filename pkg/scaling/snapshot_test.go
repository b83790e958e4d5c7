package scaling

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

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
