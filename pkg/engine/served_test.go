package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// identified is a fake cluster that also returns the UID of a scale target. With it, a test can replace the scale target between two ticks.
type identified struct {
	*fakeCluster
	uids map[scaling.Key]string // no entry: the scale target does not exist
}

func (c identified) TargetUID(w *scaling.Workload) (string, bool) {
	uid, ok := c.uids[w.Key]
	return uid, ok
}

func found(uid string, replicas int32) View {
	return View{UID: uid, Replicas: replicas, Ready: replicas, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
}

// edited replaces the workload by a changed copy with a new Policy, as the policy store does after a user edited the policy.
func (w *fakeCluster) edited(change func(*scaling.Workload)) {
	next := w.workloads[0]
	p := *next.Policy
	next.Policy = &p
	change(&next)
	w.workloads = []scaling.Workload{next}
}

func TestTargetOfADeletedWorkloadIsNotServed(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.views[chat], w.backlog[chat] = found("a", 24), 240
	e := New(w, w, w, Options{})
	w.after(e, time.Minute)
	if got, err := e.Decisions().Lookup(chat, w.now); err != nil || got.Replicas != 24 {
		t.Fatalf("before the deletion: %+v, %v, want 24", got, err)
	}
	delete(w.views, chat)
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrUnseen) {
		t.Errorf("one tick after the deletion: %+v, %v, want ErrUnseen", got, err)
	}
	w.views[chat] = found("a", 24) // the cache contains the scale target again, after one tick without it
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); err != nil || got.Replicas != 24 {
		t.Errorf("the same object again: %+v, %v, want 24", got, err)
	}
}

func TestRecreatedWorkloadIsNotServedThePreviousTarget(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.views[chat], w.backlog[chat] = found("a", 24), 240
	c := identified{w, map[scaling.Key]string{chat: "a"}}
	e := New(w, w, c, Options{})
	w.after(e, time.Minute)

	// The Deployment is deleted between two ticks and created again with one replica.
	delete(c.uids, chat)
	if got, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrUnseen) {
		t.Errorf("deleted, before the next tick: %+v, %v, want ErrUnseen", got, err)
	}
	c.uids[chat] = "b"
	if got, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrReplaced) {
		t.Errorf("created again, before the next tick: %+v, %v, want ErrReplaced", got, err)
	}
	w.views[chat], w.backlog[chat] = found("b", 1), 10
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); err != nil || got.Replicas != 1 {
		t.Errorf("the first target of the new object: %+v, %v, want 1: the windows of its predecessor are not its own", got, err)
	}
}

func TestPanickingWorkloadIsServedWithinEditedBounds(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*scaling.Workload)
		want int32
		err  error
	}{
		"a lower maximum":      {func(w *scaling.Workload) { w.Policy.MaxReplicas = 10 }, 10, nil},
		"a higher minimum":     {func(w *scaling.Workload) { w.Policy.MinReplicas = 30 }, 30, nil},
		"wider bounds":         {func(w *scaling.Workload) { w.Policy.MaxReplicas = 30 }, 24, nil},
		"minimum over maximum": {func(w *scaling.Workload) { w.Policy.MinReplicas, w.Policy.MaxReplicas = 30, 10 }, 10, nil},
		"another target":       {func(w *scaling.Workload) { w.Target.Name = "other" }, 0, ErrReplaced},
		"hold":                 {func(w *scaling.Workload) { w.Mode = scaling.Hold }, 0, ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeCluster("chat")
			chat := w.workloads[0].Key
			w.views[chat], w.backlog[chat] = found("a", 24), 240
			e := New(w, w, w, Options{})
			w.after(e, time.Minute)
			w.explode = []scaling.Key{chat}
			w.edited(c.edit)
			for range 59 {
				w.after(e, time.Second)
				got, err := e.Decisions().Lookup(chat, w.now)
				if !errors.Is(err, c.err) || got.Replicas != c.want {
					t.Fatalf("%s after the edit: %+v, %v, want %d, %v", w.now.Sub(nine)-time.Minute, got, err, c.want, c.err)
				}
				if r, _ := e.Decisions().Record(chat); !r.Superseded {
					t.Fatal("the record does not say that the policy changed after the decision")
				}
			}
			w.after(e, 2*time.Second)
			if got, err := e.Decisions().Lookup(chat, w.now); err == nil {
				t.Errorf("after more than a minute without a decision: %+v", got)
			}
			w.explode = nil
			w.after(e, time.Second)
			if r, _ := e.Decisions().Record(chat); r.Superseded || r.Unseen {
				t.Errorf("a decision with the current policy: superseded %v, unseen %v", r.Superseded, r.Unseen)
			}
		})
	}
}

func TestPausedWorkloadIsNotRaisedToAnEditedMinimum(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	v := found("a", 0)
	v.Operator.Paused = true
	w.views[chat] = v
	e := New(w, w, w, Options{})
	w.after(e, time.Minute)
	w.explode = []scaling.Key{chat}
	w.edited(func(w *scaling.Workload) { w.Policy.MinReplicas = 3 })
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); err != nil || got.Replicas != 0 {
		t.Errorf("paused at 0, minReplicas 3: %+v, %v, want 0", got, err)
	}
}

func TestMissingWorkloadIsNotServedAfterAnEdit(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.views[chat], w.backlog[chat] = found("a", 24), 240
	e := New(w, w, w, Options{})
	w.after(e, time.Minute)
	delete(w.views, chat)
	w.edited(func(w *scaling.Workload) { w.Policy.MaxReplicas = 10 })
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrUnseen) {
		t.Errorf("%+v, %v, want ErrUnseen", got, err)
	}
}

func TestDecisionFromTheFutureIsNotServed(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	e := New(w, w, w, Options{})
	w.after(e, time.Minute)
	for _, back := range []time.Duration{time.Nanosecond, time.Second, time.Hour} {
		if got, err := e.Decisions().Lookup(chat, w.now.Add(-back)); !errors.Is(err, ErrFuture) {
			t.Errorf("the clock stepped back %s: %+v, %v, want ErrFuture", back, got, err)
		}
	}
	// The clock is set back by an hour, and from then on every decision of the workload panics. The old decision must not be served,
	// although its age is negative for an hour.
	w.now, w.explode = w.now.Add(-time.Hour), []scaling.Key{chat}
	// After an hour, the clock reaches the time of the decision again, but the decision is an hour old.
	for range 3660 {
		w.now = w.now.Add(time.Second)
		e.Tick(context.Background(), w.now)
		if got, err := e.Decisions().Lookup(chat, w.now); err == nil {
			t.Fatalf("at %s a decision of %s is served: %+v", w.now, got.At, got)
		}
	}
}

// The clock is set back while a scale target is not found. The time since the last decision is then unknown, so the next decision starts
// from the observed replicas.
func TestScaleTargetFoundAfterAClockStepBackStartsFromItsReplicas(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.workloads[0].Policy = ratePolicy()
	w.views[chat], w.backlog[chat] = found("", 1), 10
	e := New(w, w, w, Options{})
	w.after(e, time.Hour)
	delete(w.views, chat)
	w.now = w.now.Add(-30 * time.Minute)
	w.after(e, 10*time.Minute)
	w.views[chat] = found("", 12)
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); err != nil || got.Replicas < 11 {
		t.Errorf("%+v, %v, want at least 11 of the 12 replicas that were found", got, err)
	}
}

// refusing is a cluster that refuses every scale target, with why as the reason. If why is empty, it refuses no scale target.
type refusing struct {
	*fakeCluster
	why string
}

func (c refusing) View(w *scaling.Workload) (View, bool) {
	v, ok := c.fakeCluster.View(w)
	return v, ok && c.why == ""
}

func (c refusing) Refusal(*scaling.Workload) string { return c.why }

func TestRefusedScaleTargetIsNotServed(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	c := &refusing{fakeCluster: w}
	e := New(w, w, c, Options{})
	w.after(e, time.Minute)
	c.why = "Rollout team/chat has 6 pods for 3 replicas"
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrUnseen) || err.Error() != c.why {
		t.Errorf("%+v, %v, want %q", got, err, c.why)
	}
	if r, _ := e.Decisions().Record(chat); !r.Unseen || r.Refusal != c.why {
		t.Errorf("record: unseen %v, refusal %q", r.Unseen, r.Refusal)
	}
	c.why = ""
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); err != nil {
		t.Errorf("no reason is left: %+v, %v", got, err)
	}
	if r, _ := e.Decisions().Record(chat); r.Unseen || r.Refusal != "" {
		t.Errorf("record: unseen %v, refusal %q", r.Unseen, r.Refusal)
	}
}
