package engine

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// A gang is a replica of several pods. How many GPUs it requests is known only when all its pods are created, so without pods it is
// unknown. The gang a must still scale up from zero, and no running replica of the workload b may be removed for it.
func TestGangOfUnknownSizeLeavesZero(t *testing.T) {
	type step struct {
		when  string
		pods  int64 // GPUs that the existing pods of the gang request
		known bool  // true if all pods of the replica exist, so that the GPUs of a replica are known
		want  [2]int32
	}
	for name, c := range map[string]struct {
		running, needs int32 // running and needed replicas of b
		steps          []step
	}{
		"enough is free": {4, 4, []step{
			{"no pod exists", 0, false, [2]int32{1, 4}},
			{"the first pod exists", 1, false, [2]int32{1, 4}},
			{"all pods exist", 2, true, [2]int32{3, 4}},
			{"some pods are replaced", 5, false, [2]int32{3, 4}},
		}},
		"no GPU is free": {10, 10, []step{{"no pod exists", 0, false, [2]int32{0, 10}}}},
		"the gang is too large": {8, 8, []step{
			{"no pod exists", 0, false, [2]int32{1, 8}},
			{"all pods exist", 4, true, [2]int32{0, 8}},
			{"the pods are removed", 0, false, [2]int32{0, 8}},
		}},
		"the gang is too large before all pods exist": {6, 6, []step{
			{"no pod exists", 0, false, [2]int32{1, 6}},
			{"a pod exists", 4, false, [2]int32{1, 6}},
			{"two pods exist", 8, false, [2]int32{0, 6}},
			{"a third was created at the same time", 12, false, [2]int32{0, 6}},
			{"the pods are being removed", 4, false, [2]int32{0, 6}},
			{"the pods are removed: it is known that a replica does not fit", 0, false, [2]int32{0, 6}},
		}},
		"the other workload uses what is free": {4, 40, []step{
			{"no pod exists", 0, false, [2]int32{1, 9}},
			{"a pod exists", 4, false, [2]int32{0, 9}},
			{"the pods are removed", 0, false, [2]int32{0, 10}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTeamOfTwo(t, 10)
			gang := w.workloads[0].Key
			w.set(0, 40, 0)
			w.set(1, c.needs, c.running)
			delete(w.requests, gang)
			for _, s := range c.steps {
				w.pods[gang] = s.pods
				if delete(w.requests, gang); s.known {
					w.requests[gang] = s.pods
				}
				w.tick(w.e)
				w.follow(w.e)
				w.tick(w.e)
				w.follow(w.e)
				w.tickAndExpect(s.when, s.want[0], s.want[1])
			}
		})
	}
}

// A replica of the gang did not fit in the limit. The gang is replaced by a smaller one, whose size is unknown. It must receive a first
// replica.
func TestGangThatIsReplacedReceivesAFirstReplica(t *testing.T) {
	w := newTeamOfTwo(t, 10)
	gang := w.workloads[0].Key
	delete(w.requests, gang)
	w.set(0, 9, 0)
	w.set(1, 6, 6)
	w.view(0, func(v *View) { v.UID = "large" })
	reason := func(want string) {
		t.Helper()
		r, _ := w.e.Decisions().Record(gang)
		reasons := r.Decision.Reasons.All()
		if text := explain.Reason(reasons[len(reasons)-1], r.Workload.Policy); text != want {
			t.Errorf("the reason is %q, want %q", text, want)
		}
	}
	w.tickAndExpect("nothing is known", 1, 6)
	reason("capped at 1 until all pods of this replica exist: how many nvidia.com/gpu a replica requests is not known, and team chat has a " +
		"limit of 10")
	w.set(0, 9, 1)
	w.pods[gang] = 8
	w.tickAndExpect("the replica does not fit", 0, 6)
	reason("capped at 0: team chat has a limit of 10 nvidia.com/gpu, and others use 6")
	w.set(0, 1, 0)
	w.pods[gang] = 0
	w.tickAndExpect("the replica is removed", 0, 6)
	w.view(0, func(v *View) { v.UID = "smaller" })
	w.tickAndExpect("another object has another size", 1, 6)
}

// During a trial the evaluation of the gang fails, so the gang has no decision. Its served target must not take precedence over the running
// replicas of b.
func TestTrialOfAMemberThatFailsRemovesNoReplica(t *testing.T) {
	w := newTeamOfTwo(t, 10)
	gang := w.workloads[0].Key
	delete(w.requests, gang)
	w.set(0, 1, 0)
	w.set(1, 6, 6)
	w.tickAndExpect("the first replica", 1, 6)
	w.set(0, 1, 1)
	w.explode = append(w.explode, gang)
	w.pods[gang] = 8
	w.tickAndExpect("the replica does not fit", 0, 6)
}
