package planner

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// after returns the time of the given number of seconds after nine, as in a ReplicaStart.
func after(seconds int64) int64 { return history.Stamp(nine) + 1000*seconds }

// karpenter is the start of a replica that was decided at nine and for which Karpenter launched a node.
func karpenter() ReplicaStart {
	return ReplicaStart{Created: after(9), Launched: after(12), Registered: after(43), Allocatable: after(57), Scheduled: after(58),
		Running: after(80), Ready: after(111)}
}

func phasesOf(s ReplicaStart) (c objective.ColdStart) {
	s.phases(after(0), &c)
	return c
}

func TestPhasesAreThoseThatTheObjectsShow(t *testing.T) {
	with := func(change func(s *ReplicaStart)) ReplicaStart {
		s := karpenter()
		change(&s)
		return s
	}
	seconds := func(node int, phases ...float64) (c objective.ColdStart) {
		c.Node = time.Duration(node) * time.Second
		for i, s := range phases {
			c.Phase[i] = time.Duration(s * float64(time.Second))
		}
		return c
	}
	for name, c := range map[string]struct {
		start ReplicaStart
		want  objective.ColdStart
	}{
		"Karpenter launched a node": {karpenter(), seconds(58, 12, 31, 14, 22, 31)},
		"the cluster has no Karpenter": {with(func(s *ReplicaStart) { s.Launched, s.Registered, s.Allocatable = 0, 0, 0 }),
			seconds(58, 0, 0, 0, 22, 31)},
		"a node had free GPUs": {with(func(s *ReplicaStart) {
			s.Launched, s.Registered, s.Allocatable, s.Scheduled = after(-900), after(-870), after(-850), after(10)
		}), seconds(0, 0, 0, 0, 70, 31)},
		"the node was launched for an earlier pod": {with(func(s *ReplicaStart) { s.Launched = after(2) }), seconds(58, 0, 0, 14, 22, 31)},
		"the pod waited for GPUs of an old node": {with(func(s *ReplicaStart) {
			s.Launched, s.Registered, s.Allocatable = after(-900), after(-870), after(-850)
		}), seconds(58, 0, 0, 0, 22, 31)},
		"the container has restarted":            {with(func(s *ReplicaStart) { s.Running = 0 }), seconds(58, 12, 31, 14, 0, 0)},
		"the image was on the node":              {with(func(s *ReplicaStart) { s.Running = s.Scheduled }), seconds(58, 12, 31, 14, 0.5, 53)},
		"the clock of the node is behind":        {with(func(s *ReplicaStart) { s.Running = after(50) }), seconds(58, 12, 31, 14, 0, 61)},
		"the pod is much older than the request": {with(func(s *ReplicaStart) { s.Created = after(-3600) }), objective.ColdStart{}},
		"nothing is known":                       {ReplicaStart{}, objective.ColdStart{}},
	} {
		if got := phasesOf(c.start); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The API server rounds the times of objects down to seconds. The test makes decisions at different fractions of a second. The mean of the
// measured first phase must not be smaller than the real phase of 12.3 seconds by more than a tenth of a second. A node that is launched in
// the second of the decision must have a known first phase.
func TestTimesOfObjectsAreRoundedDown(t *testing.T) {
	sum := time.Duration(0)
	for fraction := int64(0); fraction < 1000; fraction += 10 {
		s, c := karpenter(), objective.ColdStart{}
		s.Launched = (after(0) + fraction + 12_300) / 1000 * 1000
		s.phases(after(0)+fraction, &c)
		sum += c.Phase[objective.NodeLaunch]
		s.Created, s.Launched = after(0), after(0)
		if s.phases(after(0)+fraction, &c); c.Phase[objective.NodeLaunch] != resolution/2*time.Millisecond {
			t.Fatalf("launched in the second of a decision at %d ms: %+v", fraction, c)
		}
	}
	if mean := sum / 100; mean < 12200*time.Millisecond || mean > 12400*time.Millisecond {
		t.Errorf("the first phase takes %s on average, want 12.3s", mean)
	}
}

func TestNewestStartsAreKeptInTheOrderOfReady(t *testing.T) {
	var r ReplicaStarts
	for _, at := range []int64{5, 3, 9, 1, 7, 2, 8, 4, 6, 10} {
		r.Add(ReplicaStart{Ready: at})
	}
	if r.N != MaxReplicaStarts {
		t.Fatalf("%d starts are kept, want %d", r.N, MaxReplicaStarts)
	}
	for i, s := range r.List {
		if s.Ready != int64(i+3) {
			t.Errorf("start %d became ready at %d, want %d", i, s.Ready, i+3)
		}
	}
	var ab, ba ReplicaStarts
	a, b := ReplicaStart{Ready: 5, Running: 3}, ReplicaStart{Ready: 5, Running: 4}
	ab.Add(a)
	ab.Add(b)
	ba.Add(b)
	ba.Add(a)
	if ab != ba {
		t.Errorf("the order of the calls changes the result: %+v and %+v", ab, ba)
	}
	if s, ok := r.newest(0, 2); !ok || s.Ready != 9 {
		t.Errorf("the first of the last two is %+v", s)
	}
	if _, ok := r.newest(0, MaxReplicaStarts+1); ok {
		t.Error("a start that was removed is known")
	}
}

// The load increases and two replicas are requested. The first gets a new node and is ready after 111 seconds. The second uses a node with
// free GPUs and is ready after 40 seconds. Each cold start must have the phases of its own replica. Later the container of a ready replica
// fails: the replica is not ready for 5 seconds, and no phase may be learned from this.
func TestPhasesOfEachReplicaAreLearned(t *testing.T) {
	w := newWorkload(New(), 1)
	w.run(time.Minute)
	begin := w.tick.At
	at := func(s ReplicaStart) ReplicaStart { // at returns s with all times moved, so that the decision is at begin and not at nine
		for _, field := range []*int64{&s.Created, &s.Launched, &s.Registered, &s.Allocatable, &s.Scheduled, &s.Running, &s.Ready} {
			if *field != 0 {
				*field += begin - after(0)
			}
		}
		return s
	}
	w.tick.LastTarget = 3
	w.run(9 * time.Second)
	w.tick.Current, w.tick.Pending, w.tick.Loading = 3, 1, 1
	w.run(31 * time.Second)
	var list ReplicaStarts
	list.Add(at(ReplicaStart{Created: after(9), Scheduled: after(9), Running: after(15), Ready: after(40)}))
	first := list
	w.tick.Ready, w.tick.Loading, w.tick.Started = 2, 0, &first
	w.run(time.Second)
	if len(w.p.cold) != 1 || w.p.cold[0].Node != 0 || w.p.cold[0].Phase[objective.ModelLoad] != 25*time.Second {
		t.Errorf("the replica on a node with free GPUs: %+v", w.p.cold)
	}
	w.tick.Pending, w.tick.Loading = 0, 1
	w.run(70 * time.Second)
	list.Add(at(karpenter()))
	second := list
	w.tick.Ready, w.tick.Loading, w.tick.Started = 3, 0, &second
	w.run(time.Second)
	learned := w.p.Model().Learned()
	if len(w.p.cold) != 1 || w.p.cold[0].Node != 58*time.Second || learned.ColdStart.Count != 2 {
		t.Errorf("the replica on a new node: %+v, learned %+v", w.p.cold, learned.ColdStart)
	}
	counts := [objective.Phases]int64{objective.NodeLaunch: 1, objective.Registration: 1, objective.GPUAllocatable: 1,
		objective.ImagePull: 2, objective.ModelLoad: 2}
	for p, d := range learned.Phase {
		if d.Count != counts[p] {
			t.Errorf("%s: %d observations, want %d", objective.Phase(p), d.Count, counts[p])
		}
	}
	if learned.Node.Count != 1 || learned.Phase[objective.Registration].P50 != 31 {
		t.Errorf("node %+v, registration %+v", learned.Node, learned.Phase[objective.Registration])
	}
	w.tick.Ready, w.tick.Loading = 2, 1
	w.run(5 * time.Second)
	failed := list
	failed.Add(at(ReplicaStart{Created: after(9), Scheduled: after(9), Ready: after(117)}))
	w.tick.Ready, w.tick.Loading, w.tick.Started = 3, 0, &failed
	w.run(time.Second)
	if got := w.p.Model().Learned(); got.ColdStart.Count != 2 || got.Phase != learned.Phase {
		t.Errorf("a restart was learned as a cold start: %+v", got)
	}
}
