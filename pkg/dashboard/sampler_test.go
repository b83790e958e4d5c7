package dashboard

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// recordAt returns a record of one workload with one signal.
func recordAt(at time.Time, target, ready int32, queue float64) *engine.Record {
	r := &engine.Record{At: at, View: engine.View{Ready: ready}}
	r.Workload = scaling.Workload{Key: chatKey, Policy: &scaling.Policy{Signals: []scaling.Signal{{Name: "queue", Target: 10}}}}
	r.Decision.Replicas = target
	r.Readings = []scaling.Reading{{Value: queue, At: at, Known: true}}
	return r
}

// withoutSignal makes the signal of a record missing.
func withoutSignal(r *engine.Record) *engine.Record {
	r.Decision.Status[0] = scaling.SignalMissing
	return r
}

func (s *sampler) all(from, to time.Time) (names []string, out []sample) {
	names = s.read(chatKey, span{from, to}, 0, func(x sample) {
		x.values = slices.Clone(x.values)
		out = append(out, x)
	})
	return names, out
}

func TestResolutionDecreasesWithAge(t *testing.T) {
	s := newSampler()
	end := nine.Add(30 * time.Hour)
	for now := nine; !now.After(end); now = now.Add(5 * time.Second) {
		s.add(recordAt(now, int32(now.Sub(nine)/time.Hour), 1, 0), now, 1)
	}
	_, points := s.all(time.Time{}, end)
	if oldest := end.Sub(points[0].at); oldest < 24*time.Hour || oldest > 31*time.Hour {
		t.Errorf("the oldest sample is %s old, want about a day", oldest)
	}
	if n := len(points); n > 900 {
		t.Errorf("%d points, want at most 900", n)
	}
	for i, p := range points {
		if i > 0 && !p.at.After(points[i-1].at) {
			t.Fatalf("point %d at %s follows one at %s", i, p.at, points[i-1].at)
		}
		ago := end.Sub(p.at)
		if ago < 25*time.Minute && p.step != 10*time.Second || ago > 6*time.Hour && p.step != 6*time.Minute {
			t.Errorf("%s ago in steps of %s", ago, p.step)
		}
		want := float32(p.at.Sub(nine) / time.Hour)
		if math.Abs(float64(p.values[columnTarget]-want)) > 0 && p.at.Sub(nine)%time.Hour > p.step {
			t.Errorf("%s ago the target is %v, want %v", ago, p.values[columnTarget], want)
		}
	}
}

func TestMemoryOfSamplesIsBounded(t *testing.T) {
	bytes := func(workloads int) (n int) {
		s := newSampler()
		for now := nine; now.Before(nine.Add(40 * time.Hour)); now = now.Add(10 * time.Second) {
			s.add(recordAt(now, 1, 1, 0), now, workloads)
		}
		for _, l := range s.series[chatKey].levels {
			n += 4*cap(l.buckets) + 4*cap(l.values)
		}
		return n
	}
	for _, c := range []struct{ workloads, most int }{{1, 32 << 10}, {1000, 32 << 10}, {10_000, 4 << 10}, {1_000_000, 4 << 10}} {
		if got := bytes(c.workloads); got > c.most {
			t.Errorf("with %d workloads each keeps %d bytes, want at most %d", c.workloads, got, c.most)
		}
	}
}

func TestSampleHasTheHighestSignalAndTheLastReplicas(t *testing.T) {
	s := newSampler()
	for i, q := range []float64{3, 70, 5} {
		now := nine.Add(time.Duration(i) * 3 * time.Second)
		s.add(recordAt(now, int32(i), int32(i), q), now, 1)
	}
	now := nine.Add(9 * time.Second)
	s.add(withoutSignal(recordAt(now, 2, 2, 0)), now, 1)
	_, points := s.all(nine.Add(-time.Hour), now)
	if len(points) != 1 || points[0].values[columnTarget] != 2 || points[0].values[firstSignal] != 70 || !points[0].at.Equal(now) {
		t.Errorf("%+v, want target 2 and queue 70 at %s", points, now)
	}
}

func TestUnknownValuesAreGaps(t *testing.T) {
	s := newSampler()
	for i := range 6 {
		now := nine.Add(time.Duration(i) * 10 * time.Second)
		r := recordAt(now, 3, 3, 40)
		if i == 2 || i == 3 {
			withoutSignal(r)
		}
		s.add(r, now, 1)
	}
	now := nine.Add(3 * time.Minute)
	s.add(recordAt(nine, 3, 3, 40), now, 1)                                   // the decision is three minutes old
	s.add(&engine.Record{Workload: recordAt(nine, 0, 0, 0).Workload}, now, 1) // a record without a decision
	_, points := s.all(nine.Add(-time.Hour), now)
	if len(points) != 6 {
		t.Fatalf("%d points, want 6: an old decision and a missing one are not sampled", len(points))
	}
	for i, p := range points {
		if missing := p.values[firstSignal] != p.values[firstSignal]; missing != (i == 2 || i == 3) {
			t.Errorf("point %d: queue %v", i, p.values[firstSignal])
		}
	}
}

func TestSignalsKeepTheirSamplesWhenThePolicyChanges(t *testing.T) {
	s := newSampler()
	s.add(recordAt(nine, 3, 3, 40), nine, 1)
	later := nine.Add(time.Minute)
	r := recordAt(later, 4, 4, 50)
	r.Workload.Policy = &scaling.Policy{Signals: []scaling.Signal{{Name: "kv", Target: 1}, {Name: "queue", Target: 10}}}
	r.Readings = []scaling.Reading{{Value: 0.5, At: later, Known: true}, {Value: 50, At: later, Known: true}}
	s.add(r, later, 1)
	names, points := s.all(nine.Add(-time.Hour), later)
	got := fmt.Sprint(names, points[0].values, points[len(points)-1].values)
	if got != "[kv queue] [3 3 0 NaN 40] [4 4 0 0.5 50]" {
		t.Errorf("%s", got)
	}
}

func TestSamplesAfterTheClockAreDeleted(t *testing.T) {
	s := newSampler()
	for i := range 10 {
		now := nine.Add(time.Duration(i) * time.Minute)
		s.add(recordAt(now, int32(i), 0, 0), now, 1)
	}
	back := nine.Add(4 * time.Minute)
	s.add(recordAt(back, 77, 0, 0), back, 1)
	_, points := s.all(nine.Add(-time.Hour), nine.Add(time.Hour))
	if last := points[len(points)-1]; last.values[columnTarget] != 77 || last.at.After(back) {
		t.Errorf("the newest point is %v at %s", last.values, last.at)
	}
}

func TestSamplesOfDeletedWorkloadsExpire(t *testing.T) {
	l := newTestCluster(3, Options{})
	l.pass(time.Minute, 10*time.Second)
	gone := l.workloads[0].Key
	l.workloads = slices.Clone(l.workloads[1:])
	l.pass(30*time.Minute, 30*time.Second)
	if l.page.sampler.series[gone] == nil {
		t.Error("half an hour after the deletion the samples are gone")
	}
	l.pass(time.Hour, time.Minute)
	if n := len(l.page.sampler.series); n != 2 || l.page.sampler.series[gone] != nil {
		t.Errorf("%d series after an hour and a half, want 2", n)
	}
}
