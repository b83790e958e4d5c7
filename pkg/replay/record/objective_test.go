package record

import (
	"context"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// service is a workload with an objective, whose replicas follow the target after a minute. The type also provides the policy and the
// readings of the workload to the engine.
type service struct {
	workloads []scaling.Workload
	now       time.Time
	ready     int32
	target    int32
	since     time.Time
	memory    *engine.SavedModel
}

func newService() *service {
	signals := []scaling.Signal{
		{Name: "arrivals", Source: 1, Measures: scaling.MeasureArrivals, MaxAge: time.Minute},
		{Name: "queue", Source: 2, Measures: scaling.MeasureQueued, MaxAge: time.Minute},
	}
	p := &scaling.Policy{MinReplicas: 1, MaxReplicas: 20, Signals: signals,
		Objective: &objective.Objective{Limit: 10 * time.Second, Percentile: 99, Capacity: 2, ColdStart: time.Minute}}
	return &service{workloads: []scaling.Workload{{Key: scaling.Key{Namespace: "team", Name: "chat"}, Policy: p}},
		now: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), ready: 3, target: 3}
}

func (s *service) Current() []scaling.Workload { return s.workloads }

func (s *service) Recall(scaling.Key) *engine.SavedModel { return s.memory }

// load returns the load of the workload, which changes with time, so that the readings differ in each tick.
func (s *service) load() float64 { return 8 + 6*math.Sin(float64(s.now.Unix()%3600)/573) }

func (s *service) Read(_ *scaling.Workload, out []scaling.Reading) {
	for i, v := range [...]float64{s.load(), max(s.load()-2*float64(s.ready), 0)} {
		out[i] = scaling.Reading{Value: v, At: s.now, Coverage: 1, Known: true}
	}
}

func (s *service) View(*scaling.Workload) (engine.View, bool) {
	v := engine.View{Replicas: s.target, Ready: s.ready, MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator, Version: 7}
	v.Loading = max(s.target-s.ready, 0)
	return v, true
}

func (s *service) Apply(_ context.Context, changes []engine.Change) error {
	for _, c := range changes {
		s.target, s.since = c.After.Replicas, s.now
		s.ready = min(s.ready, s.target)
	}
	return nil
}

// run ticks the engine for the virtual time d and records its decisions.
func (s *service) run(t *testing.T, e *engine.Engine, r *Recorder, d time.Duration) {
	t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(time.Second)
		if s.now.Sub(s.since) > time.Minute {
			s.ready = s.target
		}
		e.Tick(context.Background(), s.now)
		if err := r.Tick(e.Decisions(), s.now); err != nil {
			t.Fatal(err)
		}
	}
}

// A second leader continues with the values that the first leader learned. The decisions of both leaders are recorded in files that are
// rotated. Verify must reproduce each decision, even from a file without the start of the recording.
func TestARecordedObjectiveIsDecidedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	r, err := New(path, Options{Segment: 100 << 10, Keep: 20})
	if err != nil {
		t.Fatal(err)
	}
	s := newService()
	first := engine.New(s, s, s, engine.Options{})
	s.run(t, first, r, 15*time.Minute)
	first.SaveModels()
	s.memory = first.Decisions().SavedModels()[0]
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	second := engine.New(s, s, s, engine.Options{Memory: s})
	s.run(t, second, r, time.Second)
	record, _ := second.Decisions().Record(s.workloads[0].Key)
	if plan := record.Decision.Plan; plan == nil || plan.Safe != objective.NotSafe {
		t.Fatalf("the second leader did not continue with what the first one learned: %+v", record.Decision.Plan)
	}
	s.run(t, second, r, 5*time.Minute)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v: want several files", files, err)
	}
	v, err := VerifyFiles(path, nil)
	if err != nil || v.Decisions != 20*60+1 {
		t.Errorf("%d decisions are reproduced: %v", v.Decisions, err)
	}
	for _, f := range files[1:] {
		if _, err := VerifyFiles(f, nil); err != nil {
			t.Error(err)
		}
	}
}
