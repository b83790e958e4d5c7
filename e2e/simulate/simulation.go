package main

import (
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/deployment"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/redis"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// simulation is one run. It runs in the virtual time of a synctest bubble, with only one active goroutine at a time.
type simulation struct {
	turn   chan struct{} // contains one element while a goroutine uses the simulation
	seed   uint64
	began  time.Time
	now    time.Time
	events []schedule.Event // the events that have happened

	api         *apiserver.Server
	lease       lease
	secondLease lease
	replicas    [2]*replica
	second      *replica // the replica of the second release; nil while that release is not installed
	hasSecond   bool     // whether a second release is or was installed
	fresh       *replica // a controller that starts at the end, for comparison
	workloads   []*workload
	pools       []*pool
	deployments *deployment.Controller
	karpenter   *karpenter.Cluster
	people      *people
	faults      faults
	lagUntil    [2]time.Time
	late        []lateRequest
	scraped     []map[string][]float64 // values of the workloads by signal, for each of the last seconds, oldest first
	check       *checker
	redis       *redis.Server
	director    *director // adds events to the run; nil: no events are added
	waited      time.Time // end of the last tick that waited for a write
	polls       bool      // the simulation waits for a poll, so the poll may use the simulation without takeTurn

	lines []string // the lines of the trace
	hash  uint64
}

// freshName is the name of the controller that starts at the end of a run for comparison. It always leads.
const freshName = "fresh"

var replicaNames = [2]string{"replica-0", "replica-1"}

// result is the outcome of a run.
type result struct {
	hash      uint64 // the hash of the trace
	violation *violation
	lines     []string
	events    []schedule.Event // the events that happened, including the events that a director added
	writes    int              // number of gpuscaler's writes to NodePools and pods
	targets   int              // number of changes of targets
}

// run simulates the given events with a seed, and returns the outcome. It stops at the first violation of an invariant. If director is
// not nil, the director adds events.
func run(seed uint64, events []schedule.Event, director *director) result {
	s := &simulation{seed: seed, director: director, now: time.Now(), turn: make(chan struct{}, 1)}
	s.takeTurn()
	defer s.endTurn()
	seedElections(seed)
	s.lease.labeled = map[string]bool{}
	s.began = s.now
	s.faults.refused = map[*pool]time.Time{}
	s.api, s.check, s.redis = apiserver.New(func() time.Time { return s.now }), newChecker(s), redis.New()
	s.deployments = deployment.New(s.api, namespace)
	var all []karpenter.NodePool
	for i, group := range groupNames {
		s.addPool(group, "spot", 20, 6+i)
		s.addPool(group, "on-demand", 10, 6+i)
	}
	for _, p := range s.pools {
		all = append(all, karpenter.NodePool{Name: p.name, Group: p.group, CapacityType: p.capacityType})
	}
	s.karpenter = karpenter.New(s.api, s, all)
	s.addWorkload(&workload{name: "chat", group: "llm", keda: true, load: 15})
	s.addWorkload(&workload{name: "batch", group: "llm", keda: true, redis: true})
	s.addWorkload(&workload{name: "embed", group: "rank", min: 1, load: 25})
	s.people = &people{sim: s, settings: settings{groups: [2]bool{true, true}}}
	s.people.edit(func(o *settings) {
		for i, w := range s.workloads {
			o.workloads[i] = workloadSettings{min: w.min, max: 6, queueTarget: 10, utilization: w.name != "batch"}
			if w.name == "embed" || w.name == "chat" && s.seed%2 == 0 {
				o.workloads[i].floor = 2
			}
		}
	})
	s.replicas = [2]*replica{newReplica(s, replicaNames[0]), newReplica(s, replicaNames[1])}
	s.startPushes()
	next := 0
	for second := 0; second < schedule.RunEnd && s.check.violation == nil; second++ {
		for ; next < len(events) && events[next].Second <= second; next++ {
			s.happen(events[next])
		}
		s.direct(second)
		s.phase(second)
		s.runSecond()
		s.endTurn()
		time.Sleep(time.Until(s.began.Add(time.Duration(second+1) * time.Second))) // takes no real time: the clock of the bubble is virtual
		s.takeTurn()
		s.now = time.Now()
	}
	r := result{hash: s.hash, violation: s.check.violation, lines: s.lines, events: s.events,
		writes: s.check.writes, targets: s.check.transitions}
	for _, r := range s.processes() { // the bubble ends only when all of its goroutines have ended
		r.kill()
		r.abandon()
	}
	if s.fresh != nil {
		s.fresh.end()
	}
	s.stopPushes()
	s.endTurn()
	time.Sleep(5 * time.Second) // in virtual time; pending connection attempts fail within this time
	s.takeTurn()
	return r
}

// phase performs what happens in the given second: the end of the faults, the comparison with a new controller, the removal of the groups,
// or the last check. It does nothing in any other second.
func (s *simulation) phase(second int) {
	switch second {
	case schedule.FaultsEnd:
		s.endFaults()
	case schedule.FaultsEnd + 60:
		s.finishNewer()
	case schedule.Settled - 120:
		s.fresh = newReplica(s, freshName)
	case schedule.Settled:
		s.check.converged()
		s.fresh.end()
		s.fresh = nil
		s.people.edit(func(o *settings) { o.groups = [2]bool{} })
	case schedule.RunEnd - 1:
		s.check.restored()
	}
}

// runSecond runs one second of the simulation: the models, every process, and the checks.
func (s *simulation) runSecond() {
	for i, until := range s.lagUntil {
		if !until.IsZero() && s.now.After(until) {
			s.replicas[i].lag, s.lagUntil[i] = 0, time.Time{}
		}
	}
	s.applyLate()
	s.deployments.Run()
	s.karpenter.Run()
	s.scrape()
	for _, r := range s.processes() {
		begins := s.now
		r.step()
		if s.now = time.Now(); s.now.After(begins) { // a tick that waits for a write takes virtual time, so the second may already be over
			s.waited = s.now
		}
	}
	if s.fresh != nil {
		s.fresh.deliver()
		s.fresh.load()
		s.fresh.tick()
	}
	s.closePushes()
	s.syncAutoscalers()
	s.check.second()
}

// trace adds a line to the trace of the run, and to the hash of the trace.
func (s *simulation) trace(format string, args ...any) {
	line := fmt.Sprintf("%7.1fs %s", s.now.Sub(s.began).Seconds(), fmt.Sprintf(format, args...))
	s.lines = append(s.lines, line)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", s.hash, line)
	s.hash = h.Sum64()
}

// wrote is called after each write of a replica that the API server applied.
func (s *simulation) wrote(w *write) {
	switch late := map[bool]string{true: " (late)"}[w.late]; w.kind {
	case apiserver.KindNodePool:
		s.trace("%s: NodePool %s: %s%s", w.replica.name, w.name, difference(w.live, w.next), late)
	default:
		s.trace("%s: pod %s: annotations %v%s", w.replica.name, w.name, w.next.GetAnnotations(), late)
	}
	s.check.wrote(w)
}

// difference returns a description of the fields that a write changed in a NodePool.
func difference(live, next *unstructured.Unstructured) (text string) {
	before, after := ownedFields(live), ownedFields(next)
	for _, path := range overridable {
		if name := joined(path); before[name] != after[name] {
			text += fmt.Sprintf("%s %s -> %s; ", name, before[name], after[name])
		}
	}
	if text == "" {
		return "record or owners"
	}
	return text
}

func (s *simulation) traceGroup(r *replica, g *engine.GroupRecord) {
	s.trace("%s: group %s: %s, demand %d", r.name, g.Group.Name, g.Phase, g.Demand.Total())
}

// report prints a failing run: the last lines of the trace, the command that repeats the run, and the story of the run. The story becomes a
// regression test if it is saved as schedule/stories/NAME.story.
func report(out io.Writer, seed uint64, events []schedule.Event, r result) {
	_, _ = fmt.Fprintf(out, "seed %d: violated: %s\n  %s\n", seed, r.violation.invariant, r.violation.text)
	_, _ = fmt.Fprintf(out, "  the last lines:\n")
	for _, line := range r.lines[max(0, len(r.lines)-25):] {
		_, _ = fmt.Fprintf(out, "    %s\n", line)
	}
	story := schedule.Story{Text: r.violation.text, Violates: r.violation.invariant, Seed: seed, Events: events}
	_, _ = fmt.Fprintf(out, "  repeat: cd e2e && go run ./simulate -seed %d\n  story:\n%s", seed, &story)
}
