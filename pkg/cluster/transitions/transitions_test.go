package transitions

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var night = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// sender stores the Events that were sent since the last call of take.
type sender struct{ sent []string }

func (s *sender) Send(about corev1.ObjectReference, _, reason, note string) {
	s.sent = append(s.sent, about.Name+" "+reason+": "+note)
}

func (s *sender) take() []string {
	sent := s.sent
	s.sent = nil
	return sent
}

func newReporter(exists bool) (*Reporter, *sender) {
	s := &sender{}
	return New(s, func(w *scaling.Workload) (corev1.ObjectReference, bool) {
		return corev1.ObjectReference{Name: w.Target.Name}, exists
	}), s
}

func change(before, after int32, degraded bool) []engine.Change {
	return []engine.Change{{
		Workload: &scaling.Workload{
			Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "llama"}, Policy: &scaling.Policy{},
		},
		Before: before,
		After:  scaling.Decision{Replicas: after, Degraded: degraded, Binding: scaling.RuleCombine},
	}}
}

func TestChangesWithinHalfAMinuteAreOneEvent(t *testing.T) {
	r, s := newReporter(true)
	r.Add(change(3, 5, false))
	r.SendDue(night)
	if got := s.take(); !slices.Equal(got, []string{"llama TargetChanged: 3 -> 5: combine (policy team/chat)"}) {
		t.Errorf("Events %q", got)
	}
	for i, to := range []int32{6, 5, 7} {
		r.Add(change([]int32{5, 6, 5}[i], to, false))
		r.SendDue(night.Add(time.Duration(i+1) * time.Second))
	}
	if got := s.take(); len(got) != 0 {
		t.Errorf("Events %q within half a minute", got)
	}
	r.SendDue(night.Add(eventInterval))
	if got := s.take(); !slices.Equal(got, []string{"llama TargetChanged: 5 -> 7: combine (policy team/chat)"}) {
		t.Errorf("Events %q", got)
	}
}

func TestRevertedChangeHasNoEvent(t *testing.T) {
	r, s := newReporter(true)
	r.Add(change(3, 5, false))
	r.Add(change(5, 3, false))
	r.SendDue(night)
	if got := s.take(); len(got) != 0 {
		t.Errorf("Events %q", got)
	}
}

func TestMissingSignalsAreAWarningAndTheirReturnIsReported(t *testing.T) {
	r, s := newReporter(true)
	r.Add(change(3, 3, true))
	for after := time.Duration(0); after < missingInputsDelay; after += time.Second {
		r.SendDue(night.Add(after))
	}
	if got := s.take(); len(got) != 0 {
		t.Errorf("Events %q before signals have been missing for %s", got, missingInputsDelay)
	}
	r.SendDue(night.Add(missingInputsDelay))
	r.Add(change(3, 3, false))
	r.SendDue(night.Add(missingInputsDelay + eventInterval))
	want := []string{"llama SignalsMissing: 3: combine (policy team/chat)", "llama SignalsRecovered: 3: combine (policy team/chat)"}
	if got := s.take(); !slices.Equal(got, want) {
		t.Errorf("Events %q, want %q", got, want)
	}
}

// The signal queue raises the target while another signal is missing. Before the Event is due, queue is also missing. The text of the Event
// must begin with the cause of the change.
func TestEventLeadsWithTheCauseOfTheChangeAndThenNamesTheMissingSignal(t *testing.T) {
	policy := &scaling.Policy{
		Signals: []scaling.Signal{
			{Name: "gpu", Target: 0.7, Unit: scaling.Percent, MaxAge: time.Minute}, {Name: "queue", Target: 10, MaxAge: time.Minute},
		},
		MinReplicas: 1, MaxReplicas: 20,
	}
	work := &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{Name: "llama"}, Policy: policy}
	missing := scaling.Reading{Cause: scaling.CauseUnreachable, Failures: 3, Reported: -1}
	state := scaling.Seed(policy, 3, night.Add(-time.Minute))
	decide := func(now time.Time, readings ...scaling.Reading) engine.Change {
		before := int32(9)
		if now.Equal(night) {
			before = 3
		}
		d := state.Decide(policy, &scaling.Observation{Replicas: before, Ready: before, Readings: readings, Advice: scaling.NoAdvice,
			Operator: scaling.NoOperator}, now)
		return engine.Change{Workload: work, Before: before, After: d}
	}
	r, s := newReporter(true)
	r.Add([]engine.Change{decide(night, missing, scaling.Reading{Known: true, Value: 87, At: night, Coverage: 1, Reported: -1})})
	r.Add([]engine.Change{decide(night.Add(2*time.Minute), missing, missing)})
	r.SendDue(night.Add(2 * time.Minute))
	const both = "gpu is missing, 1 more cannot be used: no scale-down (policy team/chat)"
	want := []string{"llama TargetChanged: 3 -> 9: queue 87 needs 9 replicas (target 10 per replica); " + both}
	if got := s.take(); !slices.Equal(got, want) {
		t.Errorf("Events\n%q, want\n%q", got, want)
	}
	r.SendDue(night.Add(2*time.Minute + missingInputsDelay))
	if got, want := s.take(), []string{"llama SignalsMissing: 9: " + both}; !slices.Equal(got, want) {
		t.Errorf("Events\n%q, want\n%q", got, want)
	}
	// the signals are still missing, so another change must not repeat the warning
	raise := engine.Change{Workload: work, Before: 9, After: scaling.Decision{
		Replicas: 12, Binding: scaling.RuleOverride, BindingIndex: -1, Degraded: true,
		Reasons: scaling.ReasonsOf([]scaling.Reason{{Rule: scaling.RuleOverride, Index: -1, From: 9, To: 12, A: 12, B: -1}}),
	}}
	r.Add([]engine.Change{raise})
	r.SendDue(night.Add(4 * time.Minute))
	if got := s.take(); !slices.Equal(got, []string{"llama TargetChanged: 9 -> 12: override by annotation: min 12 (policy team/chat)"}) {
		t.Errorf("Events %q", got)
	}
}

func TestAdvisoryPolicyAndMissingTargetHaveNoEvent(t *testing.T) {
	r, s := newReporter(true)
	changes := change(3, 5, false)
	changes[0].Workload.Mode = scaling.Advisory
	r.Add(changes)
	r.SendDue(night)
	absent, sent := newReporter(false)
	absent.Add(change(3, 5, false))
	absent.SendDue(night)
	if got := append(s.take(), sent.take()...); len(got) != 0 {
		t.Errorf("Events %q", got)
	}
}
