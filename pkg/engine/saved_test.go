package engine

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// memory is a Memory that contains the saved models of some workloads.
type memory map[scaling.Key]*SavedModel

func (m memory) Recall(k scaling.Key) *SavedModel { return m[k] }

// objectivePolicy returns a policy with an objective and one signal, which measures the waiting requests.
func objectivePolicy() *scaling.Policy {
	return &scaling.Policy{MinReplicas: 1, MaxReplicas: 40,
		Objective: &objective.Objective{Limit: 10 * time.Second, Percentile: 99, Capacity: 2},
		Signals:   []scaling.Signal{{Name: "queue", Measures: scaling.MeasureArrivals, MaxAge: time.Minute, MinCoverage: 1}}}
}

// learned runs an engine for the duration d and returns the model that it saved.
func learned(t *testing.T, d time.Duration) (*fakeCluster, scaling.Key, *SavedModel) {
	t.Helper()
	w := newFakeCluster("chat")
	key := w.workloads[0].Key
	w.workloads[0].Policy = objectivePolicy()
	w.views[key] = View{Replicas: 8, Ready: 8, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
	w.backlog[key] = 12
	e := New(w, w, w, Options{})
	w.after(e, d)
	e.SaveModels()
	all := e.Decisions().SavedModels()
	if len(all) != 1 || all[0].Key != key || !all[0].At.Equal(w.now) {
		t.Fatalf("saved %v", all)
	}
	return w, key, all[0]
}

// A new leader uses what the previous leader learned, so its first explanation shows the same values. For one minute it keeps the running
// replicas, because it has no recent observations. After that, its target depends on the learned values.
func TestANewLeaderStartsFromWhatThePreviousLeaderLearned(t *testing.T) {
	w, key, saved := learned(t, 3*time.Hour)
	e := New(w, w, w, Options{Memory: memory{key: saved}})
	w.after(e, time.Second)
	r, _ := e.Decisions().Record(key)
	if r.Learned == nil || r.Learned.Observed < 2*time.Hour || r.Decision.Replicas != 8 || r.Decision.Plan.Added[objective.TermLevel] < 6 {
		t.Fatalf("after the change of the leader: %+v, %s", r.Learned, r.Decision.Plan.Text())
	}
	if m, at := e.Decisions().Restored(key); m == nil || !at.Equal(saved.At) {
		t.Errorf("Restored does not return the saved model: %v at %v", m, at)
	}
	w.after(e, time.Second)
	if m, _ := e.Decisions().Restored(key); m != nil {
		t.Error("the second decision seems to start from the restored model, too")
	}
	w.after(e, 2*time.Minute)
	r, _ = e.Decisions().Record(key)
	if r.Decision.Plan.Safe != objective.NotSafe || r.Decision.Replicas < 6 || r.Decision.Replicas > 7 {
		t.Errorf("two minutes later: %d, %s", r.Decision.Replicas, r.Decision.Plan.Text())
	}
}

// An explanation contains the plan and a summary of the model. The summary must have a capacity per replica as soon as the plan has one,
// and the capacity in the summary must not be much lower than the capacity in the plan.
func TestSummaryHasTheCapacityOfThePlan(t *testing.T) {
	w := newFakeCluster("chat")
	key := w.workloads[0].Key
	w.workloads[0].Policy = objectivePolicy()
	w.workloads[0].Policy.Objective.Capacity = 0
	e := New(w, w, w, Options{})
	first := 0.0
	for second := range 1200 {
		// In each of the first 8 seconds, another replica becomes ready. The model measures no capacity while the number of replicas changes, so
		// an early summary contains none.
		w.views[key] = View{Replicas: 8, Ready: int32(min(second, 8)), MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}
		w.backlog[key] = 12 + float64(second)
		w.after(e, time.Second)
		r, _ := e.Decisions().Record(key)
		c := r.Decision.Plan.Capacity
		if c > 1.2*r.Learned.Capacity.P50 {
			t.Fatalf("after %d s: %s, and the summary is %+v", second, r.Decision.Plan.Text(), r.Learned)
		}
		if first == 0 {
			first = c
		} else if c > 2*first {
			return
		}
	}
	t.Errorf("the capacity did not double since it was known: %v", first)
}

// A saved model is not restored if it measured another kind of work, belongs to another scale target, or cannot be decoded.
func TestOnlyAModelOfTheSameWorkIsRestored(t *testing.T) {
	w, key, saved := learned(t, time.Hour)
	for name, change := range map[string]func(*SavedModel){
		"other work":         func(m *SavedModel) { m.Work[0]++ },
		"another target":     func(m *SavedModel) { m.Target.Name = "other" },
		"truncated":          func(m *SavedModel) { m.Data = m.Data[:len(m.Data)/2] },
		"empty":              func(m *SavedModel) { m.Data = nil },
		"of a later version": func(m *SavedModel) { m.Data = append([]byte{m.Data[0] + 1}, m.Data[1:]...) },
	} {
		changed := *saved
		change(&changed)
		e := New(w, w, w, Options{Memory: memory{key: &changed}})
		w.after(e, time.Second)
		r, _ := e.Decisions().Record(key)
		if r.Learned == nil || r.Learned.Observed > time.Minute || r.Decision.Replicas < 8 {
			t.Errorf("%s: learned %+v, %d replicas; want a new model that keeps the 8 replicas", name, r.Learned, r.Decision.Replicas)
		}
	}
}

// A model is saved when its values change, not in each tick. With a steady load, it is saved every ten minutes.
func TestModelsAreSavedWhenTheyChange(t *testing.T) {
	w, key, _ := learned(t, time.Minute)
	e, saves := New(w, w, w, Options{}), 0
	var last *SavedModel
	for range 3600 {
		w.after(e, time.Second)
		if all := e.Decisions().SavedModels(); len(all) > 0 && all[0] != last {
			last, saves = all[0], saves+1
		}
	}
	if saves < 5 || saves > 7 {
		t.Errorf("%d saves in an hour of steady load, want one every ten minutes", saves)
	}
	w.backlog[key] = 0
	w.after(e, 4*time.Hour)
	last = e.Decisions().SavedModels()[0]
	w.after(e, time.Hour)
	if e.Decisions().SavedModels()[0] != last {
		t.Error("a model was saved although the workload had no load for hours")
	}
}

// If its capacity, its cold starts or the attained SLO changed, a model is saved at most once a minute. If only the daily pattern of the
// load changed, it is saved every ten minutes.
func TestWhenAModelIsSavedAgain(t *testing.T) {
	capacity := func(p50 float64) objective.Learned {
		return objective.Learned{Capacity: objective.Distribution{P50: p50}}
	}
	starts := func(n int64) objective.Learned { return objective.Learned{ColdStart: objective.Distribution{Count: n}} }
	saved := func(before time.Duration, l objective.Learned) *SavedModel {
		return &SavedModel{At: nine.Add(-before), summary: l}
	}
	for name, c := range map[string]struct {
		saved *SavedModel
		now   objective.Learned
		want  bool
	}{
		"the first minute":                     {nil, objective.Learned{Observed: time.Minute}, false},
		"the first ten minutes":                {nil, objective.Learned{Observed: 10 * time.Minute}, true},
		"the first capacity":                   {nil, capacity(0.5), true},
		"the first cold start":                 {nil, starts(1), true},
		"a cold start within a minute":         {saved(59*time.Second, starts(1)), starts(2), false},
		"a cold start after a minute":          {saved(time.Minute, starts(1)), starts(2), true},
		"the capacity increased by 1 percent":  {saved(time.Minute, capacity(100)), capacity(101), false},
		"the capacity increased by 3 percent":  {saved(time.Minute, capacity(100)), capacity(103), true},
		"the capacity decreased by 3 percent":  {saved(time.Minute, capacity(100)), capacity(97), true},
		"less work was served within the SLO":  {saved(time.Minute, objective.Learned{Attained: 1}), objective.Learned{Attained: 0.99}, true},
		"nine minutes of load":                 {saved(9*time.Minute, objective.Learned{}), objective.Learned{Load: 1}, false},
		"ten minutes of load":                  {saved(10*time.Minute, objective.Learned{}), objective.Learned{Load: 1}, true},
		"ten minutes without load":             {saved(10*time.Minute, objective.Learned{}), objective.Learned{}, false},
		"a first gap in the load":              {saved(10*time.Minute, objective.Learned{}), objective.Learned{IdleGap: time.Hour}, true},
		"the clock was set back by an instant": {saved(-1, objective.Learned{}), objective.Learned{}, true},
	} {
		if got := c.saved.isOutdated(&c.now, nine); got != c.want {
			t.Errorf("%s: saved again: %v, want %v", name, got, c.want)
		}
	}
}

// A summary of a model is at most 15 s old. If a leader never received a reading, it learned nothing and saves no model.
func TestSummariesAndModelsWithoutEvidence(t *testing.T) {
	w, key, _ := learned(t, time.Minute)
	e := New(w, w, w, Options{})
	summaries := map[*objective.Learned]bool{}
	for range 60 {
		w.after(e, time.Second)
		r, _ := e.Decisions().Record(key)
		summaries[r.Learned] = true
	}
	if len(summaries) != 4 {
		t.Errorf("%d summaries in a minute, want 4", len(summaries))
	}
	w.silent = true
	e = New(w, w, w, Options{})
	w.after(e, time.Minute)
	e.SaveModels()
	if all := e.Decisions().SavedModels(); len(all) != 0 {
		t.Errorf("saved %+v without a reading", all[0])
	}
}
