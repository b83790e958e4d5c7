package objective

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// day is the simulation of a workload with its own kind of load and evidence.
type day struct {
	name   string
	length time.Duration
	setUp  func(w *workload, r *rand.Rand)
	load   func(w *workload, r *rand.Rand) float64 // returns the work per second in the next 5 s
}

// hour returns the time of the day in hours.
func (w *workload) hour() float64 { return w.now.Sub(w.now.Truncate(24 * time.Hour)).Hours() }

// hump returns a load that increases from 0 at the hour from to 1 in the middle, and decreases to 0 at the hour to.
func hump(hour, from, to float64) float64 {
	if hour <= from || hour >= to {
		return 0
	}
	x := (hour - from) / (to - from)
	return 4 * x * (1 - x)
}

// vary changes the observed cold starts: they differ in length, they have phases, and some replicas found a node with free GPUs.
func (w *workload) vary(e *Evidence, r *rand.Rand) {
	for i := range e.ColdStarts {
		c := &e.ColdStarts[i]
		if c.Phase[ImagePull] = time.Duration(20+r.IntN(30)) * time.Second; r.IntN(3) > 0 {
			c.Node = time.Duration(60+r.IntN(60)) * time.Second
			c.Phase[NodeLaunch], c.Phase[Registration], c.Phase[GPUAllocatable] = c.Node/2, c.Node/4, c.Node/4
		}
		c.Phase[ModelLoad] = w.cold / 3
		c.Total = c.Node + c.Phase[ImagePull] + c.Phase[ModelLoad]
	}
}

var days = []day{
	{"a chat model whose server reports requests in flight", 50 * time.Hour, func(w *workload, r *rand.Rand) {
		w.capacity, w.ready, w.cold = 8/6.5, 4, 2*time.Minute
		w.inFlightOnly(6.5)
		reads := w.change
		w.change = func(e *Evidence) { reads(e); w.vary(e, r) }
	}, func(w *workload, r *rand.Rand) float64 {
		if w.now.Sub(start) > 30*time.Hour {
			w.version, w.capacity = 2, 6/6.5 // a rollout of a slower version of the server
		}
		return (1 + 9*hump(w.hour(), 6, 22)) * (0.8 + 0.4*r.Float64())
	}},
	{"completions with a histogram of the time to the first token", 30 * time.Hour, func(w *workload, _ *rand.Rand) {
		w.o = Objective{Kind: TimeToFirstToken, Limit: 3 * time.Second, Percentile: 95}
		w.change = func(e *Evidence) {
			wait := w.queue / (float64(max(w.ready, 1)) * w.capacity)
			e.Latency = known(0.4+wait, w.now)
			e.Late = known(min(max(wait-2.6, 0), 1), w.now)
			e.Busy = known(min(e.Served.V/(float64(max(w.ready, 1))*w.capacity), 1), w.now)
			e.InFlight = known(e.Served.V*2, w.now)
		}
	}, func(w *workload, r *rand.Rand) float64 {
		load := 2 + 6*hump(w.hour(), 8, 20)
		if r.IntN(400) == 0 {
			load *= 4 // a burst of 5 s
		}
		return load * (0.7 + 0.6*r.Float64())
	}},
	{"a stream of tokens that slows down under load", 12 * time.Hour, func(w *workload, _ *rand.Rand) {
		w.o = Objective{Kind: InterTokenLatency, Limit: 50 * time.Millisecond, Percentile: 95}
		w.change = func(e *Evidence) {
			e.Latency = known(0.02+0.04*e.Served.V/float64(max(w.ready, 1)), w.now)
		}
	}, func(w *workload, r *rand.Rand) float64 {
		return (1 + 5*hump(w.hour(), 2, 11)) * (0.9 + 0.2*r.Float64())
	}},
	{"jobs with a deadline, of which only the queue is known", 30 * time.Hour, func(w *workload, r *rand.Rand) {
		w.o, w.ready, w.capacity, w.cold = Objective{Kind: Deadline, Limit: 30 * time.Minute, Percentile: 98}, 0, 0.05, 4*time.Minute
		w.change = func(e *Evidence) { e.Arrivals, e.Served = Value{}, Value{}; w.vary(e, r) }
	}, func(w *workload, _ *rand.Rand) float64 {
		if h := w.hour(); h >= 1 && h < 1.2 || h >= 13 && h < 13.5 {
			return 0.4
		}
		return 0
	}},
	{"a few requests each hour", 30 * time.Hour, func(w *workload, _ *rand.Rand) {
		w.capacity, w.o.Limit = 0.5, 20*time.Second
		w.inFlightOnly(8)
	}, func(_ *workload, r *rand.Rand) float64 {
		if r.IntN(150) == 0 {
			return 0.2 // a single request
		}
		return 0
	}},
	{"a stated capacity and cold start, and more load than the limits allow", 26 * time.Hour, func(w *workload, _ *rand.Rand) {
		w.o = Objective{Limit: 30 * time.Second, Percentile: 99.9, Window: 7 * 24 * time.Hour, Capacity: 2, ColdStart: 90 * time.Second}
		w.l, w.ready, w.capacity = Limits{Min: 2, Max: 6}, 2, 2
	}, func(w *workload, r *rand.Rand) float64 {
		load := 3 + 5*hump(w.hour(), 7, 19)
		if h := w.hour(); h > 12 && h < 12.2 {
			load = 14
		}
		return load * (0.8 + 0.4*r.Float64())
	}},
	{"a large fleet", 6 * time.Hour, func(w *workload, _ *rand.Rand) {
		w.l.Max, w.ready, w.capacity = 2000, 300, 8/6.5
		w.inFlightOnly(6.5)
	}, func(w *workload, r *rand.Rand) float64 {
		return 200 * (1 + hump(w.hour(), 1, 5)) * (0.97 + 0.06*r.Float64())
	}},
	{"bursts at the same hours of each day", 80 * time.Hour, func(w *workload, r *rand.Rand) {
		w.cold = 5 * time.Minute
		w.change = func(e *Evidence) { w.vary(e, r) }
	}, func(w *workload, r *rand.Rand) float64 {
		h := w.hour()
		if h >= 9 && h < 9.5 || h >= 15 && h < 15.25 {
			return 8 * (0.9 + 0.2*r.Float64())
		}
		return 0.6 * r.Float64()
	}},
	{"wrong and missing evidence, and a clock that is set back", 30 * time.Hour, func(w *workload, r *rand.Rand) {
		w.change = func(e *Evidence) {
			switch h := w.hour(); {
			case h > 4 && h < 5:
				e.Arrivals.V *= 10
			case h > 8 && h < 9:
				e.Served = Value{}
			case h > 12 && h < 12.5:
				e.Queued, e.Arrivals = Value{}, Value{}
			case h > 13 && h < 14:
				e.Arrivals, e.Served, e.Busy = Value{}, Value{}, known(r.Float64(), w.now)
			case h > 16 && h < 17:
				e.Busy = known(0.05, w.now)
			}
		}
	}, func(w *workload, r *rand.Rand) float64 {
		if r.IntN(6000) == 0 {
			w.now = w.now.Add(-time.Duration(r.IntN(900)) * time.Second)
		}
		if r.IntN(3000) == 0 {
			w.now = w.now.Add(time.Duration(r.IntN(900)) * time.Second) // no tick runs in this time
		}
		return (3 + 3*hump(w.hour(), 10, 16)) * (0.5 + r.Float64())
	}},
	{"a small load on many replicas, and samples without times", 20 * time.Hour, func(w *workload, _ *rand.Rand) {
		w.capacity, w.ready = 8/6.5, 6
		w.inFlightOnly(6.5)
		reads := w.change
		w.change = func(e *Evidence) {
			reads(e)
			e.InFlight.At, e.Queued.At = time.Time{}, time.Time{}
			e.Latency = Value{V: 2, Known: true}
			if h := w.hour(); h > 2 && h < 4 || h > 8 && h < 9 {
				e.Latency.V = 6 // more than half of the objective's limit of 10 s
			}
		}
	}, func(w *workload, r *rand.Rand) float64 {
		if h := w.hour(); h > 11 {
			return 6 * hump(h, 11, 19) * (0.8 + 0.4*r.Float64())
		}
		return 0.9 * (0.5 + r.Float64())
	}},
	{"a small load of which the throughput is known", 8 * time.Hour, func(w *workload, _ *rand.Rand) {
		w.capacity, w.ready = 1, 5
		w.change = func(e *Evidence) {
			if e.Queued.V > 0 && w.hour() < 4 {
				e.Served = Value{}
			}
			e.InFlight = known(e.Served.V*3, w.now)
		}
	}, func(w *workload, r *rand.Rand) float64 {
		return 0.4 + hump(w.hour(), 2, 3) + 5*hump(w.hour(), 5, 7)*r.Float64()
	}},
}

// TestSimulatedDaysHaveTheRecordedPlans compares the plans of each simulated day with a golden file. For every two hours, the file contains
// the cost and the late work up to that time, so that a change of a plan at any time changes the file. The model is saved and restored
// every six hours. A difference in the file shows the effect of a change of the model. `make bench-decisions` shows whether the change is
// an improvement.
func TestSimulatedDaysHaveTheRecordedPlans(t *testing.T) {
	var out strings.Builder
	for i, d := range days {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		w := newWorkload()
		d.setUp(w, r)
		fmt.Fprintf(&out, "# %s\n", d.name)
		paid, late, earliest := 0.0, 0.0, 0.0
		for step, end := 1, start.Add(d.length); w.now.Before(end); step++ {
			w.run(t, 5*time.Second, d.load(w, r))
			paid += float64(w.plan.Replicas) / 720
			late += float64(max(w.queue-float64(float64(w.ready)*w.capacity*w.o.Limit.Seconds()), 0) / 720)
			earliest += max(w.plan.EarliestScaleDown.Sub(w.now).Hours(), 0) / 720
			if step%1440 == 0 {
				fmt.Fprintf(&out, "%s paid %.6g late %.6g until decrease %.6g\n", w.now.Sub(start), paid, late, earliest)
				w.record(&out)
			}
			if step%4320 == 0 {
				w.restart(t)
			}
		}
	}
	fmt.Fprintln(&out, "# rules")
	for i := range rules {
		fmt.Fprintf(&out, "%2d %v %s\n", i, rules[i].first, Plan{Rule: uint8(i)}.RuleText())
	}
	golden.Compare(t, "testdata/days.txt", out.String())
}

// record writes the plan and a summary of the model.
func (w *workload) record(out *strings.Builder) {
	p, l := &w.plan, w.m.Learned()
	fmt.Fprintf(out, "  %d: %s; %s\n", p.Replicas, p.Text(), p.RuleText())
	fmt.Fprintf(out, "  on time %.6g price %.6g cold start %s lead %s capacity %s attained %.6g budget %.6g\n", p.Quantile, p.Price,
		p.ColdStart, w.m.LeadTime(&w.o), l.Capacity.text(), l.Attained, l.Budget)
	fmt.Fprintf(out, "  load %.6g burstiness %.6g idle %s observed %s starts %s node %s phases", l.Load, l.Burstiness,
		l.IdleGap.Round(time.Millisecond), l.Observed, l.ColdStart.text(), l.Node.text())
	for _, phase := range l.Phase {
		out.WriteString(" " + phase.text())
	}
	out.WriteString("\n")
}

func (d Distribution) text() string {
	return fmt.Sprintf("%.6g/%.6g/%.6g/%.6g of %d", d.P10, d.P50, d.P90, d.P95, d.Count)
}

// restart saves the model and continues with a new model that is read from the saved bytes.
func (w *workload) restart(t *testing.T) {
	b, err := w.m.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.m = New()
	if err := w.m.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
}
