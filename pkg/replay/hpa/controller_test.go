package hpa

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"pgregory.net/rapid"
)

// sync calls a controller every 15 s, each time with one of the proposals, and returns the replicas after each call.
func sync(spec Spec, start int32, proposals ...int32) []int32 {
	var c Controller
	now, current := time.Unix(1_800_000_000, 0), start
	var wrote []int32
	for _, p := range proposals {
		current, _ = c.Sync(&spec, now, current, []Proposal{{p, true}})
		wrote = append(wrote, current)
		now = now.Add(SyncPeriod)
	}
	return wrote
}

func repeat(n int32, times int) []int32 {
	out := make([]int32, times)
	for i := range out {
		out[i] = n
	}
	return out
}

func expect(t *testing.T, got, want []int32) {
	t.Helper()
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("wrote %v, want %v", got, want)
		}
	}
}

func TestWithoutBehaviorScaleUpDoublesOrAddsFour(t *testing.T) {
	expect(t, sync(Spec{Min: 1, Max: 40}, 1, repeat(100, 5)...), []int32{4, 8, 16, 32, 40})
}

func TestWithoutBehaviorScaleDownWaitsFiveMinutes(t *testing.T) {
	got := sync(Spec{Min: 1, Max: 40}, 20, repeat(2, 23)...)
	expect(t, got, repeat(20, 21)) // the recommendation of the first sync is used for 300 s
	if got[21] != 2 {
		t.Errorf("after 315 s it wrote %d, want 2", got[21])
	}
}

func TestEmptyBehaviorEqualsTheDefault(t *testing.T) {
	spec := Spec{Min: 1, Max: 40, Behavior: DefaultBehavior()}
	expect(t, sync(spec, 1, repeat(100, 5)...), []int32{5, 10, 20, 40, 40})
	got := sync(spec, 20, repeat(2, 23)...)
	expect(t, got, repeat(20, 20)) // a recommendation of 20 is younger than 300 s
	if got[20] != 2 {
		t.Errorf("after 300 s it wrote %d, want 2", got[20])
	}
}

func TestFollowerFollowsEveryChange(t *testing.T) {
	steps := []int32{3, 11, 10, 11, 1, 500, 20, 19}
	expect(t, sync(Spec{Min: 1, Max: 1000, Behavior: Follower()}, 1, steps...), steps)
}

func TestScaleDownByOneReplicaAMinute(t *testing.T) {
	b := Follower()
	b.Down.Rates = []scaling.RatePolicy{{Type: scaling.Pods, Value: 1, Period: time.Minute}}
	expect(t, sync(Spec{Min: 1, Max: 40, Behavior: b}, 5, repeat(1, 13)...), []int32{4, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1})
}

func TestPercentScaleUpIsRoundedUp(t *testing.T) {
	b := Follower()
	b.Up.Rates = []scaling.RatePolicy{{Type: scaling.PercentRate, Value: 10, Period: SyncPeriod}}
	expect(t, sync(Spec{Min: 1, Max: 40, Behavior: b}, 5, repeat(40, 4)...), []int32{6, 7, 8, 9})
}

func TestSelectPolicies(t *testing.T) {
	rates := []scaling.RatePolicy{{Type: scaling.Pods, Value: 4, Period: SyncPeriod},
		{Type: scaling.PercentRate, Value: 100, Period: SyncPeriod}}
	for _, c := range []struct {
		choose scaling.SelectPolicy
		want   int32
	}{{scaling.SelectMax, 20}, {scaling.SelectMin, 14}, {scaling.Disabled, 10}} {
		b := Follower()
		b.Up = scaling.Direction{Select: c.choose, Rates: rates}
		if got := sync(Spec{Min: 1, Max: 100, Behavior: b}, 10, 100)[0]; got != c.want {
			t.Errorf("selectPolicy %d: %d, want %d", c.choose, got, c.want)
		}
	}
}

func TestFailedMetricPreventsScaleDown(t *testing.T) {
	spec := Spec{Min: 1, Max: 10, Behavior: Follower()}
	for _, c := range []struct {
		name      string
		proposals []Proposal
		want      int32
		verdict   Verdict
	}{
		{"all fail", []Proposal{{}, {}}, 5, Failed},
		{"one fails, the other proposes less", []Proposal{{}, {2, true}}, 5, Failed},
		{"one fails, the other proposes more", []Proposal{{}, {7, true}}, 7, Scaled},
		{"the highest proposal is used", []Proposal{{3, true}, {6, true}}, 6, Scaled},
	} {
		var controller Controller
		got, verdict := controller.Sync(&spec, time.Unix(0, 0), 5, c.proposals)
		if got != c.want || verdict != c.verdict {
			t.Errorf("%s: %d, %d", c.name, got, verdict)
		}
	}
}

func TestBoundsApplyBeforeMetricsAndZeroIsKept(t *testing.T) {
	spec := Spec{Min: 2, Max: 10}
	for _, c := range []struct {
		current, want int32
		verdict       Verdict
	}{{0, 0, Disabled}, {1, 2, Bounded}, {12, 10, Bounded}} {
		var controller Controller
		got, verdict := controller.Sync(&spec, time.Unix(0, 0), c.current, []Proposal{{}})
		if got != c.want || verdict != c.verdict {
			t.Errorf("at %d: %d, %d", c.current, got, verdict)
		}
	}
}

func TestReplicasStayWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{Min: rapid.Int32Range(1, 5).Draw(t, "min"), Max: rapid.Int32Range(5, 50).Draw(t, "max")}
		if rapid.Bool().Draw(t, "behavior") {
			spec.Behavior = DefaultBehavior()
		}
		var c Controller
		now, current := time.Unix(0, 0), rapid.Int32Range(1, 60).Draw(t, "start")
		for range 200 {
			p := Proposal{rapid.Int32Range(0, 100).Draw(t, "proposal"), rapid.IntRange(0, 9).Draw(t, "fails") > 0}
			before := current
			current, _ = c.Sync(&spec, now, current, []Proposal{p})
			if (current < spec.Min || current > spec.Max) && current != before {
				t.Fatalf("%d outside %d..%d", current, spec.Min, spec.Max)
			}
			if !p.Known && before >= spec.Min && before <= spec.Max && current != before {
				t.Fatalf("a failed metric moved %d to %d", before, current)
			}
			now = now.Add(SyncPeriod)
		}
		if n := len(c.recommendations) + len(c.ups) + len(c.downs); n > 40 {
			t.Fatalf("%d entries remembered", n)
		}
	})
}
