package lowerbound

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// longer returns a random problem that is too large for brute force, with bursts and pauses.
func longer(r *rand.Rand, slots int) Problem {
	p := Problem{
		Arrivals: make([]int64, slots), UnitsPerReplicaSlot: 1 + r.Int64N(9), MaxReplicas: 2 + r.IntN(12),
		ReplicaSlotCost: 1, StartCost: float64(r.IntN(20)) / 2, WaitSlots: r.IntN(3), LateShare: []float64{0, 0.01, 0.1}[r.IntN(3)],
		ServeAll: r.IntN(2) == 0,
	}
	p.InitialReplicas = r.IntN(p.MaxReplicas + 1)
	most := p.UnitsPerReplicaSlot * int64(p.MaxReplicas)
	level := int64(0)
	for i := range p.Arrivals {
		if r.IntN(10) == 0 {
			level = r.Int64N(most)
		}
		p.Arrivals[i] = r.Int64N(level + 1)
	}
	return p
}

// TestDecompositionByLevelAgreesWithTheDynamicProgram compares the two exact solvers for problems without waiting and lateness.
func TestDecompositionByLevelAgreesWithTheDynamicProgram(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	compared := 0
	for range 300 {
		p := longer(r, 1+r.IntN(120))
		p.WaitSlots, p.LateShare = 0, 0
		if r.IntN(2) == 0 {
			p.BootSlots = r.IntN(6)
		}
		byLevel, err := Solve(p, Options{})
		if errors.Is(err, ErrInfeasible) {
			continue
		}
		if err != nil || byLevel.Solves != 0 {
			t.Fatalf("%+v: %v after %d dynamic programs; decomposition needs none", p, err, byLevel.Solves)
		}
		tl, _ := newTimeline(&p)
		s, err := newSearch(&p, tl, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.forbid()
		if byDP := s.interval(); byDP.UB != byLevel.UB || byDP.LB != byLevel.LB || !byDP.Exact {
			t.Fatalf("%+v: by level %v, by dynamic program [%v, %v]", p, byLevel.UB, byDP.LB, byDP.UB)
		}
		compared++
	}
	if compared < 150 {
		t.Fatalf("only %d problems were feasible", compared)
	}
}

// TestRelaxedProblemIsNotMoreExpensive relaxes each constraint of a problem. LB of the relaxed problem must not exceed UB of the original,
// and if both are exact, the optimum must not increase.
func TestRelaxedProblemIsNotMoreExpensive(t *testing.T) {
	relaxed := map[string]func(p *Problem){
		"a longer wait":          func(p *Problem) { p.WaitSlots++ },
		"more late jobs":         func(p *Problem) { p.LateShare += 0.05 },
		"one more replica":       func(p *Problem) { p.MaxReplicas++ },
		"one more warm replica":  func(p *Problem) { p.MaxReplicas++; p.InitialReplicas++ },
		"cheaper starts":         func(p *Problem) { p.StartCost /= 2 },
		"an open end":            func(p *Problem) { p.OpenEnd = true },
		"work left at the end":   func(p *Problem) { p.ServeAll = false },
		"a faster replica":       func(p *Problem) { p.UnitsPerReplicaSlot++ },
		"less work in a slot":    func(p *Problem) { p.Arrivals[len(p.Arrivals)/2] /= 2 },
		"an earlier first start": func(p *Problem) { p.BootSlots = 0 },
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		p := longer(r, 20+r.IntN(60))
		p.BootSlots = r.IntN(4)
		before, err := Solve(p, Options{})
		if errors.Is(err, ErrInfeasible) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, relax := range relaxed {
			if name == "less work in a slot" && p.LateShare > 0 {
				continue // this problem has fewer jobs, so fewer jobs may be late: it can be stricter
			}
			q := p
			q.Arrivals = slices.Clone(p.Arrivals)
			relax(&q)
			after, err := Solve(q, Options{})
			if err != nil {
				t.Fatalf("%s makes %+v fail: %v", name, p, err)
			}
			const near = 1e-6
			if after.LB > before.UB+near {
				t.Fatalf("%s: LB %v passes UB %v of %+v", name, after.LB, before.UB, p)
			}
			if before.Exact && after.Exact && after.UB > before.UB+near {
				t.Fatalf("%s: the optimum rises from %v to %v in %+v", name, before.UB, after.UB, p)
			}
		}
	}
}

// TestGapIsSmallOnAverage checks that the upper and the lower bound are close to each other on average. The problems are too large for
// brute force.
func TestGapIsSmallOnAverage(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	sum, count, worst := 0.0, 0, 1.0
	for range 100 {
		p := longer(r, 200)
		p.LateShare = 0.01
		i, err := Solve(p, Options{})
		if errors.Is(err, ErrInfeasible) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		sum, count, worst = sum+i.Gap(), count+1, max(worst, i.Gap())
	}
	t.Logf("%d problems of 200 slots: mean UB/LB %.4f, worst %.4f", count, sum/float64(count), worst)
	if mean := sum / float64(count); mean > 1.02 {
		t.Errorf("the mean UB/LB is %.4f", mean)
	}
}

// During a long overload, there are more different backlogs than columns that the memory limit allows. The bound must still be valid.
func TestBoundIsValidWithLittleMemory(t *testing.T) {
	p := Problem{
		Arrivals: make([]int64, 200), UnitsPerReplicaSlot: 16, MaxReplicas: 3, InitialReplicas: 1,
		ReplicaSlotCost: 1, StartCost: 8, WaitSlots: 1, ServeAll: true,
	}
	for i := range p.Arrivals {
		p.Arrivals[i] = 20
		if i > 50 && i < 100 {
			p.Arrivals[i] = 50 // more work than three replicas serve in a slot
		}
	}
	for _, share := range []float64{0.9, 0.6} {
		p.LateShare = share
		ample, err := Solve(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		scarce, err := Solve(p, Options{MemoryBytes: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		if ample.Clamped || scarce.Bytes >= ample.Bytes {
			t.Errorf("late share %v: clamped %v with ample memory; %d bytes used of little, %d of ample",
				share, ample.Clamped, scarce.Bytes, ample.Bytes)
		}
		if scarce.LB > ample.UB+1e-9 || scarce.UB < ample.LB-1e-9 {
			t.Errorf("late share %v: [%v, %v] in little memory, [%v, %v] in ample", share, scarce.LB, scarce.UB, ample.LB, ample.UB)
		}
		if c, err := Evaluate(p, scarce.Schedule); err != nil || c.Late > scarce.Allowed || c.Backlog > 0 {
			t.Errorf("late share %v: the schedule found in little memory: %+v, %v", share, c, err)
		}
	}
}

// TestNoStartBeforeTheColdStart begins with too few replicas. Whether the SLO can be kept depends on the backlog during the first cold
// start.
func TestNoStartBeforeTheColdStart(t *testing.T) {
	p := Problem{
		Arrivals: []int64{2, 2, 2, 2, 2, 2}, UnitsPerReplicaSlot: 1, MaxReplicas: 4, InitialReplicas: 1,
		ReplicaSlotCost: 1, StartCost: 2, BootSlots: 2,
	}
	if _, err := Solve(p, Options{}); !errors.Is(err, ErrInfeasible) {
		t.Fatalf("one replica serves half of the first two slots, nothing else can be ready, nothing may be late: got %v", err)
	}
	p.LateShare = 0.5
	i, err := Solve(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if slices.Max(i.Schedule[:2]) > 1 {
		t.Errorf("schedule %v starts replicas before any can have booted", i.Schedule)
	}
}

// TestMoveAgreesWithItsDefinition compares shift and land, two methods of move that compute the transition through one slot. shift computes
// all columns at once, and land computes the new column of one column. The test computes the expected row with land.
func TestMoveAgreesWithItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.Int64Range(1, 5).Draw(t, "g")
		draw := func(name string, arrived int64) columns {
			c := columns{arrived: arrived, top: -1, fine: int(arrived) + 1, open: rapid.Bool().Draw(t, name+" open")}
			if rapid.Bool().Draw(t, name+" coarse") && arrived > 0 {
				c.top = rapid.Int64Range(0, (arrived-1)/g).Draw(t, name+" top")
				c.fine = int(arrived - g*c.top)
				c.coarse = int(rapid.Int64Range(1, c.top+1).Draw(t, name+" columns"))
			} else {
				c.fine = rapid.IntRange(1, c.fine).Draw(t, name+" fine")
			}
			return c
		}
		before := draw("from", rapid.Int64Range(0, 30).Draw(t, "arrived"))
		after := draw("to", before.arrived+rapid.Int64Range(0, 12).Draw(t, "arrive"))
		m := move{
			from: &before, to: &after, serve: g, n: rapid.Int64Range(0, 6).Draw(t, "n"), pay: 100,
			open: after.open && rapid.Bool().Draw(t, "drop"),
			late: rapid.SliceOfN(rapid.Int64Range(0, 9), after.width(), after.width()).Draw(t, "late"),
		}
		values := rapid.SliceOfN(rapid.Int64Range(0, 1000), before.width(), before.width())
		down, started := values.Draw(t, "down"), values.Draw(t, "started")
		want := make([]int64, after.width())
		fill(want)
		for c := range down {
			if to := m.land(c); to < len(want) {
				want[to] = min(want[to], min(down[c], started[c])+m.pay+m.late[to])
			}
		}
		got := make([]int64, after.width())
		m.shift(got, down, started)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestInvalidProblemsAreRejected checks the errors for invalid fields.
func TestInvalidProblemsAreRejected(t *testing.T) {
	good := func() Problem {
		return Problem{Arrivals: []int64{1, 2}, UnitsPerReplicaSlot: 1, MaxReplicas: 2, InitialReplicas: 1, ReplicaSlotCost: 1}
	}
	if _, err := Solve(good(), Options{}); err != nil {
		t.Fatalf("the problem before it is spoilt: %v", err)
	}
	for name, spoil := range map[string]func(*Problem){
		"no slots":                 func(p *Problem) { p.Arrivals = nil },
		"negative arrivals":        func(p *Problem) { p.Arrivals[1] = -1 },
		"overflowing arrivals":     func(p *Problem) { p.Arrivals = []int64{math.MaxInt64, math.MaxInt64} },
		"no service":               func(p *Problem) { p.UnitsPerReplicaSlot = 0 },
		"no replicas":              func(p *Problem) { p.MaxReplicas = 0 },
		"more warm than there are": func(p *Problem) { p.InitialReplicas = 3 },
		"free replicas":            func(p *Problem) { p.ReplicaSlotCost = 0 },
		"cost is NaN":              func(p *Problem) { p.ReplicaSlotCost = math.NaN() },
		"start costs NaN":          func(p *Problem) { p.StartCost = math.NaN() },
		"start costs everything":   func(p *Problem) { p.StartCost = math.Inf(1) },
		"start outgrows integers":  func(p *Problem) { p.StartCost = 1e300 },
		"negative wait":            func(p *Problem) { p.WaitSlots = -1 },
		"share above one":          func(p *Problem) { p.LateShare = 1.1 },
		"share is NaN":             func(p *Problem) { p.LateShare = math.NaN() },
		"rebate is NaN":            func(p *Problem) { p.Rebate = math.NaN() },
		"job beyond the work":      func(p *Problem) { p.Jobs = []Job{{End: 4, Due: 1}} },
		"jobs out of order":        func(p *Problem) { p.Jobs = []Job{{End: 2, Due: 1}, {End: 1, Due: 1}} },
		"due before the start":     func(p *Problem) { p.Jobs = []Job{{End: 1, Due: 0}} },
		"due out of order":         func(p *Problem) { p.Jobs = []Job{{End: 1, Due: 2}, {End: 2, Due: 1}} },
	} {
		p := good()
		spoil(&p)
		if i, err := Solve(p, Options{}); err == nil || errors.Is(err, ErrInfeasible) {
			t.Errorf("%s: accepted: %+v, %v", name, i, err)
		}
	}
	for name, schedule := range map[string][]int32{"short": {1}, "too many": {1, 3}, "negative": {1, -1}} {
		if _, err := Evaluate(good(), schedule); err == nil {
			t.Errorf("Evaluate accepts a schedule that is %s", name)
		}
	}
	p := good()
	p.BootSlots = 1
	if _, err := Evaluate(p, []int32{2, 2}); err == nil {
		t.Error("Evaluate accepts a start before the first boot can end")
	}
}

// TestNoTrafficCostsNothing solves a problem without load, in which every replica stops at once.
func TestNoTrafficCostsNothing(t *testing.T) {
	p := Problem{Arrivals: make([]int64, 50), UnitsPerReplicaSlot: 8, MaxReplicas: 4, InitialReplicas: 4, ReplicaSlotCost: 1, StartCost: 6}
	for _, share := range []float64{0, 0.01, 1} {
		p.LateShare = share
		i, err := Solve(p, Options{})
		if err != nil || i.LB != 0 || i.UB != 0 || !i.Exact || i.Gap() != 1 {
			t.Errorf("late share %v: %+v, %v", share, i, err)
		}
	}
}

// TestProgressIsReported checks that the interval from LB to UB in the progress reports never becomes larger.
func TestProgressIsReported(t *testing.T) {
	p := longer(rand.New(rand.NewPCG(1, 1)), 300)
	p.LateShare, p.InitialReplicas = 0.02, p.MaxReplicas
	var seen []Progress
	i, err := Solve(p, Options{Progress: func(now Progress) { seen = append(seen, now) }})
	if err != nil || len(seen) < 50 {
		t.Fatalf("%d calls of Progress, %v", len(seen), err)
	}
	for k, now := range seen[1:] {
		before := seen[k]
		if now.LB < before.LB || before.UB > 0 && now.UB > before.UB || now.Solve < before.Solve {
			t.Fatalf("the interval became larger, from %+v to %+v", before, now)
		}
	}
	if last := seen[len(seen)-1]; last.Solve != i.Solves || last.LB > i.LB+1e-9 || last.UB < i.UB-1e-6 {
		t.Errorf("the last progress %+v does not lead to %+v", last, i)
	}
}

// Solve needs minutes for a problem of several days with short slots, so it must return soon after its context ends.
func TestSolveStopsWithItsContext(t *testing.T) {
	p := Problem{TimeSlot: time.Second, Arrivals: make([]int64, 2000), UnitsPerReplicaSlot: 2, MaxReplicas: 4,
		ReplicaSlotCost: 1, StartCost: 5,
		WaitSlots: 3, LateShare: 0.1}
	for i := range p.Arrivals {
		p.Arrivals[i] = int64(i*i%7) % 5
	}
	ctx, end := context.WithCancel(context.Background())
	calls := 0
	_, err := Solve(p, Options{Context: ctx, Progress: func(Progress) {
		if calls++; calls == 3 {
			end()
		}
	}})
	if !errors.Is(err, context.Canceled) || calls > 4 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if i, err := Solve(p, Options{Context: context.Background()}); err != nil || i.LB <= 0 {
		t.Errorf("%+v, %v", i, err)
	}
}
