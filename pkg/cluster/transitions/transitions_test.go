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

// sender keeps the Events that were sent since the last call of take.
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
	r.SendDue(night)
	r.Add(change(3, 3, false))
	r.SendDue(night.Add(time.Minute))
	want := []string{"llama SignalsMissing: 3: combine (policy team/chat)", "llama SignalsRecovered: 3: combine (policy team/chat)"}
	if got := s.take(); !slices.Equal(got, want) {
		t.Errorf("Events %q, want %q", got, want)
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
