package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	boundTimeSlot  = time.Minute // length of a time slot of lowerbound.RequestLevel
	boundSolves    = 6           // maximum number of problems that the solver solves; if the solver then stops, the bound is still valid
	maxRequests    = 1_000_000   // maximum number of requests of one workload in the replay
	leastColdStart = 2 * time.Minute
	maxArrivalGaps = 0.1 // maximum share of the replayed steps in which the number of requests is missing
)

// shares contains the targets of gpuscaler that the replay tries, in this order. A target is the number of requests in flight per
// replica, as a share of the slots of a replica (the requests that it serves at the same time). The replay stops at the first target that
// meets the SLO. This target is the cheapest that meets the SLO, because a higher target needs fewer replicas.
var shares = []float64{0.8, 0.6, 0.4}

// Forecast contains the results of the replay of one workload. Costs are in $ per month.
type Forecast struct {
	Hours    float64  `json:"hours"`             // replayed time, at the end of the period
	Requests int64    `json:"requests"`          // replayed requests
	Policy   string   `json:"policy"`            // policy of gpuscaler in the replay
	Cost     float64  `json:"gpuscalerPerMonth"` // $ that the workload would cost with gpuscaler
	OnTime   float64  `json:"gpuscalerOnTime"`   // share of requests on time with gpuscaler
	MeetsSLO bool     `json:"gpuscalerMeetsSLO"` // OnTime is at least the share of the SLO
	Measured *float64 `json:"measuredPerMonth"`  // $ of the current autoscaler in the same time; null if it is unknown
	Bound    *float64 `json:"leastCostPerMonth"` // least cost in $ that any autoscaler needs to meet the SLO; null if it is unknown
	Notes    []string `json:"notes,omitempty"`   // assumptions about the traffic
	Slots    float64  `json:"slots"`             // requests that a replica serves concurrently
	Service  float64  `json:"serviceSeconds"`    // time that a replica spends on a request
	Hourly   float64  `json:"hourlyPerReplica"`  // price of a replica in $ per hour
}

// errNoForecast is wrapped by the errors that contain the reason why a workload cannot be replayed.
var errNoForecast = errors.New("not replayed")

// window returns the index of the first step that the replay covers.
func (o *Options) window(s *Snapshot) int {
	steps := int(o.Replay / s.step())
	if steps <= 0 || steps > s.Steps {
		steps = s.Steps
	}
	return s.Steps - steps
}

// forecast replays the traffic of a workload with gpuscaler and computes the least cost that any autoscaler needs to meet the SLO. It calls
// announce before it computes the least cost.
func (s *Snapshot) forecast(ctx context.Context, w *Workload, o *Options, announce func(string)) (*Forecast, error) {
	from := o.window(s)
	hourly, err := s.hourly(w, from)
	if err != nil {
		return nil, err
	}
	out := &Forecast{Hours: float64(s.Steps-from) * s.Step / 3600, Slots: w.Slots, Service: w.Service, Hourly: round(hourly)}
	traffic, err := s.traffic(w, from, out)
	if err != nil {
		return nil, err
	}
	c := evaluate.Case{
		Traffic: traffic, For: s.To().Sub(s.From.Add(time.Duration(from) * s.step())), SLO: o.SLO, GPUs: int32(max(1, w.GPUs)), Seed: 1,
		Service: simulator.Service{Slots: int(max(1, math.Round(w.Slots))), Fixed: time.Duration(w.Service * float64(time.Second))},
		Initial: evaluate.AutoInitial, Hourly: hourly / float64(max(1, w.GPUs)), ColdStart: o.ColdStart,
		Measures: map[string]measure.Measure{"in-flight": measure.InSystem},
	}
	for _, share := range shares {
		target := max(1, math.Floor(share*w.Slots))
		c.Policy = defaultPolicy(w, target)
		report, err := evaluate.Workload(ctx, c, nil)
		if err != nil {
			return nil, err
		}
		run := &report.Runs[0]
		out.Requests = report.Traffic.Requests
		out.Cost, out.OnTime, out.MeetsSLO = round(monthly(run.Cost, out.Hours)), round(run.OnTime), run.MeetsSLO
		out.Policy = fmt.Sprintf("%g requests in flight per replica, %d to %d replicas, cooldown 5m", target,
			c.Policy.Workload.Policy.MinReplicas, c.Policy.Workload.Policy.MaxReplicas)
		if run.MeetsSLO {
			break
		}
	}
	announce("least cost of")
	if out.Bound, err = bound(ctx, &c, out.Hours); err != nil {
		return nil, err
	}
	return out, nil
}

// hourly returns the mean price in $ per hour of a replica in the replayed steps, which begin at the index from. If no pod held GPUs in
// these steps, it returns the mean over the whole period.
func (s *Snapshot) hourly(w *Workload, from int) (float64, error) {
	for _, begin := range []int{from, 0} {
		cost, gpus := 0.0, 0.0
		for i := begin; i < s.Steps; i++ {
			held := heldAt(w.Held, i)
			if price, ok := s.price(w, i, held); ok && held > 0 {
				cost, gpus = cost+held*price, gpus+held
			}
		}
		if gpus > 0 {
			return cost / gpus * float64(max(1, w.GPUs)), nil
		}
	}
	return 0, fmt.Errorf("%w: the price of its GPUs is unknown", errNoForecast)
}

// traffic returns the requests of the replayed time as a trace of rates. If the number of requests of a step is missing, the step has the
// rate of the previous step.
func (s *Snapshot) traffic(w *Workload, from int, out *Forecast) (*trace.Trace, error) {
	switch {
	case w.Slots <= 0:
		return nil, fmt.Errorf("%w: the number of requests that a replica serves concurrently is unknown", errNoForecast)
	case w.Service <= 0:
		return nil, fmt.Errorf("%w: the service time of its requests is unknown", errNoForecast)
	case !w.Started.known():
		return nil, fmt.Errorf("%w: the number of its requests is unknown", errNoForecast)
	}
	var text bytes.Buffer
	fmt.Fprintln(&text, "time,rate")
	gaps, last, sum := 0, 0.0, 0.0
	for i := from; i < s.Steps; i++ {
		n := w.Started.at(i)
		if math.IsNaN(n) {
			gaps++
			n = last
		}
		last = n
		sum += n
		fmt.Fprintf(&text, "%s,%.9f\n", s.From.Add(time.Duration(i)*s.step()).UTC().Format(time.RFC3339Nano), n/s.Step)
	}
	switch steps := s.Steps - from; {
	case sum == 0:
		return nil, fmt.Errorf("%w: it had no requests", errNoForecast)
	case sum > maxRequests:
		return nil, fmt.Errorf("%w: more than %d requests: use a shorter --replay", errNoForecast, maxRequests)
	case float64(gaps) > maxArrivalGaps*float64(steps):
		return nil, fmt.Errorf("%w: %d of %d steps have no number of requests", errNoForecast, gaps, steps)
	case gaps > 0:
		out.Notes = append(out.Notes, fmt.Sprintf("%d of %d steps have no number of requests; the replay uses the number of the step before",
			gaps, steps))
	}
	t, err := tracefile.Read(w.Key(), &text, tracefile.Options{Format: tracefile.RateCSV, Window: s.step(), Seed: 1})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoForecast, err)
	}
	return t.Drawn(2 * maxRequests)
}

// defaultPolicy returns the policy of gpuscaler in the replay: one signal on requests in flight with the given target, and the replica
// bounds of the workload's autoscaler. The minimum is at most one replica.
func defaultPolicy(w *Workload, target float64) *policy.Compiled {
	return &policy.Compiled{
		Workload: scaling.Workload{Key: scaling.Key{Namespace: w.Namespace, Name: w.Name}, Policy: &scaling.Policy{
			MinReplicas: int32(min(1, w.Autoscaler.Min)), MaxReplicas: int32(max(1, w.Autoscaler.Max)),
			Signals:        []scaling.Signal{{Name: "in-flight", Type: "prometheus", Target: target, MaxAge: 2 * time.Minute}},
			CooldownPeriod: 5 * time.Minute, ScaleDown: scaling.Direction{StabilizationWindow: 5 * time.Minute},
		}},
		Sources: []policy.Source{{Type: policy.SourcePrometheus}},
	}
}

// bound returns the least cost per month that any autoscaler needs to meet the SLO, or nil if no bound can be computed. It computes two
// lower bounds and returns the greater one; both are valid.
func bound(ctx context.Context, c *evaluate.Case, hours float64) (*float64, error) {
	var requests []lowerbound.Request
	for r := range c.Traffic.All() {
		takes := c.Service.Takes(r)
		if r.At < c.For {
			requests = append(requests, lowerbound.Request{At: r.At, Work: takes / time.Duration(c.Service.Slots), Service: takes})
		}
	}
	limits := c.Policy.Workload.Policy
	setup := lowerbound.Setup{
		TimeSlot: boundTimeSlot, Horizon: c.For / boundTimeSlot * boundTimeSlot, ColdStart: max(c.ColdStart, leastColdStart), Wait: c.SLO.Wait,
		LateShare: 1 - c.SLO.Share, MaxReplicas: 2 * int(limits.MaxReplicas), InitialReplicas: int(limits.MaxReplicas),
		HourlyPrice: c.Hourly * float64(c.GPUs),
	}
	for len(requests) > 0 && requests[len(requests)-1].At >= setup.Horizon {
		requests = requests[:len(requests)-1]
	}
	work, err := lowerbound.Work(requests, setup)
	if err != nil {
		return nil, nil // not an error of the audit: the report shows that there is no bound
	}
	best := work.LB
	if p, err := lowerbound.RequestLevel(requests, setup, 0); err == nil {
		p.OpenEnd = true
		i, err := lowerbound.Solve(p, lowerbound.Options{MaxSolves: boundSolves, MemoryBytes: 128 << 20, Context: ctx})
		switch {
		case err == nil:
			best = max(best, i.LB)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
	if best <= 0 {
		return nil, nil
	}
	return known(monthly(best, hours)), nil
}
