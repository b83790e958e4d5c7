package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var night = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func change(before, after int32, degraded bool) []engine.Change {
	return []engine.Change{{
		Workload: fixture.Workload("chat"), Before: before,
		After: scaling.Decision{Replicas: after, Degraded: degraded, Binding: scaling.RuleCombine},
	}}
}

func clusterWithChat(t *testing.T) *Cluster {
	t.Helper()
	c := still(Options{})
	c.cache.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	return c
}

func TestChangesWithinHalfAMinuteAreOneEvent(t *testing.T) {
	c := clusterWithChat(t)
	c.transitions.note(change(3, 5, false))
	c.transitions.tell(night)
	if got := notes(c); !slices.Equal(got, []string{"TargetChanged: 3 -> 5: combine (policy team/chat)"}) {
		t.Errorf("Events %v", got)
	}
	for i, to := range []int32{6, 5, 7} {
		c.transitions.note(change([]int32{5, 6, 5}[i], to, false))
		c.transitions.tell(night.Add(time.Duration(i+1) * time.Second))
	}
	if got := notes(c); len(got) != 0 {
		t.Errorf("Events %v within half a minute", got)
	}
	c.transitions.tell(night.Add(transitionEvery))
	if got := notes(c); !slices.Equal(got, []string{"TargetChanged: 5 -> 7: combine (policy team/chat)"}) {
		t.Errorf("Events %v", got)
	}
}

func TestRevertedChangeHasNoEvent(t *testing.T) {
	c := clusterWithChat(t)
	c.transitions.note(change(3, 5, false))
	c.transitions.note(change(5, 3, false))
	c.transitions.tell(night)
	if got := notes(c); len(got) != 0 {
		t.Errorf("Events %v", got)
	}
}

func TestMissingSignalsAreAWarningAndTheirReturnIsReported(t *testing.T) {
	c := clusterWithChat(t)
	c.transitions.note(change(3, 3, true))
	c.transitions.tell(night)
	c.transitions.note(change(3, 3, false))
	c.transitions.tell(night.Add(time.Minute))
	got := notes(c)
	want := []string{"SignalsMissing: 3: combine (policy team/chat)", "SignalsRecovered: 3: combine (policy team/chat)"}
	if !slices.Equal(got, want) {
		t.Errorf("Events %v, want %v", got, want)
	}
}

func TestAdvisoryPolicyHasNoEvent(t *testing.T) {
	c := clusterWithChat(t)
	changes := change(3, 5, false)
	changes[0].Workload.Mode = scaling.Advisory
	if err := c.Apply(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	c.transitions.tell(night)
	if got := notes(c); len(got) != 0 {
		t.Errorf("Events %v", got)
	}
}
