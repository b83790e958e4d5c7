package planner

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

var nine = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// workload simulates a workload with the objective 99% within 10s and a capacity of 2 requests/s per replica.
type workload struct {
	p    *Planner
	tick Tick
	load float64
}

func newWorkload(p *Planner, replicas int32) *workload {
	return &workload{p: p, tick: Tick{At: history.Stamp(nine), Current: replicas, Ready: replicas, LastTarget: replicas}, load: 3}
}

// run passes the current tick to the planner once a second for the duration d, with the same numbers of replicas, and returns the last
// plan.
func (w *workload) run(d time.Duration) *objective.Plan {
	slo := objective.Objective{Limit: 10 * time.Second, Percentile: 99, Capacity: 2}
	for range d / time.Second {
		w.tick.At += 1000
		now := history.Time(w.tick.At)
		w.tick.Evidence = objective.Evidence{Arrivals: objective.Value{V: w.load, At: now, Known: true},
			Served: objective.Value{V: w.load, At: now, Known: true}}
		w.p.Observe(&w.tick, &slo, objective.Limits{Min: 1, Max: 40})
	}
	return w.p.Plan()
}

// A tick decides that two more replicas are needed. The replicas are requested a second later, wait 20 seconds for a node and load for 40
// seconds, so their cold start is 61 seconds. Then a replica fails and is ready again after 5 seconds, which must not be regarded as a cold
// start.
func TestColdStartsAreMeasuredFromTheDecision(t *testing.T) {
	w := newWorkload(New(), 1)
	w.run(time.Minute)
	w.tick.LastTarget = 3
	w.run(time.Second)
	w.tick.Current, w.tick.Pending = 3, 2
	w.run(20 * time.Second)
	w.tick.Pending, w.tick.Loading = 0, 2
	w.run(39 * time.Second)
	if n := len(w.p.ages); n != 2 || w.p.ages[0] != time.Minute {
		t.Errorf("replicas that are starting for %v, want two for 1m0s", w.p.ages)
	}
	w.tick.Loading, w.tick.Ready = 0, 3
	w.run(time.Second)
	want := objective.ColdStart{Total: 61 * time.Second} // no phase is known, because the test sets no times of pods
	if !slices.Equal(w.p.cold, []objective.ColdStart{want}) {
		t.Errorf("cold starts %v, want %v", w.p.cold, want)
	}
	w.tick.Ready, w.tick.Loading = 2, 1
	w.run(5 * time.Second)
	w.tick.Ready, w.tick.Loading = 3, 0
	if w.run(time.Second); len(w.p.cold) != 0 {
		t.Errorf("a restart counts as the cold start %v", w.p.cold)
	}
}

// The load needs 2 replicas, and 9 are running. A new planner must keep 9 replicas for a minute, because the load may need them. A planner
// that had no observation for 20 minutes must keep 9 replicas for 20 minutes.
func TestRunningReplicasAreKeptAfterATimeWithoutObservation(t *testing.T) {
	w := newWorkload(New(), 9)
	if n := w.run(50 * time.Second).Replicas; n != 9 {
		t.Errorf("%d replicas after a start without a model, want 9", n)
	}
	if n := w.run(2 * time.Hour).Replicas; n >= 9 {
		t.Fatalf("%d replicas after two hours with little load", n)
	}
	w.tick.At += (20 * time.Minute).Milliseconds()
	if n := w.run(19 * time.Minute).Replicas; n != 9 {
		t.Errorf("%d replicas after 20 minutes without observation, want 9", n)
	}
	if n := w.run(2 * time.Minute).Replicas; n >= 9 {
		t.Errorf("%d replicas 21 minutes later", n)
	}
}

// A leader saves its model while two replicas are sufficient. In the next two minutes the load increases, six replicas are started, and the
// leader is killed. The next leader has not observed the load of these two minutes. It must keep the six replicas for two minutes, even if
// its state is encoded before its first tick. If the model was saved just before the restart, it must keep them for a minute.
func TestRestartDoesNotRemoveReplicas(t *testing.T) {
	w := newWorkload(New(), 2)
	if n := w.run(2 * time.Hour).Replicas; n > 3 {
		t.Fatalf("%d replicas for the load of 1.5", n)
	}
	for _, lost := range []time.Duration{0, time.Second, 2 * time.Minute} {
		r := history.Reader{Words: Restore(w.p.Model().Clone(), w.tick.At).Append(nil)}
		p, err := Read(&r)
		if err != nil {
			t.Fatal(err)
		}
		next, keeps := newWorkload(p, 6), max(lost, time.Minute)
		next.tick.At = w.tick.At + lost.Milliseconds()
		for passed := time.Second; passed <= keeps; passed += time.Second {
			if n := next.run(time.Second).Replicas; n != 6 {
				t.Fatalf("saved %v before the restart: %d replicas %v after it, want 6 for %v", lost, n, passed, keeps)
			}
		}
		if n := next.run(time.Minute).Replicas; n > 3 {
			t.Errorf("saved %v before the restart: %d replicas a minute later than it has to keep 6", lost, n)
		}
	}
}

// A planner that was encoded and decoded must compute the same plan as the original planner.
func TestDecodedPlannerPlansTheSame(t *testing.T) {
	w := newWorkload(New(), 4)
	w.run(10 * time.Minute)
	w.tick.Current, w.tick.Loading, w.load = 7, 3, 12
	w.run(30 * time.Second)
	r := history.Reader{Words: w.p.Append(nil)}
	decoded, err := Read(&r)
	if err != nil || r.Invalid || len(r.Words) > 0 {
		t.Fatalf("%v, invalid %v, %d words left", err, r.Invalid, len(r.Words))
	}
	again := &workload{p: decoded, tick: w.tick, load: w.load}
	for range 5 {
		if want, got := *w.run(time.Minute), *again.run(time.Minute); got != want {
			t.Fatalf("the decoded planner plans\n%+v\nwant\n%+v", got, want)
		}
	}
}

// The test sets every field of the planner that must be encoded, so that it fails if a field is omitted.
func TestEncodingKeepsEveryField(t *testing.T) {
	p := New()
	p.at, p.keep = 1, keep{2, 3}
	p.starts = starts{known: true, ready: 4, target: 6, targetAt: 7, n: maxStarts}
	for i := range p.starts.list {
		p.starts.list[i] = start{at: int64(8 + i), count: int32(50 + i), whole: true}
	}
	for _, v := range []reflect.Value{reflect.ValueOf(p.starts), reflect.ValueOf(p.starts.list[0]), reflect.ValueOf(p.keep)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Fatalf("%s.%s is not set: set it in this test and encode it", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	words := p.Append(nil)
	got, err := Read(&history.Reader{Words: words})
	if err != nil || got.at != p.at || got.keep != p.keep || got.starts != p.starts {
		t.Errorf("decoded\n%+v\nof\n%+v (%v)", got, p, err)
	}
	for n := range words {
		r := history.Reader{Words: words[:n]}
		if _, err := Read(&r); err == nil && !r.Invalid {
			t.Errorf("the first %d of %d words are accepted", n, len(words))
		}
	}
}
