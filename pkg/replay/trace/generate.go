package trace

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// Generate returns the trace of a profile. The requests are generated while the trace is read; the same profile gives the same requests.
// Errors are of type [*Error].
func Generate(p Profile) (*Trace, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, err
	}
	if p.Duration == 0 {
		return nil, &Error{File: "profile " + p.Name, Found: "no duration", Allowed: "a duration above 0, to 400 days"}
	}
	return &Trace{Header: Header{Name: p.Name, Start: p.Start, Duration: p.Duration}, Kind: Generated, profile: &p,
		drawing: Drawing{Seed: p.Seed, Tokens: p.Tokens}}, nil
}

// generator generates an endless sequence of requests of a profile.
type generator struct {
	p         Profile
	src       reproducible.Draws // random numbers for intervals and tokens
	burstSrc  reproducible.Draws // random numbers for bursts; separate, so that the rate does not influence the bursts
	intervals reproducible.Intervals

	at    time.Duration // start of the current genStep
	rate  float64       // expected requests in the current genStep
	used  float64       // expected requests from the start of the genStep to the last arrival
	toGo  float64       // time until the next arrival, in units of the mean interval
	burst Hours         // the current burst, or the next burst if no burst is current

	pending Request
	waiting bool
}

// genStep is the length of the steps for which a generator computes the rate. The rate is constant within a step.
const genStep = time.Second

func newGenerator(p Profile) *generator {
	g := &generator{p: p, intervals: reproducible.NewIntervals(p.Family, p.CV),
		src: reproducible.Numbered(p.Seed, "arrivals", 0), burstSrc: reproducible.Numbered(p.Seed, "bursts", 0)}
	// The trace starts at a random time within an interval between two arrivals. The first arrival is at the end of that interval, so only a
	// random part of the interval remains until the first arrival (see Spanning).
	g.toGo = reproducible.Mul(g.src.Uniform(), g.intervals.Spanning(&g.src))
	g.nextBurst(0)
	g.rate = g.requests()
	return g
}

// nextBefore returns the next arrival if it is before t.
func (g *generator) nextBefore(t time.Duration) (Request, bool) {
	for !g.waiting && g.at < t {
		g.step()
	}
	if !g.waiting || g.pending.At >= t {
		return Request{}, false
	}
	g.waiting = false
	return g.pending, true
}

// step generates the next arrival if it is within the current genStep. Otherwise it starts the next genStep.
func (g *generator) step() {
	if left := g.rate - g.used; g.toGo > left || g.rate == 0 {
		g.toGo -= left
		g.at += genStep
		g.used, g.rate = 0, g.requests()
		return
	}
	g.used += g.toGo
	g.toGo = g.intervals.Next(&g.src)
	within := min(time.Duration(reproducible.Mul(g.used/g.rate, float64(genStep))), genStep-1)
	g.pending = Request{At: g.at + within, InputTokens: UnknownTokens, OutputTokens: UnknownTokens}
	g.p.Tokens.Fill(&g.pending, &g.src)
	g.waiting = true
}

// requests returns the expected number of requests in the genStep that begins at g.at.
func (g *generator) requests() float64 {
	rate := reproducible.Mul(g.p.baseRate(g.at), genStep.Seconds())
	if g.p.Bursts.Every == 0 {
		return rate
	}
	if g.at >= g.burst.To {
		g.nextBurst(g.burst.To)
	}
	if g.at >= g.burst.From {
		rate = reproducible.Mul(rate, g.p.Bursts.Factor)
	}
	return rate
}

func (g *generator) nextBurst(after time.Duration) {
	wait := time.Duration(reproducible.Mul(g.burstSrc.Exponential(), float64(g.p.Bursts.Every)))
	g.burst = Hours{From: after + wait, To: after + wait + g.p.Bursts.Length}
}
