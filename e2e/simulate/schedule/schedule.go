// Package schedule draws the events of a run from a seed and reduces the events of a failing run. It also reads and prints stories: short
// runs in a readable form that are kept as regression tests.
package schedule

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Event is an event of a run, such as a fault or an edit. Its fields are plain numbers, so that a failing run can be repeated without
// some of its events.
type Event struct {
	Second  int // seconds since the start of the run
	Kind    Kind
	Which   int           // selects the workload, the replica or the NodePool, depending on the kind
	Value   int           // a number whose meaning depends on the kind
	Lasting time.Duration // how long a fault lasts
}

// Kind identifies what happens in an Event.
type Kind uint8

// The kinds of events.
const (
	LoadChanges Kind = iota
	SourceBreaks
	LaunchesRefused
	NodeTaken
	ReplicaKilled
	ReplicaPaused
	ReplicaStopped // the replica receives SIGTERM
	ReplicaCut     // the replica cannot reach the API server
	WatchLags
	WritesFail // Value determines how the API server responds to the next writes
	WritesSlow
	BoundsEdited
	GroupRemoved
	GroupAdded
	ModeHold
	FilesBroken
	LimitEdited
	WeightEdited
	DisruptionEdited
	ScaledByHand
	WorkloadPaused
	DeploymentReplaced
	PodDeleted
	PoolAnnotated
	SignalsEdited
	ConsentEdited
	BudgetsEdited
	LimitApplied // the owner applies the current limit or a new limit by server-side apply
	PoolReplaced
	WriteRaced      // the owner edits a NodePool just before gpuscaler's next write to it arrives
	LeaderStalls    // the leader that writes next is paused before its first request or between two requests
	WritesDelayed   // the next writes time out and are applied later
	RolledBack      // a newer version of gpuscaler writes the records, and then the current version replaces it
	SecondInstalled // a second release with the same capacity groups is installed
	SecondKilled
	RedisBreaks
	PushBreaks // KEDA restarts, or loses its streams
	NumKinds
)

// weights contains how often each kind of event is drawn, relative to the other kinds.
var weights = [NumKinds]int{
	LoadChanges: 14, SourceBreaks: 8, LaunchesRefused: 3, NodeTaken: 4, ReplicaKilled: 4, ReplicaPaused: 3, ReplicaStopped: 2, ReplicaCut: 3,
	WatchLags: 4, WritesFail: 8, WritesSlow: 3, BoundsEdited: 4, GroupRemoved: 3, GroupAdded: 4, ModeHold: 1, FilesBroken: 1,
	LimitEdited: 3, WeightEdited: 2, DisruptionEdited: 2, ScaledByHand: 3, WorkloadPaused: 2, DeploymentReplaced: 2, PodDeleted: 2,
	PoolAnnotated: 1, SignalsEdited: 4, ConsentEdited: 4, BudgetsEdited: 2, LimitApplied: 2, PoolReplaced: 1, WriteRaced: 4, LeaderStalls: 3,
	WritesDelayed: 2,
}

// Phases of a run, in seconds. Events happen before FaultsEnd. From FaultsEnd to Settled, there are no faults and the load is constant.
// At Settled the groups are removed from the PlatformConfig.
const (
	FaultsEnd = 1500
	LastEvent = FaultsEnd - 170 // no event is drawn at or after this second
	Settled   = FaultsEnd + 540
	RunEnd    = Settled + 60
)

// Draw returns the events of a seed, in the order of their times.
func Draw(seed uint64) []Event {
	random := rand.New(rand.NewPCG(seed, 14))
	total := 0
	for _, weight := range weights {
		total += weight
	}
	events := make([]Event, 0, 64)
	for range 14 + random.IntN(42) {
		n := random.IntN(total)
		kind := Kind(0)
		for n >= weights[kind] {
			n -= weights[kind]
			kind++
		}
		events = append(events, Event{
			Second: 30 + random.IntN(LastEvent-30), Kind: kind, Which: random.IntN(12), Value: random.IntN(1000),
			Lasting: time.Duration(5+random.IntN(115)) * time.Second,
		})
	}
	events = append(append(events, drawReleases(seed)...), drawQueues(seed)...)
	slices.SortStableFunc(events, func(a, b Event) int { return a.Second - b.Second })
	return events
}

// drawReleases returns the rollbacks and the events of a second release. Only some seeds have such events. They are drawn with a separate
// random generator, so that they do not change the other events of a seed.
func drawReleases(seed uint64) (events []Event) {
	random := rand.New(rand.NewPCG(seed, 15))
	if seed%rollbacks == 3 {
		for range 1 + random.IntN(2) {
			events = append(events, Event{Second: 200 + random.IntN(FaultsEnd-300), Kind: RolledBack, Value: random.IntN(1000)})
		}
	}
	if seed%secondReleases == 0 && !RealElection(seed) {
		at := 30 + random.IntN(FaultsEnd/2)
		events = append(events, Event{Second: at, Kind: SecondInstalled, Value: random.IntN(1000)})
		for range 2 {
			at += random.IntN(300)
			events = append(events, Event{Second: at, Kind: []Kind{SecondInstalled, SecondKilled}[random.IntN(2)], Value: random.IntN(1000)})
		}
	}
	return events
}

// drawQueues returns the failures of Redis and of KEDA's streams. They are drawn with a separate random generator, so that they do not
// change the other events of a seed.
func drawQueues(seed uint64) (events []Event) {
	random := rand.New(rand.NewPCG(seed, 16))
	for _, kind := range []Kind{RedisBreaks, PushBreaks} {
		for range 1 + random.IntN(4) {
			events = append(events, Event{Second: 30 + random.IntN(LastEvent-30), Kind: kind, Value: random.IntN(1000),
				Lasting: time.Duration(5+random.IntN(115)) * time.Second})
		}
	}
	return events
}

// rollbacks and secondReleases determine how many seeds have these events. One seed in eight has rollbacks. One in seven of the seeds
// with the modeled election has a second release.
const (
	rollbacks      = 8
	secondReleases = 7
)

// realElections determines how many seeds run the election of client-go: one in five. The remaining seeds run a model, because the
// election of client-go uses as much CPU time as everything else in a run.
const realElections = 5

// RealElection reports whether a seed runs the election of client-go.
func RealElection(seed uint64) bool { return seed%realElections == 1 }

// kindNames contains the names of the kinds of events, for tables.
var kindNames = [NumKinds]string{
	LoadChanges: "load changes", SourceBreaks: "Prometheus fails", LaunchesRefused: "launches refused", NodeTaken: "spot interruption",
	ReplicaKilled: "replica killed", ReplicaPaused: "replica paused", ReplicaStopped: "SIGTERM", ReplicaCut: "API server unreachable",
	WatchLags: "watches lag", WritesFail: "writes fail", WritesSlow: "writes slow", BoundsEdited: "bounds edited",
	GroupRemoved: "group removed", GroupAdded: "group added", ModeHold: "mode hold", FilesBroken: "files invalid",
	LimitEdited: "limit edited", WeightEdited: "weight edited", DisruptionEdited: "disruption edited", ScaledByHand: "kubectl scale",
	WorkloadPaused: "workload paused", DeploymentReplaced: "Deployment replaced", PodDeleted: "pod deleted",
	PoolAnnotated: "NodePool annotated", SignalsEdited: "signals edited", ConsentEdited: "consent edited", BudgetsEdited: "budgets edited",
	LimitApplied: "limit applied", PoolReplaced: "NodePool replaced", WriteRaced: "write raced", LeaderStalls: "leader stalls",
	WritesDelayed: "write applied late", RolledBack: "rollback", SecondInstalled: "2nd release installed",
	SecondKilled: "2nd release killed", RedisBreaks: "Redis fails", PushBreaks: "KEDA's streams fail",
}

// String returns the name of a kind of events.
func (k Kind) String() string { return kindNames[k] }

// At returns an event of the given kind at the given second. The remaining fields are drawn from the seed and the second.
func At(seed uint64, second int, kind Kind) Event {
	random := rand.New(rand.NewPCG(seed, 17<<32+uint64(second)))
	return Event{Second: second, Kind: kind, Which: random.IntN(12), Value: random.IntN(1000),
		Lasting: time.Duration(5+random.IntN(115)) * time.Second}
}
