package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

const gpu = "nvidia.com/gpu"

// fakeTeam is a fakeCluster whose workloads belong to one team with limits.
type fakeTeam struct {
	*fakeCluster
	team      *scaling.Team
	requests  map[scaling.Key]int64 // GPUs per replica; a workload without an entry has an unknown request
	pods      map[scaling.Key]int64 // GPUs of the pods of a workload with an unknown request
	unmanaged int64
	broken    bool
}

func newFakeTeam(limit int64, names ...string) *fakeTeam {
	w := &fakeTeam{fakeCluster: newFakeCluster(), requests: map[scaling.Key]int64{}, pods: map[scaling.Key]int64{}}
	w.setLimit(limit)
	for _, name := range names {
		w.join(name, scaling.Auto)
	}
	return w
}

func (w *fakeTeam) join(name string, mode scaling.Mode) scaling.Key {
	key := w.add(name, mode)
	w.requests[key] = 1
	w.setLimit(w.team.Limits[0].Max)
	return key
}

// setLimit replaces every policy by a copy with the new limit, as an edit of the PlatformConfig does.
func (w *fakeTeam) setLimit(limit int64) {
	w.team = &scaling.Team{Name: "chat", Namespaces: []string{"team"}, Limits: []scaling.ResourceLimit{{Resource: gpu, Max: limit}}}
	w.workloads = slices.Clone(w.workloads)
	for i := range w.workloads {
		p := *w.workloads[i].Policy
		p.Team = w.team
		w.workloads[i].Policy = &p
	}
}

func (w *fakeTeam) Request(x *scaling.Workload, resource string) (int64, bool, int64) {
	if w.broken {
		panic("a bug in the cluster")
	}
	n, known := w.requests[x.Key]
	if !known {
		return 0, false, w.pods[x.Key]
	}
	return n, resource == gpu, n * int64(w.views[x.Key].Ready) // the third result is 0 if the scale target does not exist
}

func (w *fakeTeam) Unmanaged(*scaling.Team, []*scaling.Workload, string) int64 { return w.unmanaged }

// tick advances the clock by one second and runs a tick.
func (w *fakeTeam) tick(e *Engine) Outcome {
	w.now = w.now.Add(time.Second)
	return e.Tick(context.Background(), w.now)
}

// follow sets the replicas of every workload to the served target, as an HPA does.
func (w *fakeTeam) follow(e *Engine) {
	for key, v := range w.views {
		if served, err := e.Decisions().Lookup(key, w.now); err == nil {
			v.Replicas, v.Ready = served.Replicas, served.Replicas
			w.views[key] = v
		}
	}
}

func (w *fakeTeam) targets(e *Engine) (out []int32) {
	for i := range w.workloads {
		served, err := e.Decisions().Lookup(w.workloads[i].Key, w.now)
		if err != nil {
			served.Replicas = -1
		}
		out = append(out, served.Replicas)
	}
	return out
}

func (w *fakeTeam) expect(t *testing.T, e *Engine, when string, want ...int32) {
	t.Helper()
	if got := w.targets(e); !slices.Equal(got, want) {
		t.Errorf("%s: targets %v, want %v", when, got, want)
	}
}

func (w *fakeTeam) view(i int, change func(*View)) {
	v := w.views[w.workloads[i].Key]
	change(&v)
	w.views[w.workloads[i].Key] = v
}

// Two policies need 40 replicas each and share a limit of 4 GPUs.
func TestTargetsOfATeamStayWithinItsLimit(t *testing.T) {
	w := newFakeTeam(4, "a", "b")
	e := New(w, w, w, Options{})
	w.backlog[w.workloads[0].Key], w.backlog[w.workloads[1].Key] = 400, 400
	w.tick(e)
	w.expect(t, e, "both ask for 40, both run 2", 2, 2)
	r, _ := e.Decisions().Record(w.workloads[0].Key)
	if r.Decision.Binding != scaling.RuleTeamLimit || r.Decision.Uncapped != 2 {
		t.Errorf("decided by %v, %d without the capacity cap", r.Decision.Binding, r.Decision.Uncapped)
	}
	reasons := r.Decision.Reasons.All()
	text := explain.Reason(reasons[len(reasons)-1], r.Workload.Policy)
	if text != "capped at 2: team chat has a limit of 4 nvidia.com/gpu, and others use 2" {
		t.Errorf("the reason is %q", text)
	}
	if at := slices.IndexFunc(r.Without, func(c Counterfactual) bool { return c.Rule == scaling.RuleTeamLimit }); at < 0 ||
		r.Without[at].Replicas != 40 {
		t.Errorf("without the limit: %+v", r.Without)
	}
	want := []TeamUse{{Resource: gpu, Limit: 4, Uncapped: 80, Targets: 4, Minimums: 2, Cut: 2}}
	if got := e.Decisions().Teams(); len(got) != 1 || got[0].Name != "chat" || !slices.Equal(got[0].Limits, want) {
		t.Errorf("teams %+v", got)
	}

	w.setLimit(0)
	w.tick(e)
	w.expect(t, e, "a limit of 0 allows none, below minReplicas", 0, 0)
	w.setLimit(80)
	w.tick(e)
	w.expect(t, e, "a limit that suffices cuts nothing", 40, 40)
	w.follow(e)
	w.setLimit(50)
	w.tick(e)
	w.expect(t, e, "a limit below what runs cuts at once", 25, 25)
	w.silent = true
	w.setLimit(10)
	w.tick(e)
	w.expect(t, e, "also while every signal is missing", 5, 5)
}

func TestScaleUpWaitsForRunningReplicasOfTheTeam(t *testing.T) {
	w := newFakeTeam(8, "a", "b")
	a, b := w.workloads[0].Key, w.workloads[1].Key
	e := New(w, w, w, Options{})
	for i := range w.workloads {
		w.workloads[i].Policy.ScaleDown.StabilizationWindow = 0
	}
	w.backlog[a], w.backlog[b] = 60, 20
	w.tick(e)
	w.follow(e)
	w.expect(t, e, "6 and 2", 6, 2)
	w.backlog[a], w.backlog[b] = 20, 60
	w.tick(e)
	w.expect(t, e, "b waits for the replicas that a's HPA has not removed", 2, 2)
	w.follow(e)
	w.tick(e)
	w.expect(t, e, "then it is raised", 2, 6)
	w.follow(e)
	w.backlog[a] = 60
	w.tick(e)
	w.expect(t, e, "a running replica is not removed for a raise", 2, 6)
	w.unmanaged = 5
	w.tick(e)
	w.expect(t, e, "nor for pods without a policy", 2, 6)
	w.backlog[b] = 30
	w.tick(e)
	w.follow(e)
	w.tick(e)
	w.expect(t, e, "which stop raises", 2, 3)
	w.unmanaged = 2
	w.tick(e)
	w.expect(t, e, "until they end", 3, 3)
}

func TestOverrideIsCutLast(t *testing.T) {
	w := newFakeTeam(10, "a", "b")
	a := w.workloads[0].Key
	e := New(w, w, w, Options{})
	w.backlog[a] = 400
	w.tick(e)
	w.follow(e)
	w.expect(t, e, "a fills the limit", 8, 2)
	w.view(1, func(v *View) {
		v.Operator = scaling.Operator{Min: 6, Max: -1, Until: w.now.Add(time.Hour)}
	})
	w.tick(e)
	w.expect(t, e, "an override takes replicas that another workload runs", 4, 6)
	w.view(1, func(v *View) { v.Operator.Min = 40 })
	w.tick(e)
	w.expect(t, e, "but not beyond the limit, nor the other's minimum", 1, 9)
	w.follow(e)
	w.view(1, func(v *View) { v.Operator = scaling.Operator{Paused: true, Min: -1, Max: -1} })
	w.tick(e)
	w.expect(t, e, "a pause keeps them", 1, 9)
	w.setLimit(5)
	w.tick(e)
	w.expect(t, e, "and yields to a lowered limit", 1, 4)
}

func TestUnknownAmountIsNotRaisedAndNotZero(t *testing.T) {
	w := newFakeTeam(10, "a", "b")
	a, b := w.workloads[0].Key, w.workloads[1].Key
	delete(w.requests, a)
	w.backlog[a], w.backlog[b] = 400, 400
	e := New(w, w, w, Options{})
	w.tick(e)
	w.expect(t, e, "two replicas of an unknown amount count as two", 2, 8)
	r, _ := e.Decisions().Record(a)
	reasons := r.Decision.Reasons.All()
	if text := explain.Reason(reasons[len(reasons)-1], r.Workload.Policy); !strings.Contains(text,
		"how many nvidia.com/gpu a replica requests is not known") {
		t.Errorf("the reason is %q", text)
	}
	w.requests[a] = 4
	w.tick(e)
	w.expect(t, e, "known: two replicas of 4 leave room for the minimum and one", 2, 2)
	delete(w.requests, a)
	w.tick(e)
	w.expect(t, e, "unknown again: the last known amount counts, and nothing is cut", 2, 2)
	w.setLimit(2)
	w.tick(e)
	w.expect(t, e, "a lowered limit cuts what is known", 2, 0)
}

func TestWorkloadsThatAreNotServedStopRaisesOnly(t *testing.T) {
	w := newFakeTeam(10, "a")
	advised := w.join("advised", scaling.Advisory)
	w.view(1, func(v *View) { v.Replicas, v.Ready = 6, 6 })
	w.backlog[w.workloads[0].Key], w.backlog[advised] = 400, 400
	e := New(w, w, w, Options{})
	w.tick(e)
	w.expect(t, e, "six replicas that something else runs leave four", 4, -1)
	if r, _ := e.Decisions().Record(advised); r.Decision.Replicas != 6 || r.Decision.Binding != scaling.RuleTeamLimit {
		t.Errorf("advisory: %d by %v, want what it would receive: 6 by the limit", r.Decision.Replicas, r.Decision.Binding)
	}
	w.follow(e)
	w.view(1, func(v *View) { v.Replicas, v.Ready = 40, 40 })
	w.tick(e)
	w.expect(t, e, "more of them remove nothing", 4, -1)
}

func TestMemberWithoutADecisionKeepsItsShare(t *testing.T) {
	w := newFakeTeam(10, "a", "b")
	a, b := w.workloads[0].Key, w.workloads[1].Key
	w.backlog[a] = 400
	e := New(w, w, w, Options{})
	w.tick(e)
	w.follow(e)
	w.expect(t, e, "at first", 8, 2)
	w.explode = []scaling.Key{a}
	w.backlog[b] = 400
	w.tick(e)
	w.expect(t, e, "a panics: its last target is still served", 8, 2)
	w.setLimit(6)
	w.tick(e)
	w.expect(t, e, "and is cut by a lowered limit", 4, 2)
	w.setLimit(10)
	w.tick(e)
	w.expect(t, e, "which may be raised again", 8, 2)
	for range 61 {
		w.tick(e)
	}
	w.expect(t, e, "it is too old: what its pods request stops raises", -1, 2)
	w.unmanaged = 0
	delete(w.views, a)
	w.tick(e)
	w.expect(t, e, "it is deleted: b receives its share", -1, 10)
}

func TestPanicInTheDivisionServesNoTargetThatIgnoresTheLimit(t *testing.T) {
	w := newFakeTeam(6, "a", "b")
	w.join("c", scaling.Auto)
	alone := w.add("alone", scaling.Auto)
	e := New(w, w, w, Options{})
	w.tick(e)
	w.expect(t, e, "at first", 2, 2, 2, 2)
	w.broken = true
	for i := range w.workloads {
		w.backlog[w.workloads[i].Key] = 400
	}
	out := w.tick(e)
	w.expect(t, e, "the targets of the team are kept, a workload without a team is decided", 2, 2, 2, 40)
	if len(out.Errors) != 1 || !strings.Contains(out.Errors[0].Error(), "team chat: divide limits: panic") {
		t.Errorf("errors %v", out.Errors)
	}
	if all := e.Decisions().Teams(); len(all) != 1 || all[0].Err == "" {
		t.Errorf("teams %+v", all)
	}
	for range 61 {
		w.tick(e)
	}
	w.expect(t, e, "and are an error once they are too old", -1, -1, -1, 40)
	w.broken = false
	w.tick(e)
	w.expect(t, e, "until the division works again", 2, 2, 2, 40)
	if _, err := e.Decisions().Lookup(alone, w.now); err != nil {
		t.Error(err)
	}
}

// For all loads, views and changes of the limit, the targets stay within the limit, and the order of the policies has no effect. While the
// limit is large enough for all targets, every decision is the same as without a limit.
func TestTeamLimitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "workloads")
		limit := rapid.Int64Range(0, 40).Draw(t, "limit")
		seed := rapid.Uint64().Draw(t, "seed")
		build := func(reverse bool, limit int64) (*fakeTeam, *Engine) {
			w := newFakeTeam(limit)
			draw := rand.New(rand.NewPCG(seed, 7))
			for i := range n {
				key := w.join(fmt.Sprint("w", i), scaling.Auto)
				w.requests[key] = draw.Int64N(4)
				p := *w.workloads[i].Policy
				p.MinReplicas, p.MaxReplicas = draw.Int32N(3), 3+draw.Int32N(30)
				p.ScaleDown.StabilizationWindow = time.Duration(draw.IntN(60)) * time.Second
				w.workloads[i].Policy = &p
			}
			if reverse {
				slices.Reverse(w.workloads)
			}
			return w, New(w, w, w, Options{})
		}
		w, e := build(false, limit)
		turned, other := build(true, limit)
		free, loose := build(false, 1<<40)
		draw := rand.New(rand.NewPCG(seed, 9))
		suffices := true
		for range 60 {
			if draw.IntN(10) == 0 {
				limit = draw.Int64N(60)
				w.setLimit(limit)
				turned.setLimit(limit)
				free.setLimit(1 << 40)
			}
			follow := draw.IntN(3) == 0
			for key := range sorted(w.workloads) {
				load, silent := float64(draw.IntN(400)), draw.IntN(8) == 0
				if silent {
					load = -1
				}
				w.backlog[key], turned.backlog[key], free.backlog[key] = load, load, load
			}
			w.tick(e)
			turned.tick(other)
			free.tick(loose)
			var sum, uncapped int64
			for i := range w.workloads {
				key := w.workloads[i].Key
				got, _ := e.Decisions().Decision(key)
				again, _ := other.Decisions().Decision(key)
				without, _ := loose.Decisions().Decision(key)
				sum += int64(got.Replicas) * w.requests[key]
				uncapped += int64(max(without.Replicas, free.views[key].Replicas)) * w.requests[key]
				if got != again {
					t.Fatalf("%s: %+v in one order of the policies, %+v in another", key, got, again)
				}
			}
			if sum > limit {
				t.Fatalf("targets of %d exceed the limit of %d", sum, limit)
			}
			suffices = suffices && uncapped <= limit
			for i := range w.workloads {
				key := w.workloads[i].Key
				got, _ := e.Decisions().Decision(key)
				if without, _ := loose.Decisions().Decision(key); suffices && got != without {
					t.Fatalf("%s: %+v, and %+v without a limit", key, got, without)
				}
			}
			if follow {
				w.follow(e)
				turned.follow(other)
				free.follow(loose)
			}
		}
	})
}

// sorted returns an iterator over the keys of the workloads, in the order of the slice.
func sorted(all []scaling.Workload) func(func(scaling.Key) bool) {
	return func(yield func(scaling.Key) bool) {
		for i := range all {
			if !yield(all[i].Key) {
				return
			}
		}
	}
}
