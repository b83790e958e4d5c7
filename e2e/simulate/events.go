package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// event is one thing that happens in a run. Its fields are plain numbers, so that a failing run can be repeated without some of its events.
type event struct {
	second  int // since the start of the run
	kind    eventKind
	which   int           // workload, replica or NodePool, by kind
	value   int           // the meaning depends on the kind
	lasting time.Duration // of a fault
}

type eventKind uint8

const (
	loadChanges eventKind = iota
	sourceBreaks
	launchesRefused
	nodeTaken
	replicaKilled
	replicaPaused
	replicaStopped // SIGTERM
	replicaCut     // from the API server
	watchLags
	writesFail // value: a verdict
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
	numEventKinds
)

var eventNames = [numEventKinds]string{
	"load changes", "Prometheus fails", "the cloud refuses launches", "the cloud takes a node", "a replica is killed", "a replica is paused",
	"a replica receives SIGTERM", "a replica does not reach the API server", "watches lag", "writes fail", "writes are slow",
	"bounds are edited",
	"a group is removed", "a group is added", "mode hold", "the policy files are broken", "a limit is edited", "a weight is edited",
	"disruption settings are edited", "kubectl scale", "a workload is paused", "a Deployment is replaced", "a pod is deleted",
	"a NodePool is annotated",
}

// eventWeights is how often each kind is drawn.
var eventWeights = [numEventKinds]int{
	loadChanges: 14, sourceBreaks: 8, launchesRefused: 3, nodeTaken: 4, replicaKilled: 4, replicaPaused: 3, replicaStopped: 2, replicaCut: 3,
	watchLags: 4, writesFail: 8, writesSlow: 3, boundsEdited: 4, groupRemoved: 3, groupAdded: 4, modeHold: 1, filesBroken: 1,
	limitEdited: 3, weightEdited: 2, disruptionEdited: 2, scaledByHand: 3, workloadPaused: 2, deploymentReplaced: 2, podDeleted: 2,
	poolAnnotated: 1,
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
	for range 12 + random.IntN(36) {
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
	slices.SortStableFunc(events, func(a, b event) int { return a.second - b.second })
	return events
}

// faults are the failures in force.
type faults struct {
	kind        sourceFault
	sourceSince time.Time
	sourceUntil time.Time
	frozen      []float64 // the loads when the fault of Prometheus began
	refused     map[*pool]time.Time
	slow        time.Duration
	slowUntil   time.Time
	writes      []verdict // of the next writes
}

func (f *faults) source(now time.Time) (sourceFault, time.Time) {
	if now.Before(f.sourceUntil) {
		return f.kind, f.sourceSince
	}
	return sourceWorks, time.Time{}
}

func (f *faults) refusesLaunch(p *pool, now time.Time) bool { return now.Before(f.refused[p]) }

func (f *faults) slowWrites(now time.Time) time.Duration {
	if now.Before(f.slowUntil) {
		return f.slow
	}
	return 0
}

// judge returns what happens to a write of a replica.
func (s *simulation) judge(r *replica, kind string) verdict {
	if s.now.Before(r.cut) || !r.up {
		return lostRequest
	}
	if len(s.faults.writes) == 0 || kind == kindPod {
		return accept
	}
	v := s.faults.writes[0]
	s.faults.writes = s.faults.writes[1:]
	return v
}

// happen applies an event.
func (s *simulation) happen(e event) {
	s.trace("event: %s (which %d, value %d, for %s)", eventNames[e.kind], e.which, e.value, e.lasting)
	switch {
	case e.kind <= nodeTaken || e.kind == podDeleted:
		s.environmentChanges(e)
	case e.kind <= writesSlow:
		s.processFails(e)
	case e.kind <= filesBroken:
		s.filesChange(e)
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
		f.frozen = f.frozen[:0]
		for _, w := range s.workloads {
			f.frozen = append(f.frozen, w.load)
		}
		s.trace("Prometheus %s", sourceFaultNames[f.kind])
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
		switch e.kind {
		case boundsEdited:
			b := &o.bounds[e.which%3]
			b.min, b.max = int32(e.value%3), int32(3+e.value%9)
			if !s.workloads[e.which%3].keda {
				b.min = max(b.min, 1)
			}
		case groupRemoved, groupAdded:
			o.groups[e.which%2] = e.kind == groupAdded
		case modeHold:
			o.hold = !o.hold
		case filesBroken:
			o.broken = !o.broken
		}
	})
}

func (s *simulation) objectChanges(e event) {
	w, p := s.workloads[e.which%3], s.pools[e.which%4]
	switch e.kind {
	case limitEdited:
		s.ownerSets(p, fmt.Sprint(2+e.value%10), "spec", "limits", gpuResource)
	case weightEdited:
		s.ownerSets(p, int64(1+e.value%50), "spec", "weight")
	case disruptionEdited:
		s.ownerSets(p, []string{"30s", "1m", "2m"}[e.value%3], "spec", "disruption", "consolidateAfter")
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
	case poolAnnotated:
		s.api.update(kindNodePool, p.name, "kubectl-annotate", func(u *unstructured.Unstructured) {
			values := u.GetAnnotations()
			values["team"] = fmt.Sprint(e.value)
			u.SetAnnotations(values)
		})
	}
}

// ownerSets edits a field of a NodePool as its owner.
func (s *simulation) ownerSets(p *pool, value any, path ...string) {
	if text, err := json.Marshal(value); err != nil || fieldText(s.nodePool(p), path...) == string(text) {
		return // kubectl edit sends no request
	}
	s.api.update(kindNodePool, p.name, "kubectl-edit", func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	})
	s.check.ownerEdited(p, value, path...)
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
	s.faults = faults{refused: map[*pool]time.Time{}}
	s.lagUntil = [2]time.Time{}
	for _, r := range s.replicas {
		r.cut, r.paused, r.lag = time.Time{}, time.Time{}, 0
	}
	for _, w := range s.workloads {
		s.annotate(w, annotations.Paused, "")
		w.load = []float64{0, 25, 15}[(int(s.seed)+len(w.name))%3]
	}
	s.people.edit(func(o *settings) { o.hold, o.broken, o.groups = false, false, [2]bool{true, true} })
}
