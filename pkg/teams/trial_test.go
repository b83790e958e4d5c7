package teams

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDivideFirstReplicas(t *testing.T) {
	// beside returns a member with a trial replica, of which only the amount of its pods is known, and a member with running replicas.
	beside := func(pods int64, running int32) []Member {
		return []Member{{Key: "a", Want: 9, Running: 1, Trial: true, Amounts: []Amount{{Pods: pods}}},
			{Key: "b", Want: running, Running: running, Amounts: gpus(1)}}
	}
	for name, c := range map[string]struct {
		limit, others int64
		members       []Member
		want          []int32
	}{
		"an unknown amount receives a first replica, which shows it": {10, 0, []Member{{Key: "a", Want: 9, Amounts: []Amount{{}}},
			{Key: "b", Want: 20, Amounts: gpus(1)}}, []int32{1, 9}},
		"the first replica needs a free unit": {10, 0, []Member{{Key: "a", Want: 9, Amounts: []Amount{{}}},
			{Key: "b", Want: 20, Running: 10, Amounts: gpus(1)}}, []int32{0, 10}},
		"a unit that a pod without a policy uses is not free": {10, 1, []Member{{Key: "a", Want: 9, Amounts: []Amount{{}}},
			{Key: "b", Want: 20, Running: 9, Amounts: gpus(1)}}, []int32{0, 9}},
		"two unknown amounts need a free unit each": {10, 0, []Member{{Key: "a", Want: 9, Amounts: []Amount{{}}},
			{Key: "b", Want: 9, Amounts: []Amount{{}}}, {Key: "c", Want: 9, Running: 9, Amounts: gpus(1)}}, []int32{1, 0, 9}},
		"the first replica needs as much as was known last": {10, 0, []Member{{Key: "a", Want: 9, Amounts: []Amount{{PerReplica: 4}}},
			{Key: "b", Want: 20, Running: 7, Amounts: gpus(1)}}, []int32{0, 10}},
		"no target, no first replica": {10, 0, []Member{{Key: "a", Amounts: []Amount{{}}}}, []int32{0}},
		"a trial that fits is kept, and not removed for a raise": {10, 0, []Member{{Key: "a", Want: 9, Running: 1, Trial: true, Amounts: gpus(4)},
			{Key: "b", Want: 20, Running: 6, Amounts: gpus(1)}}, []int32{1, 6}},
		"a trial that does not fit removes no running replica": {10, 0, []Member{{Key: "a", Want: 9, Running: 1, Trial: true, Amounts: gpus(4)},
			{Key: "b", Want: 20, Running: 7, Amounts: gpus(1)}}, []int32{0, 7}},
		"a trial within the minimum is kept": {10, 0, []Member{{Key: "a", Want: 9, Min: 1, Running: 1, Trial: true, Amounts: gpus(4)},
			{Key: "b", Want: 20, Running: 7, Amounts: gpus(1)}}, []int32{1, 6}},
		"a trial whose pods use a part of what is free is kept": {10, 0, beside(4, 6), []int32{1, 6}},
		"a trial with more pods than fit is removed":            {10, 0, beside(12, 6), []int32{0, 6}},
		"also if one running replica would have to be removed":  {10, 0, beside(4, 7), []int32{0, 7}},
		"also if pods without a policy use what is free":        {10, 1, beside(4, 6), []int32{0, 6}},
		"also if it was granted, and its HPA has not followed yet": {10, 0, []Member{{Key: "a", Want: 9, Granted: 1, Trial: true,
			Amounts: []Amount{{PerReplica: 12}}}, {Key: "b", Want: 6, Running: 6, Amounts: gpus(1)}}, []int32{0, 6}},
		"another is not raised while its pods exist": {10, 0, []Member{{Key: "a", Want: 9, Running: 1, Trial: true,
			Amounts: []Amount{{Pods: 12}}}, {Key: "b", Want: 9, Running: 6, Amounts: gpus(1)}}, []int32{0, 6}},
		"nor after its replica is removed, but its pods are not": {10, 0, []Member{{Key: "a", Want: 9, Amounts: []Amount{{Pods: 4}}},
			{Key: "b", Want: 9, Running: 6, Amounts: gpus(1)}}, []int32{0, 6}},
		"no first replica while pods of a previous one exist": {10, 0, []Member{{Key: "a", Want: 9, Amounts: []Amount{{Pods: 1}}}}, []int32{0}},
		"of two trials, only one fits and is kept": {10, 0, []Member{{Key: "a", Want: 9, Running: 1, Trial: true, Amounts: []Amount{{Pods: 12}}},
			{Key: "b", Want: 9, Running: 1, Trial: true, Amounts: []Amount{{Pods: 4}}}, {Key: "c", Want: 9, Running: 5, Amounts: gpus(1)}},
			[]int32{0, 1, 5}},
		"a trial without a target is removed": {10, 0, []Member{{Key: "a", Running: 1, Trial: true, Amounts: []Amount{{Pods: 4}}},
			{Key: "b", Want: 9, Running: 4, Amounts: gpus(1)}}, []int32{0, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := maxima(divide(c.limit, c.others, c.members...)); !slices.Equal(got, c.want) {
				t.Errorf("maxima %v, want %v", got, c.want)
			}
		})
	}
}

func TestDivideNamesTheLimitThatRemovesATrial(t *testing.T) {
	members := []Member{{Key: "a", Want: 9, Running: 1, Trial: true, Amounts: []Amount{{PerReplica: 1, Known: true}, {Pods: 12}}},
		{Key: "b", Want: 6, Running: 6, Amounts: []Amount{{Known: true}, {PerReplica: 1, Known: true}}}}
	out := make([]Share, 2)
	Divide([]Limit{{"example.com/nic", 20}, {gpu, 10}}, []int64{0, 0}, members, out)
	if want := (Share{0, 1, 6}); out[0] != want {
		t.Errorf("%+v, want %+v", out[0], want)
	}
}

// isUnknown reports whether an amount per replica of the member is unknown.
func isUnknown(m *Member) bool {
	return slices.ContainsFunc(m.Amounts, func(a Amount) bool { return !a.Known })
}

// charged returns the amount of the limit with index r that n replicas of a member use.
func charged(m *Member, r int, n int32) int64 {
	if a := m.Amounts[r]; !a.Known {
		return max(a.Pods, int64(n)*max(a.PerReplica, 1))
	}
	return int64(n) * m.Amounts[r].PerReplica
}

// For random teams in which some amounts per replica are not known: a member with an unknown amount keeps its replicas and receives no
// more, except for a first replica, which can be removed while it is a trial. First replicas, and new replicas of other members, must fit
// into the part of the limit that no member uses.
func TestDivideNeverTreatsUnknownAsZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, others, members := drawTeam(t, true)
		out := make([]Share, len(members))
		Divide(limits, others, members, out)
		for r := range limits {
			var targets, used int64 // targets: the sum over the members with a share above 0; used: the sum over all members
			received, raised := false, false
			for i, s := range out {
				m := &members[i]
				kept, first := min(m.Want, max(m.Running, m.Granted)), false
				if isUnknown(m) {
					first = kept == 0 && s.Max == 1 && m.Want > 0
					if trial := m.Trial && s.Max == 0; s.Max != kept && !first && !trial {
						t.Fatalf("%s has an unknown amount, keeps %d and receives %d", m.Key, kept, s.Max)
					}
				}
				grown := first || s.Max > max(kept, min(m.Want, m.Min))
				raised = raised || grown && charged(m, r, 1) > 0
				received = received || s.Max > 0 && (m.Trial || !isUnknown(m)) && charged(m, r, 1) > 0
				if used += charged(m, r, s.Max); s.Max > 0 {
					targets += charged(m, r, s.Max)
				}
			}
			if (received || raised) && targets > limits[r].Max {
				t.Fatalf("limit %d: %d granted of %d", r, targets, limits[r].Max)
			}
			if raised && used > limits[r].Max {
				t.Fatalf("limit %d: a member is raised although %d of %d are used", r, used, limits[r].Max)
			}
		}
	})
}

// For random teams: no running replica of another workload is removed for the replica of a trial or for a first replica, if the minimum of
// the member is 0.
func TestTrialRemovesNoRunningReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, others, members := drawTeam(t, true)
		a := &members[0]
		a.Min, a.Running, a.Granted = 0, min(a.Running, 1), min(a.Granted, 1)
		a.Trial = a.Running+a.Granted > 0
		if !a.Trial {
			a.Amounts[0].Known = false
		}
		out, without := make([]Share, len(members)), make([]Share, len(members))
		Divide(limits, others, members, out)
		removed := slices.Clone(members)
		removed[0].Want, removed[0].Running, removed[0].Granted = 0, 0, 0
		Divide(limits, others, removed, without)
		for i := range members {
			m := &members[i]
			if m.Trial || i == 0 { // trials are not compared, because they compete for the same amounts
				continue
			}
			if least := min(without[i].Max, m.Running); out[i].Max < least {
				t.Fatalf("%s receives %d of %d replicas that run", m.Key, out[i].Max, least)
			}
		}
	})
}

// For random teams in which every amount is known: the limits also apply to trials.
func TestTrialsOfKnownAmountStayWithinTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, others, members := drawTeam(t, true)
		for i := range members {
			for r := range limits {
				members[i].Amounts[r].Known = true
			}
		}
		out := make([]Share, len(members))
		Divide(limits, others, members, out)
		for r := range limits {
			var sum int64
			for i, s := range out {
				sum += charged(&members[i], r, s.Max)
			}
			if sum > limits[r].Max {
				t.Fatalf("limit %d: %d granted of %d", r, sum, limits[r].Max)
			}
		}
	})
}
