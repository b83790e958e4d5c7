package evaluate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
)

// head is the report before any run.
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
		for _, w := range s.Warnings {
			out.Warnings = append(out.Warnings, s.Policy+": "+w)
		}
	}
	out.Policy = strings.Join(names, ", ")
	out.Traffic.Name, out.Traffic.Start, out.Traffic.Duration = fmt.Sprintf("%d traces", len(t)), c.start(), c.horizon().Seconds()
	if c.Spot != nil {
		out.Traffic.Spot = c.Spot.Name
	}
	return out
}

func (c *Case) subject() Subject {
	tr := c.Traffic
	out := Subject{
		Policy:  c.Policy.Workload.Key.String(),
		Traffic: Traffic{Name: tr.Name, Kind: string(c.recorded), Start: tr.Start, Duration: tr.Duration.Seconds()},
		SLO:     Objective{Share: c.SLO.Share, Wait: c.SLO.Wait.Seconds()}, Initial: c.initial(),
	}
	for range tr.All() {
		out.Traffic.Requests++
	}
	if c.Spot != nil {
		out.Traffic.Spot = c.Spot.Name
	}
	admission, warnings := c.admission()
	out.Admission, out.Warnings = &admission, warnings
	return out
}

// certified puts the bounds into the report; those of several workloads add up.
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
			sum.Relaxations = append(sum.Relaxations, "a sum over workloads, each of which is bounded on its own: none serves another's requests, and nothing that they share costs anything")
		}
		r.Bounds = append(r.Bounds, sum)
	}
}

// add is the bound of one workload more. One of which nothing need be served adds nothing, and is told; one that nobody can serve within
// its SLO leaves no bound of the whole. What all have in common is said once, and what is one's own with its name.
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
	b.Exact, b.Slot = b.Exact && o.Exact, max(b.Slot, o.Slot)
}

// relaxed are the relaxations of the workloads' bounds of a kind: once what all of them have, and with a workload's name what is its own.
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

// own is what the cases take for granted besides the world.
func (t trial) own() (out []simulator.Assumption) {
	c := &t[0]
	money := func(v float64) string { return "$" + number(v) + " an hour" }
	for i := range t {
		of := ""
		if len(t) > 1 {
			of = ", " + t[i].Policy.Workload.Key.String()
		}
		out = append(out, t[i].served(of)...)
	}
	if len(c.NodePools) == 0 {
		out = append(out, simulator.Assumption{Name: "GPU on demand", Value: money(c.Hourly), Source: "g6e.xlarge (L40S), us-east-1, 2026-07, unless flags say otherwise"})
	}
	for _, p := range c.NodePools {
		out = append(out, simulator.Assumption{Name: "NodePool " + p.Name, Value: fmt.Sprintf("%s, %d GPUs a node at %s, weight %d", p.CapacityType, p.GPUs, money(p.Hourly), p.Weight), Source: "the scenario"})
	}
	out = append(out,
		simulator.Assumption{Name: "end", Value: "runs stop with the traffic; a request that waits then counts as late if it is late already", Source: "the case"},
		simulator.Assumption{Name: "tuned baselines", Value: "searched on this very traffic", Source: "favors the baselines"})
	if len(t) > 1 {
		out = append(out, simulator.Assumption{Name: "together", Value: "tuned to each workload alone, then run together; traffic that names its start begins as far apart as it was recorded", Source: "the case"})
	}
	if c.Spot != nil {
		out = append(out, simulator.Assumption{Name: "spot GPU", Value: money(c.SpotHourly), Source: "Spot Advisor's savings, unless flags say otherwise"})
	}
	if len(c.pools()) > 0 {
		out = append(out, simulator.Assumption{Name: "bounds", Value: "every GPU at the lowest price, all the time, with the shortest cold start", Source: "the bound knows one kind of capacity"})
	}
	return out
}

// served is how one workload serves.
func (c *Case) served(of string) []simulator.Assumption {
	s := &c.Service
	service := "fixed " + s.Fixed.String()
	if s.Fixed <= 0 {
		service = s.Base.String() + " + " + s.Prefill.String() + " an input token + " + s.Decode.String() + " an output token"
	}
	out := []simulator.Assumption{
		{Name: "service time" + of, Value: service, Source: "an 8B model on one mid-size GPU, unless flags say otherwise"},
		{Name: "slots" + of, Value: number(float64(max(1, s.Slots))) + " requests at once", Source: "as above"},
		{Name: "GPUs per replica" + of, Value: number(float64(max(1, c.GPUs))), Source: "the case"},
		{Name: "start" + of, Value: number(float64(c.initial())) + " replicas ready, in every run and for the bound", Source: "the first ten minutes' need, unless flags say otherwise"},
	}
	for i := range c.limits().Signals {
		means := simulator.MeaningOf(c.Policy, i, c.Measures)
		out = append(out, simulator.Assumption{Name: "signal " + c.limits().Signals[i].Name + of, Value: means.String(), Source: means.Why})
	}
	return out
}
