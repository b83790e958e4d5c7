package record

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/demo"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// recordDemo runs the demo for the given virtual time, records it, and returns the path of the recording.
func recordDemo(t testing.TB, d time.Duration, o Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	r, err := New(path, o)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := demo.New(demo.Options{For: d, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	sim.OnTick(func(now time.Time) {
		if err := r.Tick(sim.Engine().Decisions(), now); err != nil {
			t.Fatal(err)
		}
	})
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAMorningIsDecidedAgain(t *testing.T) {
	path := recordDemo(t, 40*time.Minute, Options{})
	v, err := VerifyFiles(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.Ticks != 2400 || v.Decisions != 3*2400 || v.To.Sub(v.From) != 40*time.Minute-time.Second || len(v.LeftOut) > 0 {
		t.Errorf("forty minutes of three workloads: %+v", v)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes a tick", info.Size()/2400)
}

// TestEverySegmentIsComplete verifies each file of a recording separately. The oldest files have been deleted by the rotation.
func TestEverySegmentIsComplete(t *testing.T) {
	path := recordDemo(t, 40*time.Minute, Options{Segment: 100 << 10, Keep: 3})
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if info, _ := os.Stat(f); info.Size() > 120<<10 {
			t.Errorf("%s has %d bytes", f, info.Size())
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		v, err := Verify(f, bytes.NewReader(text), nil)
		if err != nil || v.Decisions < 100 {
			t.Errorf("%s: %+v, %v", f, v, err)
		}
	}
	if v, err := VerifyFiles(path, nil); err != nil || v.Ticks >= 2400 {
		t.Errorf("the first segments should be gone: %+v, %v", v, err)
	}
}

func TestAnotherOutcomeIsFound(t *testing.T) {
	text, err := os.ReadFile(recordDemo(t, 30*time.Minute, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	tampered := bytes.Replace(text, []byte(`"Replicas":1,"Requested"`), []byte(`"Replicas":4,"Requested"`), 1)
	if bytes.Equal(tampered, text) {
		t.Fatal("nothing decided 1 in half an hour")
	}
	var d *Difference
	if _, err := Verify("tampered", bytes.NewReader(tampered), nil); !errors.As(err, &d) || d.Line == 0 ||
		!strings.Contains(d.Recorded, `"Replicas":4`) || !strings.Contains(d.Now, `"Replicas":1`) {
		t.Errorf("the changed number: %v", err)
	}
	cut := text[:len(text)-20]
	if v, err := Verify("cut", bytes.NewReader(cut), nil); err != nil || v.Ticks != 1799 {
		t.Errorf("a crash in the last line: %+v, %v", v, err)
	}
}

func TestWhatIsNoRecording(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n": "is not a start line", "garbage\n": "invalid character", `{"kind":"start","version":9}` + "\n": "format 9",
		`{"kind":"start","version":5}` + "\n" + `{"kind":"dance"}` + "\n":                                `kind "dance"`,
		`{"kind":"start","version":5}` + "\n" + `{"kind":"tick","w":[{"k":"a/b"}]}` + "\n":               "incomplete",
		`{"kind":"start","version":5}` + "\n" + `{"kind":"policy"}` + "\n":                               "without a policy",
		`{"kind":"start","version":5}` + "\n" + `{"kind":"policy","policy":{"id":1,"key":"a/b"}}` + "\n": "without rules",
	} {
		if _, err := Verify("file", strings.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// scene implements the interfaces of the engine for a few workloads. A test can change the policies, readings and views of the workloads in
// each tick. If unseen is set, the cluster cache does not contain the workloads.
type scene struct {
	workloads []scaling.Workload
	view      engine.View
	unseen    bool
	value     float64
	at        time.Time
}

func (s *scene) Current() []scaling.Workload { return s.workloads }
func (s *scene) Read(_ *scaling.Workload, out []scaling.Reading) {
	for i := range out {
		out[i] = scaling.Reading{Value: s.value, At: s.at, Coverage: 1, Reported: -1, Known: true}
	}
}
func (s *scene) View(*scaling.Workload) (engine.View, bool)   { return s.view, !s.unseen }
func (s *scene) Apply(context.Context, []engine.Change) error { return nil }

func TestAHostileDayIsDecidedAgain(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	policy := func(target float64) *scaling.Policy {
		p := &scaling.Policy{
			Signals:     []scaling.Signal{{Name: "queue", Target: target, MaxAge: time.Minute}},
			MaxReplicas: 20, CooldownPeriod: time.Minute, ScaleDown: scaling.Direction{StabilizationWindow: 2 * time.Minute},
			Schedules: []scaling.Schedule{{Min: 4, Max: -1}},
		}
		p.Schedules[0].Window.Location = berlin
		p.Schedules[0].Window.From, p.Schedules[0].Window.To = noon.Add(5*time.Minute).In(berlin), noon.Add(8*time.Minute).In(berlin)
		return p
	}
	formula := func(asks []scaling.Proposal, _, _ int32) (float64, bool) { return asks[0].Replicas + 1, asks[0].Known }
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	r, err := New(path, Options{Segment: 20 << 10, Keep: 50})
	if err != nil {
		t.Fatal(err)
	}
	key := scaling.Key{Namespace: "team", Name: "chat"}
	s := &scene{workloads: []scaling.Workload{{Key: key, Policy: policy(5)}},
		view: engine.View{Replicas: 2, Ready: 2, Operator: scaling.NoOperator}}
	e := engine.New(s, s, s, engine.Options{})
	for i := range 1200 {
		now := noon.Add(time.Duration(i) * time.Second)
		s.at, s.value, s.unseen = now, float64(i%97), i%50 == 7
		switch {
		case i%31 == 0:
			s.value = nan()
		case i == 300:
			s.workloads = []scaling.Workload{{Key: key, Policy: policy(3)}}
		case i == 500:
			s.workloads = nil
		case i == 520:
			s.workloads = []scaling.Workload{{Key: key, Policy: policy(4)}}
		case i == 700:
			p := policy(4)
			p.Formula = formula
			s.workloads = []scaling.Workload{{Key: key, Policy: p}}
		case i == 900:
			e.Reset()
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if d, ok := e.Decisions().Decision(key); ok {
			s.view.Replicas, s.view.Ready = d.Replicas, d.Replicas
		}
		e.Tick(context.Background(), now)
		if err := r.Tick(e.Decisions(), now); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	v, err := VerifyFiles(path, func(string) scaling.Formula { return formula })
	if err != nil || v.Ticks != 1200 || v.Decisions != 1200-20-23 || len(v.LeftOut) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := VerifyFiles(path, nil); err != nil || len(v.LeftOut) == 0 || v.Decisions >= 1200-20-23 {
		t.Errorf("without the formula it is left out: %+v, %v", v, err)
	}
}

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// Each case changes the workload or the clock in the middle of a recording. After most of the changes, the next decision starts from the
// current replicas instead of the state of the previous tick. The recording contains this origin of the state (see engine.StateOrigin), so
// that Verify computes the same decision.
func TestDecisionsAfterARestartOfTheRecordingAreRepeated(t *testing.T) {
	key := scaling.Key{Namespace: "team", Name: "chat"}
	policy := &scaling.Policy{
		Signals:     []scaling.Signal{{Name: "queue", Target: 10, MaxAge: time.Minute}},
		MinReplicas: 1, MaxReplicas: 20, ScaleDown: scaling.Direction{StabilizationWindow: 2 * time.Minute},
	}
	workload := func(m scaling.Mode, target string) []scaling.Workload {
		return []scaling.Workload{{Key: key, Policy: policy, Mode: m, Target: scaling.Target{Name: target}}}
	}
	for name, day := range map[string]struct {
		from   scaling.Mode
		change func(s *scene)
		pause  time.Duration // time without a tick before the change
	}{
		"a hold is lifted":  {scaling.Hold, func(s *scene) { s.workloads = workload(scaling.Auto, "a") }, 0},
		"advice is applied": {scaling.Advisory, func(s *scene) { s.workloads = workload(scaling.Auto, "a") }, 0},
		"another target":    {scaling.Auto, func(s *scene) { s.workloads = workload(scaling.Auto, "b") }, 0},
		"a new follower":    {scaling.Auto, func(s *scene) { s.view.ManagedHPA.Kind = "HorizontalPodAutoscaler" }, 0},
		"the clock stopped": {scaling.Auto, func(*scene) {}, 70 * time.Second},
		"nothing":           {scaling.Auto, func(*scene) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "recording.jsonl")
			r, err := New(path, Options{Segment: 4 << 10, Keep: 50})
			if err != nil {
				t.Fatal(err)
			}
			s := &scene{workloads: workload(day.from, "a"), value: 10, view: engine.View{Replicas: 6, Ready: 6, Operator: scaling.NoOperator}}
			e := engine.New(s, s, s, engine.Options{})
			for i := range 600 {
				s.at = noon.Add(time.Duration(i) * time.Second)
				if i == 300 {
					day.change(s)
				}
				if i >= 300 {
					s.at = s.at.Add(day.pause)
				}
				e.Tick(context.Background(), s.at)
				if err := r.Tick(e.Decisions(), s.at); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if v, err := VerifyFiles(path, nil); err != nil || v.Decisions != 600 {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// teamScene is a scene with the workloads of one team, which has a limit on GPUs.
type teamScene struct {
	scene
	replicas map[scaling.Key]int32
}

func (s *teamScene) View(w *scaling.Workload) (engine.View, bool) {
	return engine.View{Replicas: s.replicas[w.Key], Ready: s.replicas[w.Key], Operator: scaling.NoOperator}, true
}

func (*teamScene) Request(_ *scaling.Workload, resource string) (int64, bool, int64) {
	return 2, resource == "nvidia.com/gpu", 0
}

func (*teamScene) Unmanaged(*scaling.Team, []*scaling.Workload, string) int64 { return 1 }

// A team has a limit on GPUs. The share of the limit that a workload gets is recorded in the view of the workload, so that Verify can
// recompute each workload without the other workloads.
func TestATeamsLimitIsDecidedAgain(t *testing.T) {
	team := &scaling.Team{Name: "chat", Limits: []scaling.ResourceLimit{{Resource: "nvidia.com/gpu", Max: 9}}}
	s := &teamScene{replicas: map[scaling.Key]int32{}}
	for _, name := range []string{"a", "b"} {
		s.workloads = append(s.workloads, scaling.Workload{Key: scaling.Key{Namespace: "team", Name: name}, Policy: &scaling.Policy{
			Signals: []scaling.Signal{{Name: "queue", Target: 5, MaxAge: time.Minute}}, MaxReplicas: 20, Team: team,
		}})
	}
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	r, err := New(path, Options{Segment: 64 << 10, Keep: 50})
	if err != nil {
		t.Fatal(err)
	}
	e, cut := engine.New(s, s, s, engine.Options{}), 0
	for i := range 300 {
		s.at, s.value = noon.Add(time.Duration(i)*time.Second), float64(i%97)
		e.Tick(context.Background(), s.at)
		for _, w := range s.workloads {
			d, _ := e.Decisions().Decision(w.Key)
			if s.replicas[w.Key] = d.Replicas; d.Binding == scaling.RuleTeamLimit {
				cut++
			}
		}
		if err := r.Tick(e.Decisions(), s.at); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if v, err := VerifyFiles(path, nil); err != nil || v.Decisions != 600 || cut < 100 {
		t.Errorf("%+v, %v; cut %d times", v, err, cut)
	}
}

func nan() float64 { var zero float64; return zero / zero }

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"kind":"start","version":5}` + "\n" + `{"kind":"policy","policy":{"id":1,"key":"a/b","rules":{"MaxReplicas":3}}}` + "\n" +
		`{"kind":"tick","at":"2026-11-02T12:00:00Z","w":[{"k":"a/b","p":1,"view":{},"readings":[],"d":{},"state":[1,2,3]}]}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := Verify("fuzz", bytes.NewReader(text), nil); err == nil && v.Ticks < 0 {
			t.Error("it must be refused or verified, never crash")
		}
	})
}
