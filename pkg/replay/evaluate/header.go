package evaluate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// head returns a report without runs and bounds: the workloads with their traffic, and the assumptions.
func (t trial) head() *Report {
	c := &t[0]
	a := c.assumptions()
	out := &Report{Schema: Schema, ColdStart: c.ColdStart.Seconds(), Seed: c.Seed, Assumptions: append(a.List(), t.own()...)}
	if len(t) == 1 {
		out.Subject = c.subject()
		return out
	}
	var names []string
	for i := range t {
		s := t[i].subject()
		out.Workloads = append(out.Workloads, s)
		names = append(names, s.Policy)
		out.Initial += s.Initial
		out.Traffic.Requests += s.Traffic.Requests
		out.Traffic.TrainRequests += s.Traffic.TrainRequests
		for _, w := range s.Warnings {
			out.Warnings = append(out.Warnings, s.Policy+": "+w)
		}
	}
	out.Policy = strings.Join(names, ", ")
	out.Traffic.Name, out.Traffic.Start, out.Traffic.Duration = fmt.Sprintf("%d traces", len(t)), c.start(), c.Horizon().Seconds()
	out.Traffic.Train = c.reportFrom().Seconds()
	out.Traffic.Spot = c.spotNames()
	return out
}

// spotNames returns the names of the spot traces, or "".
func (c *Case) spotNames() string {
	var names []string
	for _, s := range c.Spot {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

func (c *Case) subject() Subject {
	tr := c.Traffic
	out := Subject{
		Policy: c.Policy.Workload.Key.String(),
		Traffic: Traffic{Name: tr.Name, Kind: string(c.recorded), Start: tr.Start, Duration: tr.Duration.Seconds(),
			Train: c.reportFrom().Seconds()},
		SLO: Objective{Share: c.SLO.Share, Wait: c.SLO.Wait.Seconds()}, Initial: c.initial(),
	}
	for r := range tr.All() {
		if out.Traffic.Requests++; r.At < c.reportFrom() {
			out.Traffic.TrainRequests++
		}
	}
	out.Traffic.Spot = c.spotNames()
	admission, warnings := c.admission()
	out.Admission, out.Warnings = &admission, slices.Concat(warnings, c.targetWarnings(), c.idleActivity())
	return out
}

// certified stores the bounds of the least cost of each workload in the report. For several workloads, it also stores the sums of these
// bounds.
func (r *Report) certified(certificates []certificate) {
	for i, s := range r.Subjects() {
		s.Bounds = certificates[i].bounds
	}
	if len(r.Workloads) == 0 || len(certificates[0].bounds) == 0 {
		return
	}
	for kind := range certificates[0].bounds {
		sum := Bound{Kind: certificates[0].bounds[kind].Kind, Exact: true}
		for i := range certificates {
			sum.add(&certificates[i].bounds[kind], r.Workloads[i].Policy)
		}
		switch {
		case sum.Problem != "" || sum.Lower <= 0:
			sum = Bound{Kind: sum.Kind, Problem: cmp.Or(sum.Problem, strings.Join(sum.Relaxations, "; "))}
		default:
			sum.Gap = sum.Upper / sum.Lower
			sum.Relaxations = append(sum.Relaxations, r.relaxed(certificates, kind)...)
			sum.Relaxations = append(sum.Relaxations, "a sum over workloads with a separate bound for each: "+
				"no workload serves requests of another, and shared capacity is free")
		}
		r.Bounds = append(r.Bounds, sum)
	}
}

// add adds o, the bound of one workload, to the sum of the bounds. If no request of that workload has to be served, the sum does not change
// and its field Relaxations names the workload. If that workload has no bound for another reason, for example because it cannot meet its
// SLO, the sum gets a Problem and is not valid.
func (b *Bound) add(o *Bound, of string) {
	switch {
	case o.nothing:
		b.Relaxations = append(b.Relaxations, "no bound for "+of+": "+o.Problem)
		return
	case o.Problem != "" && b.Problem == "":
		b.Problem = of + ": " + o.Problem
	}
	b.Lower += o.Lower
	b.Upper += o.Upper
	b.Late += o.Late
	b.Allowed += o.Allowed
	b.Exact, b.TimeSlot = b.Exact && o.Exact, max(b.TimeSlot, o.TimeSlot)
}

// relaxed returns the relaxations of one kind of bound. A relaxation that applies to all workloads is listed once. Every other relaxation
// is listed with the name of its workload.
func (r *Report) relaxed(certificates []certificate, kind int) (out []string) {
	bounded, count := 0, map[string]int{}
	for i := range certificates {
		if b := &certificates[i].bounds[kind]; b.Problem == "" {
			bounded++
			for _, text := range b.Relaxations {
				count[text]++
			}
		}
	}
	for i := range certificates {
		for _, text := range certificates[i].bounds[kind].Relaxations {
			if count[text] < bounded {
				text = r.Workloads[i].Policy + ": " + text
			}
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// own returns the assumptions of the cases, in addition to the assumptions of the simulator.
func (t trial) own() (out []simulator.Assumption) {
	c := &t[0]
	money := func(v float64) string { return "$" + number(v) + " per hour" }
	add := func(name, value, source string) {
		out = append(out, simulator.Assumption{Name: name, Value: value, Source: source})
	}
	for i := range t {
		of := ""
		if len(t) > 1 {
			of = ", " + t[i].Policy.Workload.Key.String()
		}
		out = append(out, t[i].served(of)...)
	}
	if len(c.NodePools) == 0 {
		add("GPU on demand", money(c.Hourly), "g6e.xlarge (L40S), us-east-1, 2026-07, unless set by flags")
	}
	for _, p := range c.NodePools {
		value := fmt.Sprintf("%s, %d GPUs a node at %s, weight %d", p.CapacityType, p.GPUs, money(p.Hourly), p.Weight)
		add("NodePool "+p.Name, value, "the scenario")
	}
	add("end", "runs stop with the traffic; a request that waits at that time is late if its wait already exceeds the SLO", "the case")
	if c.HeldOut > 0 {
		add("report part", "a request counts in the part in which it arrives, and GPU time in the part in which it is used", "the case")
		add("tuned settings", "searched on the train part, for the policy as for the baselines", "the case")
	} else {
		add("tuned baselines", "searched on the same traffic", "favors the baselines")
	}
	if len(t) > 1 {
		add("together", "baselines are tuned to each workload separately and then run together; "+
			"traces with a start time keep their distance", "the case")
	}
	if len(c.Spot) > 0 {
		add("spot GPU", money(c.SpotHourly), "Spot Advisor's savings, unless set by flags")
	}
	if len(c.pools()) > 0 {
		add("bounds", "every GPU at the lowest price, with the shortest cold start", "the bound has one capacity type")
	}
	return out
}

// serviceTime returns the assumption about the service time of a request. It is fixed, recorded, or computed from the numbers of tokens,
// which may also be assumed.
func (c *Case) serviceTime(of string) simulator.Assumption {
	s := &c.Service
	out := simulator.Assumption{Name: "service time" + of, Source: "an 8B model on one mid-size GPU, unless set by flags"}
	if s.Fixed > 0 {
		out.Value = "fixed " + s.Fixed.String()
		return out
	}
	formula := s.Base.String() + " + " + s.Prefill.String() + " per input token + " + s.Decode.String() + " per output token"
	var all, recorded, unknown int
	var sum time.Duration
	for r := range c.Traffic.All() {
		all++
		switch {
		case r.Service > 0:
			recorded++
			sum += r.Service
		case r.InputTokens == trace.UnknownTokens || r.OutputTokens == trace.UnknownTokens:
			unknown++
		}
	}
	switch {
	case recorded == all && all > 0:
		out.Value, out.Source = "as recorded for each request, "+meanOf(sum, recorded)+" on average", "the traffic"
	case recorded > 0:
		out.Value = fmt.Sprintf("as recorded for %d of %d requests, %s on average; for the others %s", recorded, all,
			meanOf(sum, recorded), formula)
	default:
		out.Value = formula
	}
	if unknown > 0 {
		out.Value += fmt.Sprintf("; %d of %d requests have no token counts: %d input and %d output tokens assumed",
			unknown, all, s.Input, s.Output)
	}
	return out
}

func meanOf(sum time.Duration, n int) string {
	return (sum / time.Duration(n)).Round(time.Millisecond).String()
}

// served returns the assumptions about how one workload serves requests.
func (c *Case) served(of string) []simulator.Assumption {
	s, where := &c.Service, "in every run and for the bound"
	if c.HeldOut > 0 {
		where = "in every run; the bound of the report part begins with any number"
	}
	out := []simulator.Assumption{
		c.serviceTime(of),
		{Name: "slots" + of, Value: number(float64(max(1, s.Slots))) + " requests at once", Source: "as above"},
		{Name: "KV cache" + of, Value: number(float64(s.CacheTokens)) + " tokens", Source: "4000 tokens per slot, unless set by flags"},
		{Name: "GPUs per replica" + of, Value: number(float64(max(1, c.GPUs))), Source: "the case"},
		{Name: "start" + of, Value: number(float64(c.initial())) + " replicas ready, " + where,
			Source: "computed from the first ten minutes, unless set by flags"},
	}
	for i := range c.limits().Signals {
		means := measure.Of(c.Policy, i, c.Measures)
		out = append(out, simulator.Assumption{Name: "signal " + c.limits().Signals[i].Name + of, Value: means.String(), Source: means.Why})
	}
	return out
}
