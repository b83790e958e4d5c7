package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func change(before, after int32, degraded bool) []engine.Change {
	return []engine.Change{{
		Workload: workload("chat"), Before: before,
		After: scaling.Decision{Replicas: after, Degraded: degraded, Binding: scaling.RuleCombine},
	}}
}

func told(t *testing.T) *Cluster {
	t.Helper()
	c := still(Options{})
	c.world.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
	return c
}

func TestAChangeIsToldOnceAndAFlappingWorkloadAsOneChange(t *testing.T) {
	c := told(t)
	c.transitions.note(change(3, 5, false))
	c.transitions.tell(night)
	if got := notes(c); !slices.Equal(got, []string{"TargetChanged: 3 -> 5: combine (policy team/chat)"}) {
		t.Errorf("told %v", got)
	}
	for i, to := range []int32{6, 5, 7} {
		c.transitions.note(change([]int32{5, 6, 5}[i], to, false))
		c.transitions.tell(night.Add(time.Duration(i+1) * time.Second))
	}
	if got := notes(c); len(got) != 0 {
		t.Errorf("told %v within half a minute", got)
	}
	c.transitions.tell(night.Add(transitionEvery))
	if got := notes(c); !slices.Equal(got, []string{"TargetChanged: 5 -> 7: combine (policy team/chat)"}) {
		t.Errorf("told %v", got)
	}
}

func TestAChangeThatWasTakenBackIsNotTold(t *testing.T) {
	c := told(t)
	c.transitions.note(change(3, 5, false))
	c.transitions.note(change(5, 3, false))
	c.transitions.tell(night)
	if got := notes(c); len(got) != 0 {
		t.Errorf("told %v", got)
	}
}

func TestMissingSignalsAreAWarningAndTheirReturnIsToldToo(t *testing.T) {
	c := told(t)
	c.transitions.note(change(3, 3, true))
	c.transitions.tell(night)
	c.transitions.note(change(3, 3, false))
	c.transitions.tell(night.Add(time.Minute))
	got := notes(c)
	want := []string{"SignalsMissing: 3: combine (policy team/chat)", "SignalsRecovered: 3: combine (policy team/chat)"}
	if !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

func TestAnAdvisoryPolicyWritesNothing(t *testing.T) {
	c := told(t)
	changes := change(3, 5, false)
	changes[0].Workload.Mode = scaling.Advisory
	if err := c.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	c.transitions.tell(night)
	if got := notes(c); len(got) != 0 {
		t.Errorf("told %v", got)
	}
}

func TestWhatIsWrongIsToldOnceAgainEachHourAndWhenPutRightNoMore(t *testing.T) {
	c := told(t)
	c.options.Policies = fixed{*workload("chat")}
	h := exactHPA("chat", "chat", "chat")
	h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = nil
	h.Annotations = map[string]string{annotations.Override: "min=3"}
	wrong := must(trimHPA(h)).(*hpaFacts)
	c.world.putHPA(nil, wrong)
	l := &linter{cluster: c, told: map[complaint]time.Time{}}
	l.round(night)
	first := notes(c)
	slices.Sort(first)
	if len(first) != 2 || !strings.HasPrefix(first[0], events.AnnotationInvalid) || !strings.HasPrefix(first[1], events.HPAMisconfigured) {
		t.Fatalf("told %v", first)
	}
	l.round(night.Add(time.Minute))
	if again := notes(c); len(again) != 0 {
		t.Errorf("told again after a minute: %v", again)
	}
	l.round(night.Add(time.Hour))
	if again := notes(c); len(again) != 2 {
		t.Errorf("the Events are forgotten after an hour, told again: %v", again)
	}
	c.world.putHPA(wrong, must(trimHPA(exactHPA("chat", "chat", "chat"))).(*hpaFacts))
	l.round(night.Add(2 * time.Hour))
	if again := notes(c); len(again) != 0 || len(l.told) != 0 {
		t.Errorf("told %v of what was put right", again)
	}
}

func TestANamespaceThatExceedsALimitAtADataSourceIsNamedInAnEventOfItsOwn(t *testing.T) {
	c := told(t)
	limits := []SourceLimit{{Namespace: "evil", Note: "too many series"}, {Namespace: "far", Outside: true, Note: "too many series"}}
	c.options.SourceLimits = func() []SourceLimit { return limits }
	l := &linter{cluster: c, told: map[complaint]time.Time{}}
	l.round(night)
	found := map[string]string{}
	for _, e := range takeEvents(c) {
		if e.reason != events.SourceLimit || e.about.Kind != "Namespace" || e.note != "too many series" {
			t.Errorf("event %+v", e)
		}
		found[e.about.Name] = e.about.Namespace
	}
	if len(found) != 2 || found["evil"] != "evil" || found["far"] != "" {
		t.Errorf("Events are written into %v", found)
	}
	l.round(night.Add(time.Minute))
	if again := notes(c); len(again) != 0 {
		t.Errorf("told again after a minute: %v", again)
	}
	limits = nil
	l.round(night.Add(2 * time.Minute))
	if len(l.told) != 0 {
		t.Errorf("%v is kept of limits that are not exceeded any more", l.told)
	}
}
