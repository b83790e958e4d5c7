package lowerbound

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func poisson(r *rand.Rand, setup Setup, rate float64) []Request {
	var requests []Request
	for at := r.ExpFloat64() / rate; at < setup.Horizon.Seconds(); at += r.ExpFloat64() / rate {
		service := time.Duration((0.5 + r.Float64()) * 4e9)
		requests = append(requests, Request{At: time.Duration(at * 1e9), Work: service / 4, Service: service})
	}
	return requests
}

var smallSetup = Setup{
	TimeSlot: 5 * time.Second, Horizon: 10 * time.Minute, ColdStart: 30 * time.Second, Wait: 10 * time.Second,
	MaxReplicas: 6, InitialReplicas: 4, HourlyPrice: 2,
}

// TestCoarserUnitsOnlyLowerTheBound solves the same log with units of different size. Work is rounded down to units, so the optimum with
// coarser units must not be higher than the optimum with finer ones.
func TestCoarserUnitsOnlyLowerTheBound(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	strict := 0
	for range 30 {
		requests := poisson(r, smallSetup, 1+2*r.Float64())
		for _, build := range []func(Setup) (Problem, error){
			func(s Setup) (Problem, error) { return Fluid(requests, s) },
			func(s Setup) (Problem, error) { return RequestLevel(requests, s, 0) },
		} {
			before := 0.0
			for _, units := range []int64{1, 2, 8, 64, 512} {
				s := smallSetup
				s.Units = units
				p, err := build(s)
				if err != nil {
					t.Fatal(err)
				}
				i, err := Solve(p, Options{})
				if err != nil {
					i.UB = math.Inf(1)
				}
				if i.UB < before-1e-6 {
					t.Fatalf("%d units a slot: the optimum falls from %v to %v", units, before, i.UB)
				}
				if i.UB > before && before > 0 {
					strict++
				}
				before = i.UB
			}
		}
	}
	if strict == 0 {
		t.Error("the units never mattered: the test shows nothing")
	}
}

// TestUnitsAddUpToTheWork checks that rounding loses less than one unit over the whole log.
func TestUnitsAddUpToTheWork(t *testing.T) {
	requests := poisson(rand.New(rand.NewPCG(1, 9)), smallSetup, 3)
	p, err := Fluid(requests, smallSetup)
	if err != nil {
		t.Fatal(err)
	}
	var work time.Duration
	for _, r := range requests {
		work += r.Work
	}
	var units int64
	for _, a := range p.Arrivals {
		units += a
	}
	unit := float64(smallSetup.TimeSlot) / float64(p.UnitsPerReplicaSlot)
	if lost := float64(work)/unit - float64(units); lost < 0 || lost >= 1 {
		t.Errorf("%v of work became %d units of %v ns: %v lost", work, units, unit, lost)
	}
}

// TestRequestLevelBoundIsNotHigherThanTheFluidBound compares both bounds of the same log, at every cut.
func TestRequestLevelBoundIsNotHigherThanTheFluidBound(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for range 20 {
		s := smallSetup
		s.LateShare = []float64{0, 0.02}[r.IntN(2)]
		requests := poisson(r, s, 1+2*r.Float64())
		p, err := Fluid(requests, s)
		if err != nil {
			t.Fatal(err)
		}
		tight, err := Solve(p, Options{})
		if err != nil {
			continue // the fluid model can be infeasible when the request-level problem is not
		}
		for _, cut := range Cuts(requests) {
			p, err := RequestLevel(requests, s, cut)
			if err != nil {
				t.Fatal(err)
			}
			loose, err := Solve(p, Options{})
			if err != nil || loose.LB > tight.UB+1e-9 {
				t.Fatalf("cut %s: request level %v (%v), fluid %v", cut, loose, err, tight)
			}
		}
	}
}

// TestLongServiceDoesNotWeakenTheBound solves a log with one request of ten minutes. RequestLevel with a cut of ten minutes delays every
// deadline by that time, so the bound is useful only with a smaller cut.
func TestLongServiceDoesNotWeakenTheBound(t *testing.T) {
	requests := poisson(rand.New(rand.NewPCG(41, 42)), smallSetup, 2)
	requests[5].Service = 10 * time.Minute
	var bounds []float64
	for _, cut := range Cuts(requests) {
		p, err := RequestLevel(requests, smallSetup, cut)
		if err != nil {
			t.Fatal(err)
		}
		i, err := Solve(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		bounds = append(bounds, i.LB)
	}
	last := len(bounds) - 1
	if last < 2 || bounds[last-1] < 2*bounds[last] || bounds[last-1] == 0 {
		t.Errorf("bounds by cut %v: the p99 cut should save what the longest request spoils", bounds)
	}
}

// TestInvalidLogsAndSetupsAreRejected checks the errors of Fluid and RequestLevel.
func TestInvalidLogsAndSetupsAreRejected(t *testing.T) {
	good := []Request{{At: time.Second, Work: time.Second, Service: 4 * time.Second}, {At: 2 * time.Second}}
	for name, spoil := range map[string]func(*Setup, []Request){
		"no slot":             func(s *Setup, _ []Request) { s.TimeSlot = 0 },
		"no horizon":          func(s *Setup, _ []Request) { s.Horizon = 0 },
		"too many slots":      func(s *Setup, _ []Request) { s.TimeSlot, s.Horizon = 1, longest },
		"negative cold start": func(s *Setup, _ []Request) { s.ColdStart = -1 },
		"negative wait":       func(s *Setup, _ []Request) { s.Wait = -1 },
		"endless wait":        func(s *Setup, _ []Request) { s.Wait = math.MaxInt64 },
		"free":                func(s *Setup, _ []Request) { s.HourlyPrice = 0 },
		"price NaN":           func(s *Setup, _ []Request) { s.HourlyPrice = math.NaN() },
		"fee NaN":             func(s *Setup, _ []Request) { s.StartFee = math.NaN() },
		"no replicas":         func(s *Setup, _ []Request) { s.MaxReplicas = 0 },
		"negative units":      func(s *Setup, _ []Request) { s.Units = -1 },
		"backwards":           func(_ *Setup, r []Request) { r[1].At = 0 },
		"before the trace":    func(_ *Setup, r []Request) { r[0].At = -1 },
		"after the horizon":   func(s *Setup, r []Request) { r[1].At = s.Horizon },
		"negative work":       func(_ *Setup, r []Request) { r[0].Work = -1 },
		"faster than full":    func(_ *Setup, r []Request) { r[0].Service = r[0].Work - 1 },
		"endless service":     func(_ *Setup, r []Request) { r[0].Service = math.MaxInt64 },
		"endless work":        func(s *Setup, r []Request) { r[0].Work, r[0].Service, s.Units = longest, longest, 1<<20 },
	} {
		s, requests := smallSetup, append([]Request(nil), good...)
		spoil(&s, requests)
		if p, err := Fluid(requests, s); err == nil {
			t.Errorf("Fluid accepts %s: %+v", name, p)
		}
		if p, err := RequestLevel(requests, s, 0); err == nil {
			t.Errorf("RequestLevel accepts %s: %+v", name, p)
		}
	}
	s := smallSetup
	s.ColdStart = 2*s.TimeSlot - 1
	if _, err := RequestLevel(good, s, 0); err == nil {
		t.Error("RequestLevel accepts a cold start from which two slots cannot be taken")
	}
}

// TestExplainNamesTheRelaxations checks the text that Explain returns for reports.
func TestExplainNamesTheRelaxations(t *testing.T) {
	i := Interval{LB: 2, UB: 2.01, Jobs: 1000, Allowed: 10, Late: 9, Lambda: 0.5, Solves: 6, FullSolves: 1,
		Relaxations: []string{"drains are free"}}
	const want = `at least 2.0000, and 2.0100 suffices (UB/LB 1.0050) with 9 of 1000 requests late, 10 allowed
  6 dynamic programs, 1 of them over every number of replicas; a late request is worth 0.500000
  - drains are free
`
	if got := i.Explain(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	i.Clamped, i.Bytes = true, 3<<20
	const clamped = "  the lower end leans on backlog dropped for free: 3 MB of tables were too few\n"
	if got := i.Explain(); got[len(i.String())+1:][:len(clamped)] != clamped {
		t.Errorf("got\n%s", got)
	}
}
