package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

var nine = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// fakeCluster is a small cluster in memory. It also returns the readings of its workloads.
type fakeCluster struct {
	workloads []scaling.Workload
	views     map[scaling.Key]View
	backlog   map[scaling.Key]float64
	silent    bool // telemetry returns no readings
	explode   []scaling.Key
	applied   []Change
	now       time.Time
}

func newFakeCluster(names ...string) *fakeCluster {
	w := &fakeCluster{views: map[scaling.Key]View{}, backlog: map[scaling.Key]float64{}, now: nine}
	for _, name := range names {
		w.add(name, scaling.Auto)
	}
	return w
}

func (w *fakeCluster) add(name string, mode scaling.Mode) scaling.Key {
	key := scaling.Key{Namespace: "team", Name: name}
	w.workloads = append(w.workloads[:len(w.workloads):len(w.workloads)], scaling.Workload{Key: key, Policy: queuePolicy(), Mode: mode})
	w.views[key] = View{Replicas: 2, Ready: 2, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	w.backlog[key] = 20
	return key
}

func queuePolicy() *scaling.Policy {
	return &scaling.Policy{
		Signals:     []scaling.Signal{{Name: "queue", Target: 10, MaxAge: time.Minute, MinCoverage: 1}},
		MinReplicas: 1, MaxReplicas: 40,
		ScaleDown: scaling.Direction{StabilizationWindow: 5 * time.Minute},
	}
}

func (w *fakeCluster) Current() []scaling.Workload { return w.workloads }
func (w *fakeCluster) Read(x *scaling.Workload, out []scaling.Reading) {
	if slices.Contains(w.explode, x.Key) {
		panic("a bug in one workload")
	}
	clear(out)
	if !w.silent {
		out[0] = scaling.Reading{Value: w.backlog[x.Key], At: w.now, Coverage: 1, Reported: -1, Known: true}
	}
}
func (w *fakeCluster) View(x *scaling.Workload) (View, bool) { v, ok := w.views[x.Key]; return v, ok }
func (w *fakeCluster) Apply(_ context.Context, c []Change) error {
	w.applied = append(w.applied, c...)
	return nil
}

// after runs e.Tick once per second for the duration d and returns the outcome of the last tick.
func (w *fakeCluster) after(e *Engine, d time.Duration) (out Outcome) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(time.Second)
		out = e.Tick(context.Background(), w.now)
	}
	return out
}

func TestTargetIsServedFromTheFirstTick(t *testing.T) {
	w := newFakeCluster("chat")
	e := New(w, w, w, Options{})
	chat := w.workloads[0].Key
	if _, err := e.Decisions().Lookup(chat, nine); !errors.Is(err, ErrUndecided) {
		t.Errorf("before the first tick: %v, want ErrUndecided", err)
	}
	e.Tick(context.Background(), nine)
	got, err := e.Decisions().Lookup(chat, nine)
	if want := (Served{Replicas: 2, Active: true, At: nine}); err != nil || got != want {
		t.Errorf("after it: %+v, %v, want %+v", got, err, want)
	}
	if _, err := e.Decisions().Lookup(scaling.Key{Namespace: "other", Name: "chat"}, nine); !errors.Is(err, ErrUnknown) {
		t.Errorf("another namespace: %v, want ErrUnknown", err)
	}
}

func TestOldDecisionIsAnErrorAndNotZero(t *testing.T) {
	w := newFakeCluster("chat")
	e := New(w, w, w, Options{})
	e.Tick(context.Background(), nine)
	chat := w.workloads[0].Key
	if _, err := e.Decisions().Lookup(chat, nine.Add(DefaultMaxAge)); err != nil {
		t.Errorf("at the stated age: %v", err)
	}
	if got, err := e.Decisions().Lookup(chat, nine.Add(DefaultMaxAge+1)); !errors.Is(err, ErrStale) || got != (Served{}) {
		t.Errorf("beyond it: %+v, %v, want ErrStale", got, err)
	}
}

func TestHeldAndAdvisoryTargetsAreNotServed(t *testing.T) {
	w := newFakeCluster()
	held, advised := w.add("held", scaling.Hold), w.add("advised", scaling.Advisory)
	e := New(w, w, w, Options{})
	e.Tick(context.Background(), nine)
	if _, err := e.Decisions().Lookup(held, nine); !errors.Is(err, ErrHeld) {
		t.Errorf("hold: %v", err)
	}
	if _, err := e.Decisions().Lookup(advised, nine); !errors.Is(err, ErrAdvisory) {
		t.Errorf("advisory: %v", err)
	}
	if r, ok := e.Decisions().Record(advised); !ok || r.Decision.Replicas != 2 {
		t.Errorf("an advisory policy still decides: %+v", r.Decision)
	}
}

func TestPanicOfOneWorkloadDoesNotStopTheOthers(t *testing.T) {
	w := newFakeCluster("bad", "good", "gone")
	bad, good, gone := w.workloads[0].Key, w.workloads[1].Key, w.workloads[2].Key
	w.explode = []scaling.Key{bad}
	delete(w.views, gone)
	e := New(w, w, w, Options{})
	out := e.Tick(context.Background(), nine)
	if out.Decided != 1 || out.Unseen != 1 || len(out.Errors) == 0 {
		t.Errorf("outcome %+v, want one decided, one unseen and the panic as an error", out)
	}
	for _, k := range []scaling.Key{bad, gone} {
		if _, err := e.Decisions().Lookup(k, nine); !errors.Is(err, ErrUndecided) {
			t.Errorf("%s: %v, want ErrUndecided", k, err)
		}
	}
	if _, err := e.Decisions().Lookup(good, nine); err != nil {
		t.Errorf("good: %v", err)
	}
}

func TestNewLeaderWithoutReadingsServesTheCurrentReplicas(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.views[chat] = View{Replicas: 9, Ready: 9, Operator: scaling.NoOperator}
	w.silent = true
	e := New(w, w, w, Options{})
	w.after(e, 20*time.Minute)
	got, err := e.Decisions().Lookup(chat, w.now)
	if err != nil || got.Replicas != 9 {
		t.Errorf("twenty minutes without a reading: %+v, %v, want 9", got, err)
	}
	r, _ := e.Decisions().Record(chat)
	if !r.Decision.Degraded {
		t.Error("the record is not degraded although inputs were missing")
	}
}

func TestScaleDownWaitsForTheWindowAfterARestart(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.views[chat] = View{Replicas: 9, Ready: 9, Operator: scaling.NoOperator}
	e := New(w, w, w, Options{})
	w.after(e, 4*time.Minute)
	if got, _ := e.Decisions().Lookup(chat, w.now); got.Replicas != 9 {
		t.Errorf("after 4 of 5 minutes: %d, want 9", got.Replicas)
	}
	e = New(w, w, w, Options{}) // a new leader has an empty stabilization window, so it waits for five minutes again
	w.after(e, 4*time.Minute)
	if got, _ := e.Decisions().Lookup(chat, w.now); got.Replicas != 9 {
		t.Errorf("4 minutes after the change: %d, want 9", got.Replicas)
	}
	w.after(e, 2*time.Minute)
	if got, _ := e.Decisions().Lookup(chat, w.now); got.Replicas != 2 {
		t.Errorf("6 minutes after it: %d, want 2", got.Replicas)
	}
}

func TestHistoryAnswersForAnyTime(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	var transitions []int32
	e := New(w, w, w, Options{OnTransition: func(r Record) { transitions = append(transitions, r.Decision.Replicas) }})
	w.after(e, time.Minute)
	w.backlog[chat] = 60
	rose := w.now.Add(time.Second)
	w.after(e, time.Minute)
	if r, ok := e.Decisions().History().At(chat, rose.Add(-time.Second)); !ok || r.Decision.Replicas != 2 {
		t.Errorf("before the scale-up: %v %d, want 2", ok, r.Decision.Replicas)
	}
	r, ok := e.Decisions().History().At(chat, rose.Add(30*time.Second))
	if !ok || r.Decision.Replicas != 6 || r.Before != 2 || !r.At.Equal(rose) {
		t.Errorf("after it: %v %d -> %d at %s, want 2 -> 6 at %s", ok, r.Before, r.Decision.Replicas, r.At, rose)
	}
	if _, ok := e.Decisions().History().At(chat, nine.Add(-time.Hour)); ok {
		t.Error("At found a record before the first decision")
	}
	if fmt.Sprint(transitions) != "[2 6]" {
		t.Errorf("transitions %v, want each once", transitions)
	}
	if len(w.applied) != 2 || !w.applied[0].First || w.applied[1].Before != 2 {
		t.Errorf("changes applied: %+v", w.applied)
	}
}

func TestCopyRecordAndWalkReturnTheSameAsRecordAndOf(t *testing.T) {
	w := newFakeCluster("chat")
	e := New(w, w, w, Options{})
	chat := w.workloads[0].Key
	w.after(e, time.Second)
	w.backlog[chat] = 50
	w.after(e, time.Second)

	var copied Record
	record, _ := e.Decisions().Record(chat)
	if !e.Decisions().CopyRecord(chat, &copied) || len(copied.Without) != 0 || copied.Readings[0].Value != 50 {
		t.Errorf("copied: %+v", copied)
	}
	if copied.Without = record.Without; !reflect.DeepEqual(copied, record) {
		t.Errorf("copied %+v, record %+v", copied, record)
	}
	if e.Decisions().CopyRecord(scaling.Key{Name: "unknown"}, &copied) {
		t.Error("CopyRecord found an unknown policy")
	}
	var newestFirst []int32
	e.Decisions().History().Walk(chat, func(r *Record) bool { newestFirst = append(newestFirst, r.Decision.Replicas); return true })
	if !slices.Equal(newestFirst, []int32{5, 2}) {
		t.Errorf("walked %v, want 5 then 2", newestFirst)
	}
	visited := 0
	e.Decisions().History().Walk(chat, func(*Record) bool { visited++; return false })
	if visited != 1 {
		t.Errorf("a walk that visit ended continued: %d visits", visited)
	}
}

func TestRemovedPolicyIsForgottenAndStartsAgain(t *testing.T) {
	w := newFakeCluster("chat", "embed")
	e := New(w, w, w, Options{})
	e.Tick(context.Background(), nine)
	embed, all := w.workloads[1].Key, w.workloads
	w.workloads = all[:1:1]
	e.Tick(context.Background(), nine.Add(time.Second))
	if _, err := e.Decisions().Lookup(embed, nine.Add(time.Second)); !errors.Is(err, ErrUnknown) {
		t.Errorf("a removed policy: %v, want ErrUnknown", err)
	}
	if got := e.Decisions().Keys(); len(got) != 1 {
		t.Errorf("keys: %v", got)
	}
}

func TestHistoryDropsPoliciesThatWereRemovedADayAgo(t *testing.T) {
	w := newFakeCluster("stays", "went")
	e := New(w, w, w, Options{})
	stays, went, all := w.workloads[0].Key, w.workloads[1].Key, w.workloads
	w.after(e, time.Second)
	w.workloads = all[:1:1]
	w.now = w.now.Add(23 * time.Hour)
	w.after(e, time.Second)
	if _, ok := e.Decisions().History().At(went, w.now); !ok {
		t.Error("the record was deleted although it is less than a day old")
	}
	w.now = w.now.Add(3 * time.Hour)
	w.after(e, time.Second)
	h := e.Decisions().History()
	if _, ok := h.At(went, w.now); ok {
		t.Error("the record of the removed policy was not deleted")
	}
	if _, ok := h.At(stays, w.now); !ok {
		t.Error("the newest record of an existing policy was deleted")
	}
	// Each of ten thousand workloads exists for only one tick, as Jobs do. History deletes their records after 24 hours, with a delay of up to
	// one hour.
	left := 0
	var jobs []scaling.Key
	for i := range 10_000 {
		w.workloads = nil
		key := w.add(fmt.Sprint("job-", i), scaling.Auto)
		jobs = append(jobs, key)
		w.now = w.now.Add(time.Minute)
		e.Tick(context.Background(), w.now)
		delete(w.views, key)
	}
	for _, k := range jobs {
		if _, ok := h.Begins(k); ok {
			left++
		}
	}
	if left == 0 || left > 25*60+1 {
		t.Errorf("%d jobs have records, want at most the jobs of 25 hours", left)
	}
}

func TestMaximumOfTheManagedHPALimitsTheTarget(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.backlog[chat] = 120
	e := New(w, w, w, Options{})
	bounds := func(follower ManagedHPA, most int32) (replicas int32, text string) {
		w.views[chat] = View{Replicas: 2, Ready: 2, MinReplicas: 1, MaxReplicas: most, Operator: scaling.NoOperator, ManagedHPA: follower}
		w.after(e, time.Second)
		r, _ := e.Decisions().Record(chat)
		for _, reason := range r.Decision.Reasons.All() {
			if reason.Rule == scaling.RuleBounds {
				text = explain.Reason(reason, r.Workload.Policy)
			}
		}
		return r.Decision.Replicas, text
	}
	if n, text := bounds(ManagedHPA{}, 10); n != 12 || text != "within minReplicas 1 and maxReplicas 40" {
		t.Errorf("an HPA that reads another metric: %d, %q, want its bounds left out", n, text)
	}
	follower := ManagedHPA{Kind: "HorizontalPodAutoscaler", Name: "chat"}
	if n, text := bounds(follower, 10); n != 10 || text != "capped at maxReplicas 10 of the HPA" {
		t.Errorf("a managed HPA with a maximum of 10: %d, %q", n, text)
	}
	if n, text := bounds(follower, -1); n != 12 || text != "within minReplicas 1 and maxReplicas 40" {
		t.Errorf("a managed HPA without known bounds: %d, %q", n, text)
	}
}

func TestResetServesNothingAndStartsFromTheObservedReplicas(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	e := New(w, w, w, Options{})
	w.after(e, time.Minute)
	e.Reset()
	if got, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrUndecided) {
		t.Errorf("after Reset: %+v, %v, want ErrUndecided", got, err)
	}
	if _, ok := e.Decisions().History().At(chat, w.now); !ok {
		t.Error("Reset removed the history")
	}
	// While this process was a standby, the leader scaled the workload up to 7 replicas.
	w.views[chat] = View{Replicas: 7, Ready: 7, Operator: scaling.NoOperator}
	w.after(e, time.Minute)
	if got, err := e.Decisions().Lookup(chat, w.now); err != nil || got.Replicas != 7 {
		t.Errorf("after Reset: %+v, %v, want the 7 observed replicas", got, err)
	}
}

func TestTickReportsEveryPanicWithItsStack(t *testing.T) {
	w := newFakeCluster("one", "two", "good")
	w.explode = []scaling.Key{w.workloads[0].Key, w.workloads[1].Key}
	out := New(w, w, w, Options{}).Tick(context.Background(), nine)
	if len(out.Errors) != 2 || out.Decided != 1 {
		t.Fatalf("errors %v, %d decided; want two errors and one decided", out.Errors, out.Decided)
	}
	for i, err := range out.Errors {
		var panicked *PanicError
		if !errors.As(err, &panicked) || !strings.HasPrefix(err.Error(), w.workloads[i].Key.String()+": decide: panic: ") {
			t.Errorf("error %d is %v, want a panic of %s", i, err, w.workloads[i].Key)
		} else if !strings.Contains(string(panicked.Stack), "engine_test.go") {
			t.Errorf("the stack does not name the line that panicked:\n%s", panicked.Stack)
		}
	}
}

// lengths is a fakeCluster that records how many readings the engine requested for the last workload.
type lengths struct {
	*fakeCluster
	last int
}

func (l *lengths) Read(w *scaling.Workload, out []scaling.Reading) {
	l.last = len(out)
	l.fakeCluster.Read(w, out)
}

// A policy has two signals. After an edit removes one of them, the engine requests one reading. After another edit, it requests three.
func TestEachSignalHasAReading(t *testing.T) {
	l := &lengths{fakeCluster: newFakeCluster("chat")}
	e := New(l, l, l, Options{})
	for _, n := range []int{2, 1, 3} {
		l.edited(func(w *scaling.Workload) {
			p := *w.Policy
			p.Signals = slices.Repeat(p.Signals[:1], n)
			w.Policy = &p
		})
		l.after(e, time.Second)
		if r, _ := e.Decisions().Record(l.workloads[0].Key); l.last != n || len(r.Readings) != n {
			t.Errorf("%d signals: %d readings requested, %d recorded", n, l.last, len(r.Readings))
		}
	}
}

// slowToApply is a cluster whose Apply returns only when its context ends.
type slowToApply struct{ *fakeCluster }

func (slowToApply) Apply(ctx context.Context, _ []Change) error { <-ctx.Done(); return ctx.Err() }

// A tick waits for Apply for the duration ApplyTimeout, or for one second if ApplyTimeout is not set.
func TestApplyTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{-1: time.Second, 0: time.Second, 1: 1, 2 * time.Second: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := slowToApply{newFakeCluster("chat")}
			w.workloads[0].Activate = true
			chat := w.workloads[0].Key
			w.workloads[0].Policy.MinReplicas = 0
			w.views[chat] = View{Operator: scaling.NoOperator}
			e := New(w, w, w, Options{ApplyTimeout: timeout})
			origin := time.Now()
			out := e.Tick(t.Context(), nine)
			if took := time.Since(origin); took != want || len(out.Errors) != 1 {
				t.Errorf("ApplyTimeout %v: the tick took %v, errors %v, want %v and one error", timeout, took, out.Errors, want)
			}
		})
	}
}

// The field Before of a transition is the number of replicas before it. A transition to mode hold does not change the replicas, so its
// Before equals its target. It must not be the Before of an earlier transition.
func TestRecordOfATransitionHasTheReplicasBeforeIt(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	var got [][2]int32
	e := New(w, w, w, Options{OnTransition: func(r Record) { got = append(got, [2]int32{r.Before, r.Decision.Replicas}) }})
	w.after(e, time.Second)
	w.backlog[chat] = 90
	w.after(e, time.Second)
	w.workloads = []scaling.Workload{{Key: chat, Policy: w.workloads[0].Policy, Mode: scaling.Hold}}
	w.after(e, time.Second)
	if want := [][2]int32{{2, 2}, {2, 9}, {9, 9}}; !slices.Equal(got, want) {
		t.Errorf("replicas before and after each transition: %v, want %v", got, want)
	}
}
