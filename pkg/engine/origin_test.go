package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func ratePolicy() *scaling.Policy {
	p := queuePolicy()
	p.ScaleDown.Rates = []scaling.RatePolicy{{Type: scaling.Pods, Value: 1, Period: time.Minute}}
	return p
}

// lift runs a workload with 12 replicas for an hour in a mode in which its target is not served. The load needs only one replica. After the
// change to mode auto, the target must not decrease faster than the scale-down rate allows.
func lift(t *testing.T, from scaling.Mode) {
	w := newFakeCluster()
	chat := w.add("chat", from)
	p := ratePolicy()
	w.workloads[0].Policy = p
	w.views[chat] = View{Replicas: 12, Ready: 12, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	w.backlog[chat] = 10 // the load needs 1 replica
	e := New(w, w, w, Options{})
	w.after(e, time.Hour) // no HPA applies the target, so 12 replicas run
	w.workloads = []scaling.Workload{{Key: chat, Policy: p, Mode: scaling.Auto}}
	w.after(e, time.Second)
	got, err := e.Decisions().Lookup(chat, w.now)
	if err != nil || got.Replicas < 11 {
		t.Errorf("%v lifted with 12 replicas running and a rate of 1 pod a minute: served %d, %v, want >= 11", from, got.Replicas, err)
	}
}
func TestEndOfHoldDoesNotScaleDownAtOnce(t *testing.T)     { lift(t, scaling.Hold) }
func TestEndOfAdvisoryDoesNotScaleDownAtOnce(t *testing.T) { lift(t, scaling.Advisory) }

// growing is a workload whose server does not respond: its queue grows although its GPUs are idle.
type growing struct{ *fakeCluster }

func (g growing) Read(_ *scaling.Workload, out []scaling.Reading) {
	out[0] = scaling.Reading{Value: 10 + g.now.Sub(nine).Seconds()/10, At: g.now, Coverage: 1, Known: true}
	out[1] = scaling.Reading{Value: 0.05, At: g.now, Coverage: 1, Reported: 12, Measured: 12, Known: true}
}

func TestEndOfHoldKeepsTheTrendOfAGrowingQueue(t *testing.T) {
	g := growing{newFakeCluster()}
	chat := g.add("chat", scaling.Hold)
	p := ratePolicy()
	p.ScaleDown.StabilizationWindow = 0
	p.Signals = append(p.Signals, scaling.Signal{Name: "gpu", Kind: scaling.Mean, Class: scaling.Utilization, Target: 0.7,
		MaxAge: time.Minute})
	g.workloads[0].Policy = p
	g.views[chat] = View{Replicas: 12, Ready: 12, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	e := New(g, g, g, Options{})
	g.after(e, 5*time.Minute)
	g.workloads = []scaling.Workload{{Key: chat, Policy: p, Mode: scaling.Auto}}
	for range 20 {
		g.after(e, time.Second)
		if got, err := e.Decisions().Lookup(chat, g.now); err != nil || got.Replicas != 12 {
			t.Fatalf("served %d, %v: the queue grows, and 12 replicas run", got.Replicas, err)
		}
	}
}

func TestAnotherScaleTargetStartsFromItsReplicas(t *testing.T) {
	w := newFakeCluster()
	chat := w.add("chat", scaling.Auto)
	w.workloads[0].Policy = ratePolicy()
	w.workloads[0].Target.Name = "old"
	w.backlog[chat] = 10
	w.views[chat] = View{Replicas: 1, Ready: 1, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	e := New(w, w, w, Options{})
	w.after(e, time.Hour)
	w.workloads = []scaling.Workload{{Key: chat, Policy: ratePolicy(), Target: scaling.Target{Name: "new"}}}
	w.views[chat] = View{Replicas: 12, Ready: 12, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	w.after(e, time.Second)
	got, err := e.Decisions().Lookup(chat, w.now)
	if err != nil || got.Replicas < 11 {
		t.Errorf("new target with 12 replicas: served %d, %v, want >= 11", got.Replicas, err)
	}
	if origin := e.Decisions().StateOrigin(chat); origin != Replaced {
		t.Errorf("the recording contains the origin %v, want Replaced", origin)
	}
	w.after(e, time.Second)
	if origin := e.Decisions().StateOrigin(chat); origin != Continued {
		t.Errorf("one tick later the origin is %v, want Continued", origin)
	}
}

func TestHoldAppliesToAMissingScaleTarget(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	e := New(w, w, w, Options{})
	e.Tick(context.Background(), nine)
	delete(w.views, chat)
	w.workloads = []scaling.Workload{{Key: chat, Policy: queuePolicy(), Mode: scaling.Hold}}
	w.after(e, time.Second)
	if got, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrHeld) {
		t.Errorf("hold, target unseen: %+v %v, want ErrHeld", got, err)
	}
}

func TestRecreatedScaleTargetStartsFromItsReplicas(t *testing.T) {
	w := newFakeCluster()
	chat := w.add("chat", scaling.Auto)
	w.workloads[0].Policy = ratePolicy()
	w.backlog[chat] = 10
	w.views[chat] = View{Replicas: 1, Ready: 1, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	e := New(w, w, w, Options{})
	w.after(e, time.Hour)
	delete(w.views, chat)
	w.after(e, 10*time.Minute)
	w.views[chat] = View{Replicas: 12, Ready: 12, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	w.after(e, time.Second)
	got, err := e.Decisions().Lookup(chat, w.now)
	if err != nil || got.Replicas < 11 {
		t.Errorf("recreated with 12 replicas: served %d, %v, want >= 11", got.Replicas, err)
	}
}

func TestNewManagedHPAStartsFromTheObservedReplicas(t *testing.T) {
	w := newFakeCluster()
	chat := w.add("chat", scaling.Auto)
	w.workloads[0].Policy = ratePolicy()
	w.backlog[chat] = 10 // the load needs 1 replica; the target decreases to 1, but no HPA applies it
	unfollowed := View{Replicas: 12, Ready: 12, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	w.views[chat] = unfollowed
	e := New(w, w, w, Options{})
	w.after(e, time.Hour)
	followed := unfollowed
	followed.MaxReplicas, followed.ManagedHPA = 40, ManagedHPA{Kind: "HorizontalPodAutoscaler", Name: "chat"}
	w.views[chat] = followed
	w.after(e, time.Second)
	got, err := e.Decisions().Lookup(chat, w.now)
	if err != nil || got.Replicas < 11 {
		t.Errorf("the HPA's first read with 12 replicas running and a rate of 1 pod a minute: %d, %v, want >= 11", got.Replicas, err)
	}
}

func TestPanicOfOnTransitionAffectsOneWorkload(t *testing.T) {
	w := newFakeCluster("bad", "good")
	good := w.workloads[1].Key
	e := New(w, w, w, Options{OnTransition: func(r Record) {
		if r.Workload.Key != good {
			panic("a bug in a listener")
		}
	}})
	out := e.Tick(context.Background(), nine)
	if _, err := e.Decisions().Lookup(good, nine); err != nil || len(out.Errors) != 1 || out.Decided != 1 {
		t.Errorf("outcome %+v, the other workload %v", out, err)
	}
}

// An idle workload has the target 0, and a user scales it to 5. The cooldown of 10 minutes starts with that change. The target is 5 during
// the stabilization window of 5 minutes, and it is 0 after the cooldown.
func TestManualScaleUpFromZeroStartsTheCooldown(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	p := w.workloads[0].Policy
	p.MinReplicas, p.CooldownPeriod, p.ScaleDown.StabilizationWindow = 0, 10*time.Minute, 5*time.Minute
	w.backlog[chat] = 0
	w.views[chat] = View{Replicas: 0, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	e := New(w, w, w, Options{})
	served := func() int32 {
		d, err := e.Decisions().Lookup(chat, w.now)
		if err != nil {
			t.Fatal(err)
		}
		return d.Replicas
	}
	w.after(e, 20*time.Minute)
	if got := served(); got != 0 {
		t.Fatalf("idle at 0, and the target is %d", got)
	}
	w.views[chat] = View{Replicas: 5, Ready: 5, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	for second := range 5 * 60 {
		w.after(e, time.Second)
		if got := served(); got != 5 {
			t.Fatalf("%d s after it was scaled to 5 by hand the target is %d", second+1, got)
		}
	}
	for second := 5*60 + 1; second < 10*60; second++ {
		w.after(e, time.Second)
		if got := served(); got < 1 {
			t.Fatalf("%d s after it was scaled to 5 by hand the target is %d", second, got)
		}
	}
	w.after(e, 5*time.Second)
	if got := served(); got != 0 {
		t.Errorf("the cooldown of 10 minutes is over, and the target is %d", got)
	}
}

// While a workload is at zero, each tick continues from the state of the previous tick, so the stabilization window of scale-up delays the
// target only once. If a user scales the workload from zero to one, the next decision starts from that replica, which is kept during the
// cooldown.
func TestAWorkloadAtZeroContinuesUntilItIsScaled(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	p := w.workloads[0].Policy
	p.MinReplicas, p.CooldownPeriod, p.ScaleUp.StabilizationWindow = 0, 10*time.Minute, 30*time.Second
	w.views[chat], w.backlog[chat] = View{Operator: scaling.NoOperator}, 0
	e := New(w, w, w, Options{})
	w.after(e, time.Hour)
	target := func() int32 {
		served, err := e.Decisions().Lookup(chat, w.now)
		if err != nil {
			t.Fatal(err)
		}
		return served.Replicas
	}
	if origin := e.Decisions().StateOrigin(chat); origin != Continued {
		t.Errorf("at zero without a change: the recording contains the origin %v, want Continued", origin)
	}
	w.views[chat] = View{Replicas: 1, Ready: 1, Operator: scaling.NoOperator}
	if w.after(e, 9*time.Minute); target() != 1 {
		t.Errorf("%d replicas nine minutes after a user scaled it to 1, want 1", target())
	}
	if w.after(e, time.Hour); target() != 0 {
		t.Errorf("%d replicas after the cooldown, want 0", target())
	}
	w.views[chat] = View{Operator: scaling.NoOperator}
	w.after(e, time.Minute)
	w.backlog[chat] = 40
	if w.after(e, 29*time.Second); target() > 1 {
		t.Errorf("%d replicas within the window of scale-up, want at most 1", target())
	}
	if w.after(e, 10*time.Second); target() != 4 {
		t.Errorf("%d replicas after the window of scale-up, want 4", target())
	}
}
