package demo

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// Summary is the result of a run, printed as text or JSON.
type Summary struct {
	Start    time.Time `json:"start"` // virtual time of the start
	End      time.Time `json:"end"`   // virtual time of the end
	Policies []Policy  `json:"policies"`
	Cost     float64   `json:"cost"` // cost in $
	GPUHours float64   `json:"gpuHours"`
	Losses   int64     `json:"spotLosses"`
	Compared []Outcome `json:"compared,omitempty"` // result of the method Compare, set by the caller
	// LeastCost is a lower bound of the cost in $, set by the caller from the method LeastCost. nil: it was not computed.
	LeastCost *float64 `json:"leastCost,omitempty"`
}

// Policy is the last state of one policy and the totals of its run.
type Policy struct {
	Policy  string   `json:"policy"` // namespace/name
	Target  int32    `json:"target"`
	Ready   int32    `json:"ready"`
	Served  *int32   `json:"served"`          // target that the external metrics API would return to an HPA; null: an error
	Error   string   `json:"error,omitempty"` // error that the external metrics API would return
	Reasons []string `json:"reasons"`

	Requests int64   `json:"requests"`
	OnTime   float64 `json:"onTime"` // share of requests that waited at most Limit
	Limit    float64 `json:"limitSeconds"`
	P99      float64 `json:"waitP99Seconds"`
	Starts   int64   `json:"replicaStarts"`
	AtZero   float64 `json:"hoursAtZero"`
}

// Summary returns the totals of the run so far. It must not be called during Run.
func (d *Demo) Summary() Summary {
	r := d.simulator.Result()
	s := Summary{Start: start, End: d.Now(), Cost: r.Cost, GPUHours: r.Paid.Hours()}
	for _, p := range r.Pools {
		s.Losses += p.SpotLosses
	}
	for i := range r.Loads {
		s.Policies = append(s.Policies, d.policy(&r.Loads[i]))
	}
	return s
}

func (d *Demo) policy(l *simulator.LoadResult) Policy {
	p := Policy{
		Policy: l.Key.String(), Requests: l.Arrived, OnTime: l.OnTime, Limit: l.Limit.Seconds(), P99: l.P99.Seconds(),
		Starts: l.ReplicaStarts, AtZero: l.AtZero.Hours(), Reasons: []string{},
	}
	served, err := d.Engine().Decisions().Lookup(l.Key, d.Now())
	if err != nil {
		p.Error = err.Error()
	} else {
		p.Served = &served.Replicas
	}
	if record, ok := d.Engine().Decisions().Record(l.Key); ok && !record.At.IsZero() {
		p.Target, p.Ready, p.Reasons = record.Decision.Replicas, record.View.Ready, reasons(&record)
	}
	return p
}

func reasons(r *engine.Record) []string {
	out := []string{}
	for _, reason := range r.Decision.Reasons.All() {
		out = append(out, fmt.Sprintf("%s %d -> %d %s", reason.Rule, reason.From, reason.To, explain.Reason(reason, r.Workload.Policy)))
	}
	return out
}

// WriteText prints the summary for a terminal.
func (s Summary) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s of virtual time, %.1f GPU hours, $%.2f, %d spot nodes lost\n", s.End.Sub(s.Start), s.GPUHours, s.Cost, s.Losses)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POLICY\tTARGET\tREADY\tREQUESTS\tON TIME\tTIME LIMIT\tP99 WAIT\tSTARTS\tAT ZERO")
	for _, p := range s.Policies {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%gs\t%.1fs\t%d\t%.1fh\n",
			p.Policy, p.Target, p.Ready, p.Requests, onTime(p.OnTime), p.Limit, p.P99, p.Starts, p.AtZero)
	}
	if len(s.Compared) > 0 {
		fmt.Fprint(t, "\nTHE SAME TRAFFIC, NODES AND PRICES\tCOST\tOF BOUND\tON TIME\tLOWEST FOR\tIDLE GPU TIME\tWITH\n")
	}
	for _, o := range s.Compared {
		fmt.Fprintf(t, "%s\t$%.2f\t%s\t%s\t%s\t%.0f%%\t%s\n", o.Name, o.Cost, s.ofBound(o.Cost), onTime(o.OnTime), o.Policy, 100*o.Idle,
			o.Words)
	}
	if s.LeastCost != nil {
		fmt.Fprintf(t, "lower bound\t$%.2f\t%s\t%.2f%%\teach workload\t0%%\tfull replicas without starts, at the lowest price: no autoscaler "+
			"that meets the SLO costs less\n", *s.LeastCost, s.ofBound(*s.LeastCost), 100*slo)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "ON TIME: requests that waited at most the time limit of their workload; the SLO is %g%% of each workload\n",
		100*slo)
	return err
}

// ofBound returns a cost as a multiple of the lower bound, or "-" if there is no bound.
func (s *Summary) ofBound(cost float64) string {
	if s.LeastCost == nil || *s.LeastCost <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", cost / *s.LeastCost)
}

// onTime returns a share of requests as a percentage, and marks a share that misses the SLO.
func onTime(share float64) string {
	if share < slo {
		return fmt.Sprintf("%.2f%% missed", 100*share)
	}
	return fmt.Sprintf("%.2f%%", 100*share)
}
