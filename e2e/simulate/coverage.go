package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/coverage"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// director counts, in a table, how often each event occurred in each state of the controller. It adds events to the run for combinations
// that are rare. The added events depend on the table, so a violation cannot be repeated from its seed. It can be repeated from its
// story, which is the list of all events.
type director struct {
	table *coverage.Table
	state string // the state in which this run adds events
	added int
	last  int // second of the run in which the last event was added
}

const (
	mostAdded  = 15 // maximum number of events that are added to a run
	addedEvery = 7  // seconds between two added events
)

// runCoverage runs seeds with a director and prints the table of the director. It reads the table from the file and writes it back, so
// that the next call continues to count. A violation does not end the runs.
func runCoverage(t *testing.T, file string, first uint64, seeds int, lasting time.Duration) (passed bool) {
	table, err := coverage.Load(file, first)
	if err != nil {
		t.Fatal(err)
	}
	passed = true
	began, saved := time.Now(), time.Now()
	for done := 0; (seeds == 0 || done < seeds) && (seeds > 0 || time.Since(began) < lasting); done++ {
		state, lacks := table.Lacking(table.Next)
		if !lacks {
			break
		}
		seed, d := table.Next, &director{table: table, state: state}
		var r result
		synctest.Test(t, func(*testing.T) { r = run(seed, schedule.Draw(seed), d) })
		table.Next, table.Runs = seed+1, table.Runs+1
		if r.violation != nil {
			passed = false
			events, smaller := shrink(t, seed, r.events, r)
			report(os.Stdout, seed, events, smaller)
		}
		if time.Since(saved) > 10*time.Second {
			saved = time.Now()
			fmt.Printf("%d runs, %.1f a second\n", done+1, float64(done+1)/time.Since(began).Seconds())
			save(t, table, file)
		}
	}
	save(t, table, file)
	table.Print(os.Stdout)
	return passed
}

func save(t *testing.T, table *coverage.Table, file string) {
	t.Helper()
	if err := table.Save(file); err != nil {
		t.Fatal(err)
	}
}

// count adds an event to the table of the director, once for each current state. It ignores an event without an effect.
func (s *simulation) count(e schedule.Event) {
	if s.director != nil && s.hasEffect(e) {
		s.director.table.Count(s.states(), e.Kind)
	}
}

// direct adds a rare event in this second, if the controller is in the state for which this run adds events.
func (s *simulation) direct(second int) {
	d := s.director
	if d == nil || d.added == mostAdded || second < d.last+addedEvery || second >= schedule.LastEvent {
		return
	}
	states := s.states()
	if !slices.Contains(states, d.state) {
		return
	}
	kind, lacks := d.table.Rare([]string{d.state}, s.possible)
	if e := schedule.At(s.seed, second, kind); lacks && s.hasEffect(e) {
		d.added, d.last = d.added+1, second
		s.happen(e)
	}
}

// possible reports whether events of a kind can happen in this run now.
func (s *simulation) possible(kind schedule.Kind) bool {
	switch groups := s.people.settings.groups; kind {
	case schedule.SecondInstalled:
		return !s.realElection() // only the modeled election implements a second release
	case schedule.SecondKilled:
		return s.second != nil && s.second.up
	case schedule.GroupAdded:
		return groups != [2]bool{true, true}
	case schedule.GroupRemoved:
		return groups != [2]bool{}
	}
	return true
}

// hasEffect reports whether an event changes the state of the simulation.
func (s *simulation) hasEffect(e schedule.Event) bool {
	switch e.Kind {
	case schedule.ReplicaKilled, schedule.ReplicaPaused, schedule.ReplicaStopped, schedule.ReplicaCut:
		return s.replicas[e.Which%2].up
	case schedule.GroupAdded, schedule.GroupRemoved:
		return s.people.settings.groups[e.Which%2] == (e.Kind == schedule.GroupRemoved)
	}
	return s.possible(e.Kind)
}

// states returns the current states of the controller.
func (s *simulation) states() (all []string) {
	leader := (*replica)(nil)
	for _, r := range s.processes() {
		if r.up && r.lease.leading() && leader == nil {
			leader = r
		}
	}
	all = append(s.leaderStates(leader), s.fileStates()...)
	for _, p := range s.pools {
		if u := s.nodePool(p); u != nil {
			all = append(all, recordStates(u.GetAnnotations(), isNewer(u))...)
		}
	}
	if leader != nil {
		all = append(append(all, s.groupStates(leader)...), s.workloadStates(leader)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *simulation) leaderStates(leader *replica) (all []string) {
	if s.second != nil && s.second.up {
		all = append(all, coverage.SecondRelease)
	}
	if leader == nil {
		return append(all, coverage.NoLeader)
	}
	if len(leader.pending) > 0 {
		all = append(all, coverage.WritePending)
	}
	switch {
	case s.now.Before(leader.paused):
		return append(all, coverage.LeaderPaused)
	case !leader.stopping.IsZero():
		return append(all, coverage.ShutsDown)
	case s.now.Before(leader.cut):
		return append(all, coverage.LeaderCut)
	}
	return append(all, coverage.Leads)
}

func (s *simulation) fileStates() (all []string) {
	o := &s.people.settings
	add := func(state string, current bool) {
		if current {
			all = append(all, state)
		}
	}
	add(coverage.Invalid, o.broken)
	add(coverage.Hold, o.hold)
	add(coverage.GroupRemoved, o.groups[0] != o.groups[1])
	add(coverage.GroupsRemoved, o.groups == [2]bool{})
	add(coverage.InForce, len(all) == 0)
	add(coverage.Edited, slices.ContainsFunc(s.replicas[:], func(r *replica) bool { return r.up && r.edition < len(s.people.editions)-1 }))
	return all
}

// recordStates returns the states of coverage that the annotations of a NodePool show. newer is true if a newer version of gpuscaler wrote
// the record annotation.
func recordStates(annotations map[string]string, newer bool) (all []string) {
	if newer {
		all = append(all, coverage.NewerRecord)
	}
	if annotations[karpenter.RecordAnnotation] != "" && annotations[karpenter.HolderAnnotation] == secondRelease {
		all = append(all, coverage.OtherRecord)
	}
	if !strings.Contains(annotations[karpenter.ConsentAnnotation], "limits") {
		all = append(all, coverage.NoConsent)
	}
	return all
}

func (s *simulation) groupStates(leader *replica) (all []string) {
	overridden := false
	for _, name := range groupNames {
		g, ok := leader.engine.Decisions().Group(name)
		if !ok || g.At.IsZero() {
			continue
		}
		all = append(all, g.Phase.String())
		for _, reason := range g.Reasons {
			switch reason.Rule {
			case explain.RuleForeignEdit:
				all = append(all, coverage.OwnersEdited)
			default:
				all = append(all, reason.Rule.String()) // rules without a column in the table are counted but not printed
			}
		}
		for _, o := range g.Overrides {
			overridden = true
			all = append(all, o.Rule.String())
			if o.Releasing {
				all = append(all, coverage.Restoring)
			}
		}
	}
	if overridden {
		return append(all, coverage.Overridden)
	}
	return append(all, coverage.NoOverride)
}

func (s *simulation) workloadStates(leader *replica) (all []string) {
	var rec engine.Record
	for _, w := range s.workloads {
		if n, exists := s.deployments.Replicas(w.name); exists && n == 0 {
			all = append(all, coverage.AtZero)
		}
		if !leader.engine.Decisions().CopyRecord(scaling.Key{Namespace: namespace, Name: w.name}, &rec) {
			continue
		}
		if rec.View.Operator.Paused {
			all = append(all, coverage.Paused)
		}
		for _, reason := range rec.Decision.Reasons.All() {
			if reason.Rule == scaling.RuleMissing {
				all = append(all, coverage.Missing)
			}
		}
		if rec.Decision.CapCause != nil {
			all = append(all, coverage.Capped)
		}
	}
	return all
}
