package hpa

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// milli converts a number of replicas to milli-units.
func milli(n int32) int64 { return int64(n) * 1000 }

func TestDefaultToleranceIgnoresSmallSteps(t *testing.T) {
	for _, c := range []struct{ status, low, high int32 }{ // with `status` replicas, the HPA ignores targets from low to high
		{10, 9, 11}, {20, 18, 22}, {30, 27, 33}, {50, 45, 55}, {100, 90, 110},
	} {
		for d := c.low - 2; d <= c.high+2; d++ {
			want := d
			if d >= c.low && d <= c.high {
				want = c.status
			}
			if got := AverageValue(milli(d), 1000, c.status, DefaultTolerances); got != want {
				t.Errorf("at %d, %d is served: the HPA proposes %d, want %d", c.status, d, got, want)
			}
		}
	}
	for s := int32(1); s < 10; s++ {
		for _, d := range []int32{s - 1, s + 1} {
			if got := AverageValue(milli(d), 1000, s, DefaultTolerances); got != d {
				t.Errorf("at %d, %d is served: the HPA proposes %d, but follows every step below 10", s, d, got)
			}
		}
	}
}

func TestScaledMetricHasTheSameTolerance(t *testing.T) {
	for _, target := range []int64{1, 1000, 1_000_000} {
		if got := AverageValue(11*target, target, 10, DefaultTolerances); got != 10 {
			t.Errorf("with a target of %dm the HPA proposes %d for 11, want the current 10", target, got)
		}
	}
}

func TestRolloutSurgeIsAdoptedOnlyWithATolerance(t *testing.T) {
	none := Tolerances{}
	for _, c := range []struct {
		decided, status int32
		with            int32
	}{
		{10, 11, 11}, // maxSurge 1: the additional pod is within the tolerance, so the HPA proposes all 11
		{20, 21, 21}, {20, 22, 22},
		{9, 10, 10},  // with 9 desired replicas, the additional pod is also within the tolerance
		{20, 25, 20}, // maxSurge 25%: five additional pods are outside the tolerance, so the HPA proposes 20
	} {
		if got := AverageValue(milli(c.decided), 1000, c.status, DefaultTolerances); got != c.with {
			t.Errorf("%d decided, %d pods: %d, want %d", c.decided, c.status, got, c.with)
		}
		if got := AverageValue(milli(c.decided), 1000, c.status, none); got != c.decided {
			t.Errorf("%d decided, %d pods, no tolerance: %d", c.decided, c.status, got)
		}
	}
}

func TestAverageValueFromZeroIsAbsolute(t *testing.T) {
	if got := AverageValue(milli(3), 1000, 0, DefaultTolerances); got != 3 {
		t.Errorf("ratio +Inf: %d, want 3", got)
	}
	if got := AverageValue(0, 1000, 0, DefaultTolerances); got != 0 {
		t.Errorf("ratio NaN: %d, want 0", got)
	}
	if got := AverageValue(math.MaxInt64, 1, 5, DefaultTolerances); got != math.MaxInt32 {
		t.Errorf("a huge usage: %d", got)
	}
}

func TestValueMultipliesByReadyPods(t *testing.T) {
	for _, c := range []struct {
		usage, target  int64
		current, ready int32
		want           int32
	}{
		{1000, 1000, 6, 6, 6},
		{1100, 1000, 6, 6, 6}, // within the tolerance: spec.replicas, for any number of ready pods
		{2000, 1000, 6, 6, 12},
		{2000, 1000, 6, 2, 4}, // four pods are loading: the HPA scales down although the load has doubled
		{2000, 1000, 6, 0, 0}, // no pod is ready: down to minReplicas
		{2500, 1000, 0, 0, 3}, // from zero: the ratio, rounded up
	} {
		if got := Value(c.usage, c.target, c.current, c.ready, DefaultTolerances); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestPodsMetricWithUnreadyAndMissingPods(t *testing.T) {
	for _, c := range []struct {
		name string
		pods Pods
		want int32
		ok   bool
	}{
		{"on target", Pods{Sum: 4 * 700, Counted: 4, Current: 4}, 4, true},
		{"within the tolerance", Pods{Sum: 4 * 760, Counted: 4, Current: 4}, 4, true},
		{"all busy", Pods{Sum: 4 * 1000, Counted: 4, Current: 4}, 6, true},
		{"all busy, two pods pulling images", Pods{Sum: 4 * 1000, Counted: 4, Unready: 2, Current: 6}, 6, true},
		{"all busy, one pod pending", Pods{Sum: 4 * 1000, Counted: 4, Unready: 1, Current: 5}, 6, true},
		{"all idle", Pods{Sum: 0, Counted: 4, Current: 4}, 0, true},
		{"four idle, two without the metric count as on target", Pods{Sum: 0, Counted: 4, Missing: 2, Current: 6}, 2, true},
		{"busy, two without the metric count as idle", Pods{Sum: 4 * 1000, Counted: 4, Missing: 2, Current: 6}, 6, true},
		{"no pod reports", Pods{Counted: 0, Missing: 3, Current: 3}, 0, false},
	} {
		got, ok := c.pods.Average(700, DefaultTolerances)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestAverageValueOfOneWithoutToleranceFollowsExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decided, status := rapid.Int32Range(0, 100_000).Draw(t, "decided"), rapid.Int32Range(0, 100_000).Draw(t, "status")
		if got := AverageValue(milli(decided), 1000, status, Tolerances{}); got != decided {
			t.Fatalf("%d", got)
		}
	})
}

func TestMilliAcceptsAnyValue(t *testing.T) {
	for v, want := range map[float64]int64{0: 0, 1.5: 1500, 0.0004: 0, -3: 0, math.Inf(1): math.MaxInt64, math.Inf(-1): 0,
		1e300: math.MaxInt64} {
		if got := Milli(v); got != want {
			t.Errorf("Milli(%g) = %d, want %d", v, got, want)
		}
	}
	if got := Milli(math.NaN()); got != 0 {
		t.Errorf("Milli(NaN) = %d", got)
	}
}
