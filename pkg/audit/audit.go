package audit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// Schema names the JSON format of a Report. New fields keep the name; a removed field or a changed meaning requires a new name.
const Schema = "gpuscaler.io/audit/v1"

// hoursPerMonth is the mean length of a month in hours.
const hoursPerMonth = 730.0

// Options configure Run.
type Options struct {
	SLO       evaluate.SLO
	Replay    time.Duration // length of the replayed part at the end of the period; 0: the whole period, negative: no replay
	ColdStart time.Duration // cold start of gpuscaler's replicas in the replay; 0: the simulator draws each cold start from its assumptions
	// Budget is the maximum time that all replays together may run; 0: no limit. Report.Missing lists the workloads that were not replayed
	// within this time.
	Budget time.Duration
	// Progress is called with the current task and the completed share, 0..1, from several goroutines. It may be nil.
	Progress func(what string, done float64)
}

// Report is the result of an audit. Each cost is in $ per month of 730 hours, extrapolated from the time that has measurements. Each
// share is from 0 to 1. An unknown value is null.
type Report struct {
	Schema  string    `json:"schema"`
	Cluster string    `json:"cluster,omitempty"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Step    float64   `json:"stepSeconds"`
	SLO     SLO       `json:"slo"`

	Total     Total      `json:"total"`
	Workloads []Line     `json:"workloads"` // the most expensive first
	Pools     []PoolLine `json:"pools,omitempty"`
	Waste     []Waste    `json:"waste"`   // the most expensive first
	Missing   []Gap      `json:"missing"` // what cannot be evaluated, and why
	Notes     []string   `json:"notes,omitempty"`

	snapshot *Snapshot
}

// SLO is the required service level: at least Share (0 to 1) of the requests must wait at most Wait seconds.
type SLO struct {
	Share float64 `json:"share"`
	Wait  float64 `json:"waitSeconds"`
}

// Figures are the results of one workload, or of all workloads together.
type Figures struct {
	GPUHours float64  `json:"gpuHours"`     // measured GPU hours
	Cost     *float64 `json:"costPerMonth"` // cost in $
	Served   *float64 `json:"servedShare"`  // share of the measured GPU time that served requests
	OnTime   *float64 `json:"onTime"`       // share of the requests that waited at most SLO.Wait seconds
	MeetsSLO *bool    `json:"meetsSLO"`
	Ledger   Ledger   `json:"gpuHoursByCause"`
}

// Total contains the sums over all workloads. Some workloads cannot be replayed. Measured is the cost of only the replayed workloads, so
// that it can be compared with Gpuscaler.
type Total struct {
	Figures
	Replayed  int      `json:"replayedWorkloads"`
	Measured  *float64 `json:"replayedMeasuredPerMonth"` // cost in $ of the replayed workloads with their current autoscalers
	Gpuscaler *float64 `json:"gpuscalerPerMonth"`        // cost in $ of the replayed workloads with gpuscaler
	Bounded   int      `json:"boundedWorkloads"`
	Bound     *float64 `json:"leastCostPerMonth"` // least possible cost in $ of the workloads that have a bound
}

// Line contains the results of one workload.
type Line struct {
	Workload   string  `json:"workload"`   // namespace/name
	Autoscaler string  `json:"autoscaler"` // kind and name of the autoscaler
	Measured   float64 `json:"measuredShare"`
	Figures
	Forecast *Forecast `json:"forecast,omitempty"`

	of *Workload
}

// PoolLine contains the GPU time and the price of one pool: the nodes with one instance type, capacity type and price.
type PoolLine struct {
	Name     string   `json:"name"`
	GPUHours float64  `json:"gpuHours"`
	Hourly   *float64 `json:"hourlyPerGPU"` // price of a GPU per hour; null: unknown
	From     string   `json:"priceFrom,omitempty"`
	Ledger   Ledger   `json:"gpuHoursByCause"` // GPU hours in which no pod held the GPU
}

// Waste is GPU time that did not serve requests, of one workload or pool and of one cause.
type Waste struct {
	Of       string   `json:"of"` // namespace/name, or the name of a pool
	Cause    Cause    `json:"cause"`
	GPUHours float64  `json:"gpuHoursPerMonth"`
	Cost     *float64 `json:"costPerMonth"` // cost in $; null if the price is unknown
	Text     string   `json:"text"`
	Next     string   `json:"next"` // what the user can do to reduce the waste
}

// Snapshot returns the snapshot from which the report was computed.
func (r *Report) Snapshot() *Snapshot { return r.snapshot }

// Run audits a snapshot.
func Run(ctx context.Context, s *Snapshot, o Options) (*Report, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Wait != o.SLO.Wait.Seconds() && len(s.Workloads) > 0 {
		return nil, fmt.Errorf("the snapshot counts requests that waited at most %gs, and the SLO is %s: use --slo %g%%:%gs", s.Wait, o.SLO.Wait,
			100*o.SLO.Share, s.Wait)
	}
	r := &Report{
		Schema: Schema, Cluster: s.Cluster, From: s.From, To: s.To(), Step: s.Step, SLO: SLO{o.SLO.Share, o.SLO.Wait.Seconds()},
		Waste: []Waste{}, Missing: []Gap{}, Workloads: []Line{}, Notes: slices.Clone(s.Notes), snapshot: s,
	}
	r.Missing = append(r.Missing, s.Missing...)
	r.measure(s)
	if o.Replay >= 0 {
		if err := r.replay(ctx, &o); err != nil {
			return nil, err
		}
	}
	r.gaps()
	slices.SortStableFunc(r.Waste, func(a, b Waste) int {
		return cmp.Or(-compare(a.Cost, b.Cost), cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(a.Of, b.Of))
	})
	return r, nil
}

// measure computes all parts of the report except the replay, and stores them in the report.
func (r *Report) measure(s *Snapshot) {
	total := sums{}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		a := s.account(w)
		line := Line{
			Workload: w.Key(), Autoscaler: w.Autoscaler.Kind + " " + w.Autoscaler.Name, Measured: round(a.hours / s.Duration().Hours()), of: w,
		}
		line.Figures = a.figures(r.SLO.Share)
		r.Workloads = append(r.Workloads, line)
		total.add(&a)
		r.wasted(w, &a)
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		a := s.poolAccount(p)
		line := PoolLine{Name: p.Name, GPUHours: round(a.paid), Ledger: a.ledger, From: p.PriceFrom}
		if a.priced {
			line.Hourly = &p.Hourly
		}
		r.Pools = append(r.Pools, line)
		total.addPool(&a)
		r.freeNodes(p, &a)
	}
	r.Total.Figures = total.figures(r.SLO.Share)
	slices.SortStableFunc(r.Workloads, func(a, b Line) int {
		return cmp.Or(-compare(a.Cost, b.Cost), cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(a.Workload, b.Workload))
	})
}

// figures returns the results of one workload.
func (a *account) figures(share float64) (out Figures) {
	out.Ledger, out.GPUHours = a.ledger, round(a.ledger.Sum())
	if a.hours > 0 && a.unpriced == 0 {
		out.Cost = known(monthly(a.cost, a.hours))
	}
	if measured := a.ledger.Sum() - a.ledger[NotMeasured]; measured > 0 {
		out.Served = known(a.ledger[Served] / measured)
	}
	if a.slo && a.started > 0 {
		out.OnTime = known(a.onTime / a.started)
		meets := a.onTime/a.started >= share
		out.MeetsSLO = &meets
	}
	return out
}

// sums adds up the accounts of workloads and pools. Each cost is converted to a cost per month before it is added, because the workloads
// were measured for different lengths of time.
type sums struct {
	account
	monthly  float64
	unpriced bool
	worst    float64 // lowest share of requests on time of any workload
}

func (t *sums) add(a *account) {
	if a.slo && a.started > 0 {
		if on := a.onTime / a.started; t.started == 0 || on < t.worst {
			t.worst = on
		}
		t.slo = true
	}
	t.ledger.add(&a.ledger)
	t.started += a.started
	t.onTime += a.onTime
	t.unpriced = t.unpriced || a.unpriced > 0
	if a.hours > 0 {
		t.hours = max(t.hours, a.hours)
		t.monthly += monthly(a.cost, a.hours)
	}
}

func (t *sums) addPool(a *poolAccount) {
	t.ledger.add(&a.ledger)
	t.unpriced = t.unpriced || !a.priced && a.ledger.Sum() > 0
	if a.hours > 0 {
		t.monthly += monthly(a.costOf.Sum(), a.hours)
	}
}

// figures returns the results of all workloads together. The SLO counts as met if every workload meets it.
func (t *sums) figures(share float64) Figures {
	out := t.account.figures(share)
	out.Cost = nil
	if t.hours > 0 && !t.unpriced {
		out.Cost = known(t.monthly)
	}
	if out.MeetsSLO != nil {
		*out.MeetsSLO = t.worst >= share
	}
	return out
}

// measuredCost returns the cost per month of a workload, or nil if it is unknown. It uses the steps whose index is at least from.
func (s *Snapshot) measuredCost(w *Workload, from int) *float64 {
	cost, hours := 0.0, 0.0
	for i := from; i < s.Steps; i++ {
		held := heldAt(w.Held, i)
		if math.IsNaN(held) {
			continue
		}
		price, priced := s.price(w, i, held)
		if !priced {
			return nil
		}
		cost += held * price * s.Step / 3600
		hours += s.Step / 3600
	}
	if hours == 0 {
		return nil
	}
	return known(monthly(cost, hours))
}

func monthly(v, hours float64) float64 { return v / hours * hoursPerMonth }

func known(v float64) *float64 {
	v = round(v)
	return &v
}

// compare compares two values that can be nil (unknown). nil is less than every known value.
func compare(a, b *float64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}
