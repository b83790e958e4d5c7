package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// fakeNodes is a cluster of NodePools in memory. The next observation contains each write, unless slow is set.
type fakeNodes struct {
	groups  []*capacity.Group
	pools   map[string]*capacity.PoolView
	pods    map[string][]capacity.Pod // key: name of the workload
	others  []capacity.Pod
	lost    bool
	slow    bool
	broken  string // the group whose observation panics
	served  func() int32
	acts    []string // the applied actions, each with the target that was served at that moment
	observe int
	gpus    int64 // GPUs per replica; 0 means one

	annotated []capacity.Action // actions for pods that belong to no workload
}

func newFakeNodes(groups ...capacity.Group) *fakeNodes {
	g := &fakeNodes{pools: map[string]*capacity.PoolView{}, pods: map[string][]capacity.Pod{}, served: func() int32 { return -1 }}
	for _, group := range groups {
		compiled, err := capacity.NewGroup(group)
		if err != nil {
			panic(err)
		}
		g.groups = append(g.groups, compiled)
		for _, p := range group.Pools {
			g.pools[p.Name] = &capacity.PoolView{Exists: true, Ready: true,
				View: nodepool.View{Consent: nodepool.ConsentLimits | nodepool.ConsentWeight | nodepool.ConsentDisruption}}
		}
	}
	return g
}

func (g *fakeNodes) Groups() []*capacity.Group { return g.groups }

func (g *fakeNodes) Observe(group *capacity.Group, of []*scaling.Workload, o *capacity.Observation) {
	g.observe++
	if group.Name == g.broken {
		panic("a bug in one group")
	}
	o.Pools, o.UnmanagedPods, o.Lost = nil, g.others, g.lost
	for _, p := range group.Pools {
		o.Pools = append(o.Pools, *g.pools[p.Name])
	}
	for i, w := range of {
		o.Workloads[i].GPUs, o.Workloads[i].Pods = max(g.gpus, 1), g.pods[w.Key.String()]
		o.Workloads[i].Current = int32(len(o.Workloads[i].Pods))
	}
}

func (g *fakeNodes) Act(_ *capacity.Group, actions []capacity.Action) <-chan struct{} {
	done := make(chan struct{})
	if g.slow {
		return done
	}
	defer close(done)
	for _, a := range actions {
		g.acts = append(g.acts, fmt.Sprintf("%s(serving %d)", strings.TrimSpace(a.Text()), g.served()))
		if p, ok := a.(capacity.NodePoolPatch); ok {
			g.write(p)
		}
	}
	return done
}

func (g *fakeNodes) write(p capacity.NodePoolPatch) {
	v := g.pools[p.Pool]
	v.Record = p.Record
	for _, c := range p.Changes {
		if c.Field >= nodepool.FieldLimit {
			v.Limits = []nodepool.LimitView{{Resource: c.Resource, FieldView: nodepool.FieldView{Value: c.To, Ours: !c.Restore}}}
		}
	}
}

func (g *fakeNodes) Orphans(groups []*capacity.Group, _ []scaling.Workload) (out []Orphan, _ []capacity.Action) {
	for name, v := range g.pools {
		named := slices.ContainsFunc(groups, func(group *capacity.Group) bool {
			return slices.ContainsFunc(group.Pools, func(p capacity.Pool) bool { return p.Name == name })
		})
		if !named && v.Record != "" {
			out = append(out, Orphan{name, v.Record})
		}
	}
	return out, g.annotated
}

func zeroLimited(name string) capacity.Group {
	return capacity.Group{Name: name, Resource: "nvidia.com/gpu", ZeroLimit: true, ConsolidationFreeze: true,
		Pools: []capacity.Pool{{Name: name + "-pool", Type: capacity.OnDemand}}}
}

// night returns a cluster with one workload that has no demand, its NodePool, which has a zero limit, an engine, and the key of the
// workload.
func night(t *testing.T) (*fakeCluster, *fakeNodes, *Engine, scaling.Key) {
	t.Helper()
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	policy := queuePolicy()
	policy.MinReplicas, policy.CooldownPeriod = 0, time.Minute
	w.workloads[0].Policy, w.workloads[0].Group = policy, "gpu"
	w.views[chat] = View{Operator: scaling.NoOperator, GPUs: 1}
	w.backlog[chat] = 0
	g := newFakeNodes(zeroLimited("gpu"))
	e := New(w, w, w, Options{Groups: g, Nodes: g, ApplyTimeout: 20 * time.Millisecond})
	g.served = func() int32 {
		n, err := e.Decisions().Lookup(chat, w.now)
		if err != nil {
			return -1
		}
		return n.Replicas
	}
	w.after(e, 10*time.Minute)
	if len(g.acts) != 1 || !strings.HasPrefix(g.acts[0], `gpu-pool spec.limits[nvidia.com/gpu]: (absent) -> "0"  (zero limit)`) {
		t.Fatalf("at night: %q", g.acts)
	}
	g.acts = nil
	return w, g, e, chat
}

func TestZeroLimitIsRemovedBeforeTheTargetIsServed(t *testing.T) {
	w, g, e, chat := night(t)
	w.backlog[chat] = 25
	w.after(e, time.Second)
	const restored = `gpu-pool spec.limits[nvidia.com/gpu]: "0" -> (absent)  (owner's value restored)(serving 0)`
	if !slices.Equal(g.acts, []string{restored}) {
		t.Errorf("when demand returned: %q, want %q", g.acts, restored)
	}
	if n := g.served(); n != 3 {
		t.Errorf("then %d was served, not 3", n)
	}
	r, ok := e.Decisions().Group("gpu")
	if !ok || r.Demand.Policies != 3 || r.At != w.now || len(r.Pools) != 1 || r.Workloads[0].Uncapped != 3 {
		t.Errorf("the record of the group is %+v", r)
	}
	if h := e.Decisions().GroupHistory("gpu", nine, w.now); len(h) < 3 || len(h[len(h)-1].Actions) != 1 {
		t.Errorf("%d transitions of the group", len(h))
	}
}

func TestHangingAPIServerDelaysATargetByAtMostASecond(t *testing.T) {
	w, g, e, chat := night(t)
	g.slow = true
	w.backlog[chat] = 25
	synctest.Test(t, func(t *testing.T) {
		origin := time.Now()
		w.after(e, time.Second)
		if took := time.Since(origin); g.served() != 3 || took > time.Second {
			t.Errorf("%d was served after %s", g.served(), took)
		}
	})
}

func TestPanicOfOneGroupDoesNotStopTargetsAndOtherGroups(t *testing.T) {
	w, g, e, chat := night(t)
	other := w.add("other", scaling.Auto)
	w.workloads[1].Group = "more"
	more := newFakeNodes(zeroLimited("more"))
	g.groups = append(g.groups[:1:1], more.groups[0])
	g.pools["more-pool"] = more.pools["more-pool"]
	g.broken = "gpu"
	w.backlog[chat], w.backlog[other] = 25, 42
	out := w.after(e, time.Second)
	if len(out.Errors) != 1 || !strings.Contains(out.Errors[0].Error(), "capacity group gpu: panic") {
		t.Errorf("errors %v", out.Errors)
	}
	for key, want := range map[scaling.Key]int32{chat: 3, other: 5} {
		if n, err := e.Decisions().Lookup(key, w.now); err != nil || n.Replicas != want {
			t.Errorf("%s is served %+v, %v; want %d", key, n, err, want)
		}
	}
	if r, _ := e.Decisions().Group("gpu"); r.Err == "" {
		t.Error("the record does not contain the failure of the group")
	}
	if r, _ := e.Decisions().Group("more"); r.Demand.Policies != 5 {
		t.Errorf("the other group: %+v", r.Demand)
	}
	g.broken = ""
	w.after(e, 2*time.Second)
	if r, _ := e.Decisions().Group("gpu"); r.Err != "" || g.pools["gpu-pool"].Record != "" || g.pools["gpu-pool"].Limits[0].Value != "" {
		t.Errorf("after the bug: %q, pool %+v", r.Err, g.pools["gpu-pool"])
	}
}

func TestAdviceIsReadInTheNextTick(t *testing.T) {
	w, g, e, chat := night(t)
	delete(w.views, chat)
	w.views[chat] = View{Replicas: 2, Ready: 2, GPUs: 1, Operator: scaling.NoOperator}
	g.pods["team/chat"] = []capacity.Pod{{UID: "a", GPUs: 1, Ready: true}, {UID: "b", GPUs: 1, Ready: true, Node: 1}}
	g.pools["gpu-pool"].Nodes = []capacity.Node{
		{Name: "n1", Type: capacity.OnDemand, Stage: capacity.Usable, Ready: true, GPUs: 1, Used: 1, Notice: true},
		{Name: "n2", Type: capacity.OnDemand, Stage: capacity.Usable, Ready: true, GPUs: 1, Used: 1},
	}
	w.backlog[chat] = 20
	w.after(e, time.Second)
	if n := g.served(); n != 2 {
		t.Errorf("in the tick that saw the notice %d was served", n)
	}
	w.after(e, time.Second)
	if n := g.served(); n != 3 {
		t.Errorf("in the next tick %d was served, want one more replica", n)
	}
	r, _ := e.Decisions().Record(chat)
	if r.View.Advice.AtRisk != 1 || r.Observation().Advice.AtRisk != 1 {
		t.Errorf("the record does not contain the advice of the group: %+v", r.View.Advice)
	}
	if got, want := adviceOf(capacity.Advice{Cap: -1, AtRisk: 3, Reserve: 2, Surge: 1}, nil).forScaling(), (scaling.Advice{Cap: -1, AtRisk: 3,
		Reserve: 2, Surge: 1}); got != want {
		t.Errorf("advice %+v, want %+v", got, want)
	}
	group, _ := e.Decisions().Group("gpu")
	if u := group.Use()[capacity.OnDemand]; u.Nodes != 2 || u.GPUs != 2 || u.Used != 2 || group.Workloads[0].Extra != 1 {
		t.Errorf("use %+v, workloads %+v", u, group.Workloads)
	}
}

func TestUnknownDemandIsNotZero(t *testing.T) {
	w, g, e, chat := night(t)
	delete(w.views, chat)
	w.after(e, 3*time.Second)
	if want := `"0" -> (absent)`; len(g.acts) == 0 || !strings.Contains(g.acts[0], want) {
		t.Errorf("a workload that is not found keeps its zero limit: %q", g.acts)
	}
	r, _ := e.Decisions().Group("gpu")
	if !r.Demand.Unknown {
		t.Errorf("demand %+v", r.Demand)
	}
}

func TestScheduleFloorIsKnownAhead(t *testing.T) {
	w, g, e, _ := night(t)
	policy := *w.workloads[0].Policy
	opens := w.now.Add(30 * time.Minute)
	policy.Schedules = []scaling.Schedule{{Window: calendar.Window{Name: "office", From: opens, To: opens.Add(8 * time.Hour)}, Min: 2,
		Max: -1, Lead: 5 * time.Minute}}
	changed := w.workloads[0]
	changed.Policy = &policy
	w.workloads = []scaling.Workload{changed}
	w.after(e, 20*time.Minute)
	if len(g.acts) != 0 {
		t.Errorf("ten minutes ahead: %q", g.acts)
	}
	w.after(e, 4*time.Minute+30*time.Second) // half a minute before the lead time of the schedule begins
	held := strings.Join(g.acts, "\n")
	if !strings.Contains(held, `"0" -> (absent)`) || !strings.Contains(held, "disruption.budgets") || g.served() != 0 {
		t.Errorf("before the floor: %s, serving %d", held, g.served())
	}
	w.after(e, time.Minute)
	if g.served() != 2 {
		t.Errorf("with the lead time begun %d is served", g.served())
	}
}

func TestSpanOfAWindow(t *testing.T) {
	hour := func(n int) time.Time { return nine.Add(time.Duration(n) * time.Hour) }
	for _, c := range []struct {
		name     string
		from, to time.Time
		now      time.Time
		want     string
	}{
		{"ahead", hour(1), hour(2), nine, "10:00 11:00"},
		{"opened lately", hour(-1), hour(2), nine, "08:00 11:00"},
		{"opened just now", hour(0), hour(2), nine, "09:00 11:00"},
		{"opened long ago", hour(-5), hour(2), nine, "07:00 11:00"},
		{"over", hour(-5), hour(-2), nine, ""},
		{"without an end", hour(1), time.Time{}, nine, "10:00 09:00"},
		{"open for ever", time.Time{}, hour(9), nine, "07:00 18:00"},
	} {
		w := calendar.Window{From: c.from, To: c.to}
		from, until, ok := spanNear(&w, c.now)
		got := ""
		if ok {
			got = from.Format("15:04") + " " + until.Format("15:04")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRemovedGroupIsRestoredAndResetForgetsGroups(t *testing.T) {
	w, g, e, _ := night(t)
	g.groups = nil
	w.after(e, 2*time.Second)
	if len(g.acts) == 0 || !strings.Contains(g.acts[0], "owner's value restored") || g.pools["gpu-pool"].Record != "" {
		t.Errorf("after the group was removed, the NodePool still has the record %q: %q", g.pools["gpu-pool"].Record, g.acts)
	}
	if names := e.Decisions().Groups(); len(names) != 0 {
		t.Errorf("on the decisions: %q", names)
	}
	e.Reset()
	before := g.observe
	if names := e.Decisions().Groups(); len(names) != 0 || before != g.observe {
		t.Error("nodes are observed after Reset")
	}
}

func TestShutdownRestoresLimitsOnly(t *testing.T) {
	w, g, e, _ := night(t)
	e.Shutdown(t.Context(), rounds(t.Context(), w.now))
	if len(g.acts) == 0 || !strings.Contains(g.acts[0], `"0" -> (absent)`) || g.pools["gpu-pool"].Limits[0].Ours {
		t.Errorf("at shutdown: %q", g.acts)
	}
	w, g, e, _ = night(t)
	g.slow = true
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	e.Shutdown(ctx, rounds(ctx, w.now)) // Shutdown must return, although no write is ever applied
}

func TestEngineWithoutNodesObservesNone(t *testing.T) {
	w := newFakeCluster("chat")
	w.workloads[0].Group = "gpu"
	e := New(w, w, w, Options{})
	w.after(e, time.Second)
	e.Shutdown(t.Context(), rounds(t.Context(), w.now))
	if n, err := e.Decisions().Lookup(w.workloads[0].Key, w.now); err != nil || n.Replicas != 2 {
		t.Errorf("%+v, %v", n, err)
	}
}

// quiet is a fakeNodes that returns the same slices in each tick, as the cluster does.
type quiet struct {
	*fakeNodes
	pools []capacity.PoolView
}

func (q quiet) Observe(_ *capacity.Group, of []*scaling.Workload, o *capacity.Observation) {
	o.Pools = q.pools
	for i := range of {
		o.Workloads[i].GPUs = 1
	}
}

func (q quiet) Orphans([]*capacity.Group, []scaling.Workload) ([]Orphan, []capacity.Action) {
	return nil, nil
}

func BenchmarkQuietGroups1000(b *testing.B) {
	s := newSteady(1000)
	for i := range s.workloads {
		s.workloads[i].Group = "gpu"
	}
	g := newFakeNodes(zeroLimited("gpu"))
	q := quiet{g, []capacity.PoolView{*g.pools["gpu-pool"]}}
	e, now := New(s, s, s, Options{Groups: g, Nodes: q}), nine
	s.at(now)
	e.Tick(context.Background(), now)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		s.at(now)
		e.Tick(context.Background(), now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/policy")
}

func TestNodeReplicasAreAddedToTheMinimum(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	policy := queuePolicy()
	policy.MinReplicas = 3
	w.workloads[0].Policy, w.workloads[0].Group = policy, "gpu"
	w.views[chat] = View{Operator: scaling.NoOperator, GPUs: 1, Replicas: 3, Ready: 3}
	w.backlog[chat] = 0
	g := newFakeNodes(capacity.Group{Name: "gpu", Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: "gpu-pool", Type: capacity.Spot}}})
	for i := range 3 {
		name := fmt.Sprint("chat-", i)
		g.pools["gpu-pool"].Nodes = append(g.pools["gpu-pool"].Nodes, capacity.Node{Name: name, UID: name, Type: capacity.Spot,
			Stage: capacity.Usable, Ready: true, GPUs: 1, Used: 1, Notice: i == 0})
		g.pods[chat.String()] = append(g.pods[chat.String()], capacity.Pod{UID: name, Name: name, Owner: capacity.OwnerReplicaSet,
			GPUs: 1, Node: i, Ready: true})
	}
	e := New(w, w, w, Options{Groups: g, Nodes: g})
	w.after(e, 5*time.Second)
	r, _ := e.Decisions().Group("gpu")
	if of := r.Workloads[0]; of.Uncapped != 4 || of.Extra != 1 {
		t.Errorf("a node with notice, three replicas by the minimum alone: %+v", of)
	}
}

// The record annotation on the NodePool of a removed group cannot be read. The owner's limit is then unknown, so the limit that gpuscaler
// set is removed. OnGroupTick reports that the NodePool belongs to no group.
func TestRemovedGroupWithAnUnreadableRecordIsRestored(t *testing.T) {
	w, g, e, _ := night(t)
	orphaned := 0
	e.options.OnGroupTick = func(d GroupTick) {
		if d.Orphaned {
			orphaned++
		}
	}
	w.after(e, time.Second)
	if orphaned != 0 {
		t.Errorf("%d decisions for a NodePool without a group while its group exists", orphaned)
	}
	g.groups, g.pools["gpu-pool"].Record = nil, "{"
	w.after(e, 2*time.Second)
	if len(g.acts) == 0 || g.pools["gpu-pool"].Limits[0].Ours || orphaned == 0 {
		t.Errorf("the NodePool has %+v, after %q in %d decisions", g.pools["gpu-pool"], g.acts, orphaned)
	}
}

// A pod keeps an annotation of gpuscaler although its workload was removed. The next tick removes the annotation.
func TestAnnotationOfAPodWithoutAWorkloadIsRemoved(t *testing.T) {
	w, g, e, _ := night(t)
	g.annotated = []capacity.Action{capacity.PodAnnotation{Namespace: "team", Name: "previous"}}
	w.after(e, time.Second)
	if len(g.acts) != 1 || !strings.Contains(g.acts[0], "previous") {
		t.Errorf("actions %q, want the removal from the pod", g.acts)
	}
}

// A workload is removed from its group while the group advises a replacement for a replica at risk. The advice must end in the next tick.
func TestAdviceEndsWithTheGroupOfAWorkload(t *testing.T) {
	w, g, e, chat := night(t)
	w.views[chat] = View{Replicas: 2, Ready: 2, GPUs: 1, Operator: scaling.NoOperator}
	g.pods["team/chat"] = []capacity.Pod{{UID: "a", GPUs: 1, Ready: true}, {UID: "b", GPUs: 1, Ready: true, Node: 1}}
	g.pools["gpu-pool"].Nodes = []capacity.Node{
		{Name: "n1", Type: capacity.OnDemand, Stage: capacity.Usable, Ready: true, GPUs: 1, Used: 1, Notice: true},
		{Name: "n2", Type: capacity.OnDemand, Stage: capacity.Usable, Ready: true, GPUs: 1, Used: 1},
	}
	w.backlog[chat] = 20
	w.after(e, 2*time.Second)
	if n := g.served(); n != 3 {
		t.Fatalf("with a replica at risk %d was served, want 3", n)
	}
	left := w.workloads[0]
	left.Group = ""
	w.workloads = []scaling.Workload{left}
	w.after(e, time.Second)
	if r, _ := e.Decisions().Record(chat); r.View.Advice != (Advice{}) {
		t.Errorf("without its group: %+v", r.View.Advice)
	}
}

// One hour before a schedule opens, the capacity group observes the minimum of the schedule as demand that is known in advance: 6 replicas
// with 4 GPUs each are 24 GPUs.
func TestScheduleAheadCountsTheGPUsOfItsReplicas(t *testing.T) {
	w, g, e, chat := night(t)
	policy := *w.workloads[0].Policy
	opens := w.now.Add(time.Hour)
	policy.Schedules = []scaling.Schedule{{Window: calendar.Window{Name: "office", From: opens, To: opens.Add(time.Hour)}, Min: 6, Max: -1}}
	changed := w.workloads[0]
	changed.Policy = &policy
	w.workloads = []scaling.Workload{changed}
	var ahead []capacity.Span
	e.options.OnGroupTick = func(d GroupTick) { ahead = slices.Clone(d.Observation.Ahead) }
	g.gpus = 4
	w.after(e, time.Minute)
	if len(ahead) != 1 || ahead[0].GPUs != 24 || ahead[0].Replicas != 6 || ahead[0].Workload != chat.String() || !ahead[0].From.Equal(opens) {
		t.Errorf("ahead %+v, want 24 GPUs for 6 replicas at %v", ahead, opens)
	}
}

// A workload has an additional replica because another replica is at risk. Then its Deployment is deleted. The group must observe that the
// demand is unknown, and no additional replica.
func TestWorkloadThatIsNotFoundHasNoExtraReplicas(t *testing.T) {
	w, _, e, chat := night(t)
	var seen capacity.Workload
	e.options.OnGroupTick = func(d GroupTick) { seen = d.Observation.Workloads[0] }
	w.views[chat] = View{Replicas: 2, Ready: 2, GPUs: 1, Operator: scaling.NoOperator}
	w.backlog[chat] = 20
	w.after(e, time.Second)
	delete(w.views, chat)
	w.after(e, time.Second)
	if seen.Known || seen.Uncapped != 2 || seen.Extra != 0 || seen.Room != 0 || seen.ColdStart != 0 || !seen.Bounded {
		t.Errorf("the group observes %+v, want the last demand of 2 and nothing else", seen)
	}
}
