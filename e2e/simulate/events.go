package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// event is one thing that happens in a run. Its fields are plain numbers, so that a failing run can be repeated without some of its events.
type event struct {
	second  int // since the start of the run
	kind    eventKind
	which   int           // the index of the workload, replica or NodePool, as the kind requires
	value   int           // its meaning depends on the kind
	lasting time.Duration // how long a fault lasts
}

type eventKind uint8

const (
	loadChanges eventKind = iota
	sourceBreaks
	launchesRefused
	nodeTaken
	replicaKilled
	replicaPaused
	replicaStopped // the replica receives SIGTERM
	replicaCut     // the replica does not reach the API server
	watchLags
	writesFail // the value determines the verdict of the API server
	writesSlow
	boundsEdited
	groupRemoved
	groupAdded
	modeHold
	filesBroken
	limitEdited
	weightEdited
	disruptionEdited
	scaledByHand
	workloadPaused
	deploymentReplaced
	podDeleted
	poolAnnotated
	signalsEdited
	consentEdited
	budgetsEdited
	limitApplied // the owner applies the value in force or another one by server-side apply
	poolReplaced
	writeRaced      // the owner edits a NodePool after gpuscaler read it and before its next write arrives
	leaderStalls    // the next leader that writes is paused between its decision and the write, or between two requests
	writesDelayed   // the next writes time out and are applied later
	rolledBack      // a newer version of gpuscaler wrote the records, and the present version replaces it
	secondInstalled // a second release with the same capacity groups is installed
	secondKilled
	redisBreaks
	pushBreaks // KEDA restarts, or loses its streams
	numEventKinds
)

var eventNames = [numEventKinds]string{
	"load changes", "Prometheus fails", "the cloud refuses launches", "the cloud takes a node", "a replica is killed", "a replica is paused",
	"a replica receives SIGTERM", "a replica does not reach the API server", "watches lag", "writes fail", "writes are slow",
	"bounds are edited",
	"a group is removed", "a group is added", "mode hold", "the policy files are broken", "a limit is edited", "a weight is edited",
	"disruption settings are edited", "kubectl scale", "a workload is paused", "a Deployment is replaced", "a pod is deleted",
	"a NodePool is annotated", "signals are edited", "the consent is edited", "budgets are edited", "a limit is applied",
	"a NodePool is replaced", "the owner edits before a write", "the leader stalls at a write", "writes are applied late",
	"a newer version is rolled back", "a second release is installed", "the second release is killed", "Redis fails", "KEDA's streams break",
}

// eventWeights is how often each kind is drawn.
var eventWeights = [numEventKinds]int{
	loadChanges: 14, sourceBreaks: 8, launchesRefused: 3, nodeTaken: 4, replicaKilled: 4, replicaPaused: 3, replicaStopped: 2, replicaCut: 3,
	watchLags: 4, writesFail: 8, writesSlow: 3, boundsEdited: 4, groupRemoved: 3, groupAdded: 4, modeHold: 1, filesBroken: 1,
	limitEdited: 3, weightEdited: 2, disruptionEdited: 2, scaledByHand: 3, workloadPaused: 2, deploymentReplaced: 2, podDeleted: 2,
	poolAnnotated: 1, signalsEdited: 4, consentEdited: 4, budgetsEdited: 2, limitApplied: 2, poolReplaced: 1, writeRaced: 4, leaderStalls: 3,
	writesDelayed: 2,
}

func (e event) String() string {
	return fmt.Sprintf("%4ds %s (which %d, value %d, for %s)", e.second, eventNames[e.kind], e.which, e.value, e.lasting)
}

// Parts of a run, in seconds. Events happen before faultsEnd. Then the run continues without faults and with constant load until settled,
// and then the groups are removed from the PlatformConfig until the end.
const (
	faultsEnd = 1500
	settled   = faultsEnd + 540
	runEnd    = settled + 60
)

// drawEvents returns the events of a seed, in the order of their times.
func drawEvents(seed uint64) []event {
	random := rand.New(rand.NewPCG(seed, 14))
	total := 0
	for _, weight := range eventWeights {
		total += weight
	}
	events := make([]event, 0, 64)
	for range 14 + random.IntN(42) {
		n := random.IntN(total)
		kind := eventKind(0)
		for n >= eventWeights[kind] {
			n -= eventWeights[kind]
			kind++
		}
		events = append(events, event{
			second: 30 + random.IntN(faultsEnd-200), kind: kind, which: random.IntN(12), value: random.IntN(1000),
			lasting: time.Duration(5+random.IntN(115)) * time.Second,
		})
	}
	events = append(append(events, drawReleases(seed)...), drawQueues(seed)...)
	slices.SortStableFunc(events, func(a, b event) int { return a.second - b.second })
	return events
}

// drawReleases returns the events of the share of seeds in which gpuscaler is installed in another version. They have a generator of their
// own, so that the other events of a seed stay the same.
func drawReleases(seed uint64) (events []event) {
	random := rand.New(rand.NewPCG(seed, 15))
	if seed%rollbacks == 3 {
		for range 1 + random.IntN(2) {
			events = append(events, event{second: 200 + random.IntN(faultsEnd-300), kind: rolledBack, value: random.IntN(1000)})
		}
	}
	if seed%secondReleases == 0 && seed%realElections != 1 {
		at := 30 + random.IntN(faultsEnd/2)
		events = append(events, event{second: at, kind: secondInstalled, value: random.IntN(1000)})
		for range 2 {
			at += random.IntN(300)
			events = append(events, event{second: at, kind: []eventKind{secondInstalled, secondKilled}[random.IntN(2)], value: random.IntN(1000)})
		}
	}
	return events
}

// drawQueues returns the failures of Redis and of KEDA's streams. They also have a generator of their own.
func drawQueues(seed uint64) (events []event) {
	random := rand.New(rand.NewPCG(seed, 16))
	for _, kind := range []eventKind{redisBreaks, pushBreaks} {
		for range 1 + random.IntN(4) {
			events = append(events, event{second: 30 + random.IntN(faultsEnd-200), kind: kind, value: random.IntN(1000),
				lasting: time.Duration(5+random.IntN(115)) * time.Second})
		}
	}
	return events
}

// rollbacks is the share of seeds with rollbacks: one of eight. secondReleases is the share of seeds with two releases: one of seven of
// those with a modeled election.
const (
	rollbacks      = 8
	secondReleases = 7
)

func (s *simulation) releaseChanges(e event) {
	switch {
	case e.kind == rolledBack:
		s.rollBack(e.value%2 == 0)
	case e.kind == secondInstalled:
		s.installSecond(e.value%3 == 0)
	case s.second != nil:
		s.second.kill()
	}
}

// happen applies an event.
func (s *simulation) happen(e event) {
	s.trace("event: %s (which %d, value %d, for %s)", eventNames[e.kind], e.which, e.value, e.lasting)
	switch {
	case e.kind <= nodeTaken || e.kind == podDeleted:
		s.environmentChanges(e)
	case e.kind <= writesSlow:
		s.processFails(e)
	case e.kind <= filesBroken || e.kind == signalsEdited:
		s.filesChange(e)
	case e.kind == redisBreaks:
		s.redisFails(e)
	case e.kind == pushBreaks:
		s.pushFails(e)
	case e.kind >= rolledBack:
		s.releaseChanges(e)
	case e.kind >= writeRaced:
		s.writeFails(e)
	case e.kind >= consentEdited || e.kind >= limitEdited && e.kind <= disruptionEdited || e.kind == poolAnnotated:
		s.ownerActs(s.pools[e.which%4], e)
	default:
		s.objectChanges(e)
	}
}

func (s *simulation) environmentChanges(e event) {
	until := s.now.Add(e.lasting)
	switch e.kind {
	case loadChanges:
		s.workloads[e.which%3].load = []float64{0, 0, 0, 5, 15, 25, 40, 70}[e.value%8]
	case sourceBreaks:
		f := &s.faults
		f.kind, f.sourceSince, f.sourceUntil = sourceFault(1+e.value%(int(numSourceFaults)-1)), s.now, until.Add(2*e.lasting)
		f.signal = []string{"", queueSignal, utilizationSignal}[e.which%3]
		f.frozen = map[string][]float64{}
		for _, signal := range []string{queueSignal, utilizationSignal} {
			f.frozen[signal] = s.signalValues(signal)
		}
		s.trace("Prometheus %s for %q", sourceFaultNames[f.kind], f.signal)
	case launchesRefused:
		s.faults.refused[s.pools[e.which%4]] = until
	case nodeTaken:
		s.interrupt(e.value)
	case podDeleted:
		if pods := s.pods(); len(pods) > 0 {
			s.api.remove(kindPod, namespace+"/"+pods[e.value%len(pods)].Name)
		}
	}
}

func (s *simulation) processFails(e event) {
	r, until := s.replicas[e.which%2], s.now.Add(e.lasting)
	switch e.kind {
	case replicaKilled:
		r.kill()
	case replicaPaused:
		r.paused = s.now.Add(e.lasting / 2)
	case replicaStopped:
		if r.up && r.lease.leading() {
			r.stopping = s.now.Add(5 * time.Second)
			r.lease.stop()
		} else {
			r.kill()
		}
	case replicaCut:
		r.cut = until
	case watchLags:
		r.lag = time.Duration(e.value%8) * time.Second
		s.lagUntil[e.which%2] = until
	case writesFail:
		v := verdict(1 + (e.value/3)%int(killAfter))
		for i := 0; i <= e.value%3 && (i == 0 || v < killBefore); i++ {
			s.faults.writes = append(s.faults.writes, v)
		}
	case writesSlow:
		s.faults.slow, s.faults.slowUntil = time.Duration(1+e.value%9)*time.Second, until
	}
}

func (s *simulation) filesChange(e event) {
	s.people.edit(func(o *settings) {
		w := &o.workloads[e.which%3]
		switch e.kind {
		case boundsEdited:
			s.boundsChange(o, e.which%3, e.value)
		case groupRemoved, groupAdded:
			o.groups[e.which%2] = e.kind == groupAdded
			s.forgetEdits(groupNames[e.which%2])
			if e.value%2 == 0 { // in the same edition
				s.boundsChange(o, e.value%3, e.value)
			}
		case modeHold:
			o.hold = !o.hold
		case filesBroken:
			o.broken = !o.broken
		case signalsEdited:
			switch e.value % 4 {
			case 0:
				w.queueTarget = []int{5, 10, 20}[e.value/4%3]
			case 1:
				w.utilization = !w.utilization
			case 2:
				w.swapped = !w.swapped
			case 3:
				w.floor = int32(e.value / 4 % 4)
			}
		}
	})
}

func (s *simulation) boundsChange(o *settings, i, value int) {
	w := &o.workloads[i]
	w.min, w.max = int32(value%3), int32(3+value%9)
	if !s.workloads[i].keda {
		w.min = max(w.min, 1)
	}
}

func (s *simulation) objectChanges(e event) {
	w := s.workloads[e.which%3]
	switch e.kind {
	case scaledByHand:
		if s.api.get(kindDeployment, namespace+"/"+w.name) != nil {
			s.scale(w, max(int32(e.value%6), w.min), "kubectl")
		}
	case workloadPaused:
		s.annotate(w, annotations.Paused, map[bool]string{true: "true"}[e.value%2 == 0])
	case deploymentReplaced:
		s.api.remove(kindDeployment, namespace+"/"+w.name)
		for _, pod := range s.podsOf(w) {
			s.api.remove(kindPod, namespace+"/"+pod.Name)
		}
		s.createDeployment(w)
	}
}

// annotate sets or removes an annotation of a Deployment.
func (s *simulation) annotate(w *workload, key, value string) {
	live, ok := s.api.get(kindDeployment, namespace+"/"+w.name).(*appsv1.Deployment)
	if !ok {
		return
	}
	next := live.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	if value == "" {
		delete(next.Annotations, key)
	} else {
		next.Annotations[key] = value
	}
	s.api.put(kindDeployment, next)
}

// endFaults ends every fault and undoes what would prevent the workloads from being scaled.
func (s *simulation) endFaults() {
	s.trace("the faults end")
	s.uninstallSecond()
	s.faults = faults{refused: map[*pool]time.Time{}}
	s.lagUntil = [2]time.Time{}
	s.redis.Repair()
	for _, r := range s.replicas {
		r.cut, r.paused, r.lag = time.Time{}, time.Time{}, 0
	}
	for _, w := range s.workloads {
		if w.keda {
			w.push.cut = time.Time{}
		}
		s.annotate(w, annotations.Paused, "")
		w.load = []float64{0, 25, 15}[(int(s.seed)+len(w.name))%3]
	}
	for _, p := range s.pools {
		s.ownerConsents(p, allFields)
	}
	s.people.edit(func(o *settings) { o.hold, o.broken, o.groups = false, false, [2]bool{true, true} })
}
