package schedule

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/prometheus"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/redis"
)

// Names of the objects to which an event refers. The field Which of the event, modulo the number of names, is the index.
var (
	workloads = []string{"chat", "batch", "embed"}
	nodePools = []string{"llm-spot", "llm-on-demand", "rank-spot", "rank-on-demand"}
	replicas  = []string{"replica-0", "replica-1"}
	groups    = []string{"llm", "rank"}
)

// sentence describes all events of a kind.
type sentence struct {
	which, value int // Which and Value of an event are used modulo these numbers; 0: they are not used
	// text returns the description of an event. A final "%s" is replaced by the duration of its effect.
	text   func(which, value int) string
	effect effect
}

// effect computes how long the effect of an event lasts: base + Event.Lasting * times / by.
type effect struct {
	base      time.Duration
	times, by time.Duration
}

var asDrawn = effect{times: 1, by: 1}

func (e effect) of(lasting time.Duration) time.Duration { return e.base + e.times*lasting/e.by }

func (e effect) lasting(d time.Duration) time.Duration { return (d - e.base) * e.by / e.times }

// with returns a sentence with the given format, into which the name that Event.Which selects is inserted.
func with(names []string, format string) sentence {
	return sentence{which: len(names), text: func(w, _ int) string { return fmt.Sprintf(format, names[w]) }}
}

// choose returns a sentence with the given format, into which the name that Event.Which selects and the text that Event.Value selects are
// inserted.
func choose(names []string, format string, texts ...string) sentence {
	return sentence{which: len(names), value: len(texts), text: func(w, v int) string { return fmt.Sprintf(format, names[w], texts[v]) }}
}

func (s sentence) lasts(e effect) sentence {
	text := s.text
	s.effect, s.text = e, func(w, v int) string { return text(w, v) + " for %s" }
	return s
}

func fixed(text string) sentence { return sentence{text: func(int, int) string { return text }} }

func faultsOf[F fmt.Stringer](n int, fault func(int) F) (all []string) {
	for i := range n {
		all = append(all, fault(1+i).String())
	}
	return all
}

// loads are the lengths of queues to which the load of a workload can change.
var loads = []string{"0", "0", "0", "5", "15", "25", "40", "70"}

// failures describes the ways in which the next writes can fail, in the order of the type verdict.
var failures = []string{"returns 409", "returns 429", "returns 500", "is lost", "loses its response", "kills its sender before it arrives",
	"kills its sender after it is applied"}

// sentences contains the sentence of each kind of event. A sentence must contain every property of the event, which
// TestASentenceContainsTheWholeEvent checks.
var sentences = [NumKinds]sentence{
	LoadChanges:     choose(workloads, "the load of %s becomes %s", loads...),
	SourceBreaks:    sourceBreaks.lasts(effect{times: 3, by: 1}),
	LaunchesRefused: with(nodePools, "the cloud refuses launches of %s").lasts(asDrawn),
	NodeTaken:       {value: 1000, text: func(_, v int) string { return fmt.Sprintf("the cloud takes spot node number %d", v) }},
	ReplicaKilled:   with(replicas, "%s is killed"),
	ReplicaPaused:   with(replicas, "%s is paused").lasts(effect{times: 1, by: 2}),
	ReplicaStopped:  with(replicas, "%s receives SIGTERM"),
	ReplicaCut:      with(replicas, "%s does not reach the API server").lasts(asDrawn),
	WatchLags: choose(replicas, "the watches of %s lag by %ss", "0", "1", "2", "3", "4", "5", "6", "7").
		lasts(asDrawn),
	WritesFail: {value: 21, text: writesFail},
	WritesSlow: sentence{value: 9, text: func(_, v int) string { return fmt.Sprintf("each write takes %ds", 1+v) }}.lasts(asDrawn),
	BoundsEdited: {which: 3, value: 9, text: func(w, v int) string {
		return bounds(w, v) + " in the policy files"
	}},
	GroupRemoved: groupEdited("removed from"),
	GroupAdded:   groupEdited("added to"),
	ModeHold:     fixed("mode hold is switched on, or off if it is on"),
	FilesBroken:  fixed("the policy files become invalid, or valid if they are invalid"),
	LimitEdited:  ownerEdits(LimitEdited, 70),
	WeightEdited: ownerEdits(WeightEdited, 50), DisruptionEdited: ownerEdits(DisruptionEdited, 3),
	ConsentEdited: ownerEdits(ConsentEdited, 6), BudgetsEdited: ownerEdits(BudgetsEdited, 3), LimitApplied: ownerEdits(LimitApplied, 30),
	PoolReplaced: ownerEdits(PoolReplaced, 0), PoolAnnotated: ownerEdits(PoolAnnotated, 1000),
	ScaledByHand:       choose(workloads, "kubectl scales %s to %s", "0", "1", "2", "3", "4", "5"),
	WorkloadPaused:     choose(workloads, "%s is %s by its annotation", "paused", "resumed"),
	DeploymentReplaced: with(workloads, "the Deployment %s is deleted and created again"),
	PodDeleted:         {value: 1000, text: func(_, v int) string { return fmt.Sprintf("pod number %d is deleted", v) }},
	SignalsEdited:      {which: 3, value: 48, text: signalsEdited},
	WriteRaced: {which: 6, value: 1000, text: func(w, v int) string {
		return "just before the next write of a NodePool its owner " + ownerAct(RacedKind(w), v)
	}},
	LeaderStalls: sentence{value: 8, text: leaderStalls}.lasts(effect{base: 10 * time.Second, times: 1, by: 4}),
	WritesDelayed: {value: 12, text: func(_, v int) string {
		return fmt.Sprintf("the next write times out and is applied %ds later", 1+v)
	}},
	RolledBack: {value: 2, text: func(_, v int) string {
		return "a newer version " + []string{"that overrides another field ", ""}[v] + "writes the records and is rolled back"
	}},
	SecondInstalled: {value: 3, text: func(_, v int) string {
		return "a second release is installed" + []string{", and the first one does not run for two minutes", "", ""}[v]
	}},
	SecondKilled: fixed("the replica of the second release is killed"),
	RedisBreaks: sentence{value: redis.NumFaults, text: func(_, v int) string {
		return "Redis " + faultsOf(redis.NumFaults, func(i int) redis.Fault { return redis.Fault(i) })[v]
	}}.lasts(effect{times: 3, by: 1}),
	PushBreaks: {value: 4, effect: asDrawn, text: func(_, v int) string {
		return []string{"the streams of KEDA are closed", "KEDA restarts", "KEDA reaches no replica for %s",
			"the streams of KEDA transfer nothing"}[v]
	}},
}

var sourceBreaks = sentence{which: 3, value: prometheus.NumFaults, text: func(w, v int) string {
	return "Prometheus " + faultsOf(prometheus.NumFaults, func(i int) prometheus.Fault { return prometheus.Fault(i) })[v] + " (" +
		[]string{"each query", "queue", "utilization"}[w] + ")"
}}

func writesFail(_, v int) string {
	failure, n := failures[v/3], 1+v%3
	if v/3 >= 5 || n == 1 { // a failure that kills the sender applies to one write only
		return "the next write " + failure
	}
	return fmt.Sprintf("each of the next %d writes %s", n, failure)
}

func leaderStalls(_, v int) string {
	switch {
	case v == 7:
		return "the next leader that annotates a pod is paused before its first request"
	case v%4 == 0:
		return "the next leader that writes is paused before its first request"
	}
	return fmt.Sprintf("the next leader that writes is paused after its request number %d", v%4)
}

// bounds describes an edit of minReplicas and maxReplicas. An HPA without KEDA has at least one replica.
func bounds(w, v int) string {
	least := v % 3
	if workloads[w] == "embed" {
		least = max(least, 1)
	}
	return fmt.Sprintf("the bounds of %s become %d to %d", workloads[w], least, 3+v%9)
}

// groupEdited describes the removal or the addition of a group. The same edit of the files can change the bounds of a workload.
func groupEdited(how string) sentence {
	return sentence{which: 2, value: 18, text: func(w, v int) string {
		text := fmt.Sprintf("group %s is %s the PlatformConfig", groups[w], how)
		if v%2 == 0 {
			text += ", and " + bounds(v%3, v)
		}
		return text
	}}
}

func signalsEdited(w, v int) string {
	switch v % 4 {
	case 0:
		return fmt.Sprintf("the target of the signal queue of %s becomes %d", workloads[w], []int{5, 10, 20}[v/4%3])
	case 1:
		return fmt.Sprintf("the policy of %s gets the signal utilization, or loses it", workloads[w])
	case 2:
		return fmt.Sprintf("the signals of %s change places", workloads[w])
	}
	return fmt.Sprintf("the schedule of %s gets minReplicas %d", workloads[w], v/4%4)
}

// ownerEdits describes an edit of a NodePool by its owner.
func ownerEdits(kind Kind, values int) sentence {
	return sentence{which: 4, value: values, text: func(w, v int) string {
		return fmt.Sprintf("the owner of NodePool %s %s", nodePools[w], ownerAct(kind, v))
	}}
}

// ownerAct describes an action of the owner of a NodePool.
func ownerAct(kind Kind, v int) string {
	switch kind {
	case LimitEdited:
		if v%7 == 0 {
			return "removes the limit"
		}
		return fmt.Sprintf("sets the limit to %d", 2+v%10)
	case WeightEdited:
		return fmt.Sprintf("sets the weight to %d", 1+v%50)
	case DisruptionEdited:
		return "sets consolidateAfter to " + []string{"30s", "1m", "2m"}[v%3]
	case BudgetsEdited:
		return "sets the disruption budgets to " + []string{"100%", "20%", "1 and 50%"}[v%3]
	case ConsentEdited:
		return "lets gpuscaler override " + []string{"nothing", "limits", "weight and disruption", "all fields", "all fields, and restores them",
			"all fields"}[v%6]
	case LimitApplied:
		if v%3 == 0 {
			return fmt.Sprintf("applies the limit %d", 2+v%10)
		}
		return fmt.Sprintf("applies the present limit, or %d if there is none", 2+v%10)
	case PoolReplaced:
		return "deletes it and creates it again"
	}
	return fmt.Sprintf("annotates it with team=%d", v)
}

// RacedKind returns the action of the owner of a NodePool in an event of the kind WriteRaced.
func RacedKind(which int) Kind {
	return []Kind{LimitEdited, ConsentEdited, WeightEdited, LimitEdited, DisruptionEdited, PoolReplaced}[which%6]
}
