package teams

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const gpu = "nvidia.com/gpu"

func gpus(n int64) []Amount { return []Amount{{PerReplica: n, Known: true}} }

func divide(limit int64, others int64, members ...Member) (out []Share) {
	out = make([]Share, len(members))
	Divide([]Limit{{gpu, limit}}, []int64{others}, members, out)
	return out
}

func maxima(shares []Share) (out []int32) {
	for _, s := range shares {
		out = append(out, s.Max)
	}
	return out
}

func TestDivideInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		limit, others int64
		members       []Member
		want          []int32
	}{
		"everything fits": {10, 0, []Member{{Key: "a", Want: 4, Amounts: gpus(1)}, {Key: "b", Want: 3, Amounts: gpus(2)}}, []int32{4, 3}},
		"equal demand is divided equally, the first key gets the odd replica": {5, 0,
			[]Member{{Key: "b", Want: 9, Amounts: gpus(1)}, {Key: "a", Want: 9, Amounts: gpus(1)}}, []int32{2, 3}},
		"a small demand is met before a large one": {10, 0,
			[]Member{{Key: "a", Want: 500, Amounts: gpus(1)}, {Key: "b", Want: 2, Amounts: gpus(1)}}, []int32{8, 2}},
		"a running replica is not removed for a raise": {4, 0,
			[]Member{{Key: "a", Want: 4, Running: 4, Amounts: gpus(1)}, {Key: "b", Want: 4, Amounts: gpus(1)}}, []int32{4, 0}},
		"a running replica is removed for a minimum": {4, 0,
			[]Member{{Key: "a", Want: 4, Running: 4, Amounts: gpus(1)}, {Key: "b", Want: 4, Min: 1, Amounts: gpus(1)}}, []int32{3, 1}},
		"a limit lowered below what runs cuts the largest share first": {6, 0,
			[]Member{{Key: "a", Want: 8, Running: 8, Amounts: gpus(1)}, {Key: "b", Want: 2, Running: 2, Amounts: gpus(1)}}, []int32{4, 2}},
		"minima above the limit are cut too": {3, 0,
			[]Member{{Key: "a", Want: 4, Min: 4, Amounts: gpus(1)}, {Key: "b", Want: 4, Min: 4, Amounts: gpus(1)}}, []int32{2, 1}},
		"a limit of zero leaves none": {0, 0, []Member{{Key: "a", Want: 500, Min: 1, Running: 20, Amounts: gpus(1)}}, []int32{0}},
		"a replica of eight does not fit into seven": {7, 0,
			[]Member{{Key: "a", Want: 2, Amounts: gpus(8)}, {Key: "b", Want: 9, Amounts: gpus(1)}}, []int32{0, 7}},
		"unmanaged pods stop raises and remove nothing": {8, 6,
			[]Member{{Key: "a", Want: 6, Running: 4, Amounts: gpus(1)}, {Key: "b", Want: 3, Amounts: gpus(1)}}, []int32{4, 0}},
		"replicas that are being removed stop raises of others": {8, 0,
			[]Member{{Key: "a", Want: 1, Running: 6, Amounts: gpus(1)}, {Key: "b", Want: 5, Amounts: gpus(1)}}, []int32{1, 2}},
		"a granted raise is kept before the HPA follows": {4, 0,
			[]Member{{Key: "a", Want: 4, Granted: 4, Amounts: gpus(1)}, {Key: "b", Want: 4, Amounts: gpus(1)}}, []int32{4, 0}},
		"a workload without the resource is not limited": {1, 0,
			[]Member{{Key: "a", Want: 9, Amounts: gpus(0)}, {Key: "b", Want: 9, Amounts: gpus(1)}}, []int32{9, 1}},
		"an unknown amount is not raised, and not cut": {10, 0,
			[]Member{{Key: "a", Want: 9, Running: 2, Amounts: []Amount{{Pods: 8}}}, {Key: "b", Want: 9, Amounts: gpus(1)}}, []int32{2, 2}},
		"an unknown amount without pods counts one for each replica": {10, 0,
			[]Member{{Key: "a", Want: 3, Running: 3, Amounts: []Amount{{}}}, {Key: "b", Want: 9, Amounts: gpus(1)}}, []int32{3, 7}},
		"an unknown amount counts as it was known last": {10, 0,
			[]Member{{Key: "a", Want: 3, Running: 3, Amounts: []Amount{{PerReplica: 2}}}, {Key: "b", Want: 9, Amounts: gpus(1)}}, []int32{3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := maxima(divide(c.limit, c.others, c.members...)); !slices.Equal(got, c.want) {
				t.Errorf("maxima %v, want %v", got, c.want)
			}
		})
	}
}

func TestDivideNamesTheLimitAndWhatOthersHold(t *testing.T) {
	two := func(a, b int64) []Amount { return []Amount{{PerReplica: a, Known: true}, {PerReplica: b, Known: true}} }
	members := []Member{{Key: "a", Want: 9, Amounts: two(1, 0)}, {Key: "b", Want: 9, Amounts: two(0, 1)}, {Key: "c", Want: 1,
		Running: 1, Amounts: two(0, 2)}}
	out := make([]Share, 3)
	Divide([]Limit{{gpu, 20}, {"nvidia.com/mig-1g.10gb", 6}}, []int64{0, 1}, members, out)
	if want := []Share{{9, -1, 0}, {3, 1, 3}, {1, -1, 0}}; !slices.Equal(out, want) {
		t.Errorf("shares %+v, want %+v", out, want)
	}
	unknown := []Member{{Key: "a", Want: 9, Running: 1, Amounts: []Amount{{PerReplica: 1, Known: true}, {}}}}
	Divide([]Limit{{gpu, 20}, {"nvidia.com/mig-1g.10gb", 6}}, []int64{0, 0}, unknown, out[:1])
	if want := (Share{1, 1, -1}); out[0] != want {
		t.Errorf("the second amount is unknown: %+v, want %+v", out[0], want)
	}
	if got := maxima(divide(4, 0, Member{Key: "a", Want: 4, Amounts: gpus(1 << 61)}, Member{Key: "b", Want: 9,
		Amounts: gpus(1)})); !slices.Equal(got, []int32{0, 4}) {
		t.Errorf("a huge amount: maxima %v, want 0 and 4", got)
	}
	if got, want := divide(4, 0, Member{Key: "a", Want: 3, Running: 1, Amounts: []Amount{{}}})[0], (Share{1, 0, -1}); got != want {
		t.Errorf("unknown amount: %+v, want %+v", got, want)
	}
}

func drawTeam(t *rapid.T, unknown bool) (limits []Limit, others []int64, members []Member) {
	for r := range rapid.IntRange(1, 3).Draw(t, "limits") {
		limits = append(limits, Limit{fmt.Sprint("r", r), rapid.Int64Range(0, 60).Draw(t, "max")})
		others = append(others, rapid.Int64Range(0, 20).Draw(t, "others"))
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "members") {
		m := Member{Key: fmt.Sprint("team/", i)}
		for _, n := range []*int32{&m.Want, &m.Min, &m.Running, &m.Granted} {
			*n = rapid.Int32Range(0, 30).Draw(t, "replicas")
		}
		if unknown && rapid.Bool().Draw(t, "few replicas") {
			m.Running, m.Granted = min(m.Running, 1), min(m.Granted, 1)
			m.Trial = rapid.Bool().Draw(t, "trial")
		}
		for range limits {
			a := Amount{PerReplica: rapid.Int64Range(0, 4).Draw(t, "amount"), Known: !unknown || rapid.Bool().Draw(t, "known"),
				Pods: rapid.Int64Range(0, 9).Draw(t, "pods")}
			m.Amounts = append(m.Amounts, a)
		}
		members = append(members, m)
	}
	return limits, others, members
}

// For random teams: the shares never exceed a limit, no share exceeds the member's target, each reduced share contains the limit that
// reduces it, and the order of the members does not change the result.
func TestDivideProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, others, members := drawTeam(t, false)
		out := make([]Share, len(members))
		Divide(limits, others, members, out)
		for r := range limits {
			var sum, desired int64
			for i, s := range out {
				sum += int64(s.Max) * members[i].Amounts[r].PerReplica
				desired += int64(max(members[i].Want, members[i].Running)) * members[i].Amounts[r].PerReplica
			}
			if sum > limits[r].Max {
				t.Fatalf("limit %d: %d granted of %d", r, sum, limits[r].Max)
			}
			if desired+others[r] <= limits[r].Max {
				for i, s := range out {
					if s.Max < members[i].Want && s.Limit == int8(r) {
						t.Fatalf("%s is cut by limit %d, which is large enough for all", members[i].Key, r)
					}
				}
			}
		}
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).Perm(len(members))
		shuffled, again := make([]Member, len(members)), make([]Share, len(members))
		for i, j := range order {
			shuffled[i] = members[j]
		}
		Divide(limits, others, shuffled, again)
		for i, j := range order {
			if again[i] != out[j] {
				t.Fatalf("%s receives %+v in one order and %+v in another", members[j].Key, out[j], again[i])
			}
		}
		for i, s := range out {
			if s.Max > members[i].Want || s.Max < 0 || s.Max == members[i].Want && s.Limit != -1 || s.Max < members[i].Want && s.Limit < 0 {
				t.Fatalf("%s needs %d and receives %+v", members[i].Key, members[i].Want, s)
			}
		}
	})
}

// naive is a simple implementation for comparison. It gives the replicas one by one, as the package documentation describes.
func naive(limits []Limit, others []int64, members []Member) []int32 {
	got, room := make([]int32, len(members)), make([]int64, len(limits))
	for r := range limits {
		room[r] = limits[r].Max
	}
	dominant := func(i int) (d float64) {
		for r, a := range members[i].Amounts {
			d = max(d, float64(a.PerReplica)/float64(max(limits[r].Max, 1)))
		}
		return d
	}
	step := func(upTo func(Member) int32) {
		for {
			best := -1
			for i, m := range members {
				fits := got[i] < upTo(m) && dominant(i) > 0
				for r, a := range m.Amounts {
					fits = fits && (a.PerReplica == 0 || a.PerReplica <= room[r])
				}
				if fits && (best < 0 || float64(got[i])*dominant(i) < float64(got[best])*dominant(best)) {
					best = i
				}
			}
			if best < 0 {
				return
			}
			got[best]++
			for r, a := range members[best].Amounts {
				room[r] -= a.PerReplica
			}
		}
	}
	step(func(m Member) int32 { return min(m.Want, m.Min) })
	step(func(m Member) int32 { return min(m.Want, m.Running) })
	step(func(m Member) int32 { return min(m.Want, max(m.Running, m.Granted)) })
	for r := range limits {
		room[r] -= others[r]
		for i, m := range members {
			room[r] -= int64(max(0, m.Running-got[i])) * m.Amounts[r].PerReplica
		}
	}
	step(func(m Member) int32 { return m.Want })
	for i, m := range members {
		if dominant(i) == 0 {
			got[i] = m.Want
		}
	}
	return got
}

func TestDivideGivesWhatOneReplicaAtATimeGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, others, members := drawTeam(t, false)
		out := make([]Share, len(members))
		Divide(limits, others, members, out)
		if want := naive(limits, others, members); !slices.Equal(maxima(out), want) {
			t.Fatalf("%v, want %v", maxima(out), want)
		}
	})
}

// BenchmarkDivideTenThousand measures Divide for a team of 10,000 policies that each need 100,000 replicas. It must be fast enough for one
// tick.
func BenchmarkDivideTenThousand(b *testing.B) {
	members, out := make([]Member, 10_000), make([]Share, 10_000)
	for i := range members {
		members[i] = Member{Key: "team/" + strings.Repeat("x", i%7) + fmt.Sprint(i), Want: 100_000, Min: 1, Running: int32(i % 50),
			Amounts: gpus(int64(1 + i%8))}
	}
	for b.Loop() {
		Divide([]Limit{{gpu, 1_000_000}}, []int64{10}, members, out)
	}
}
