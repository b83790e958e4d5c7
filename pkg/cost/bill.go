package cost

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Bill contains the GPU-hours and the cost of GPUs in a period, by team, namespace, workload and other groups. Its JSON format is stable:
// later versions only add fields.
type Bill struct {
	Cluster    string          `json:"cluster,omitempty"`
	From       time.Time       `json:"from"`
	To         time.Time       `json:"to"`
	Step       float64         `json:"stepSeconds"`
	Total      Sum             `json:"total"`
	Teams      []Group         `json:"teams"`
	Namespaces []Group         `json:"namespaces"`
	Workloads  []Group         `json:"workloads"` // the name of a group is "namespace/workload"
	Capacity   []Group         `json:"capacityTypes"`
	Instances  []Group         `json:"instanceTypes"`
	Uses       []Group         `json:"uses"`
	Lines      []Line          `json:"lines"`
	Series     []Bucket        `json:"series"`
	Slices     []SliceProposal `json:"migAdvice"`
	Notebooks  []Notebook      `json:"idleNotebooks"`
	Unpriced   []Unpriced      `json:"unpriced"`
	Prices     []PriceSources  `json:"prices"`
	Notes      []string        `json:"notes"` // limits of the accuracy of the measurement
}

// Unpriced is an offer (an instance type with a capacity type) without a known price, and the number of GPU-hours on such instances.
type Unpriced struct {
	Offer
	GPUHours float64 `json:"gpuHours"`
}

// PriceSources contains one source of prices, such as the metric of Karpenter, and the number of GPU-hours whose price is from this source.
type PriceSources struct {
	From     string  `json:"from"`
	GPUHours float64 `json:"gpuHours"`
}

// Period describes the time range of a bill.
type Period struct {
	From, To time.Time
	Step     time.Duration
	Idle     time.Duration // a notebook is listed if it has been idle for at least this time
}

// Bill returns the sums of all intervals that were added to the ledger. The Period p only describes these intervals. Bill does not use it
// to select intervals.
func (l *Ledger) Bill(p Period) *Bill {
	lines := l.sorted()
	b := &Bill{
		Cluster: l.options.Cluster, From: p.From, To: p.To, Step: p.Step.Seconds(), Total: Total(lines), Lines: lines,
		Slices: l.SliceProposals(), Notebooks: l.IdleNotebooks(p.Idle),
	}
	b.Namespaces = GroupBy(lines, func(x *Line) string { return x.Namespace })
	b.Workloads = GroupBy(lines, func(x *Line) string {
		if x.Namespace == "" {
			return ""
		}
		return x.Namespace + "/" + x.Workload
	})
	if len(l.options.Teams) > 0 {
		b.Teams = GroupBy(lines, func(x *Line) string {
			if x.Use != Allocated {
				return ""
			}
			return cmp.Or(x.Team, "no team")
		})
	}
	b.Capacity = GroupBy(lines, func(x *Line) string { return cmp.Or(x.CapacityType, "unknown") })
	b.Instances = GroupBy(lines, func(x *Line) string { return cmp.Or(x.InstanceType, "unknown") })
	b.Uses = GroupBy(lines, func(x *Line) string { return string(x.Use) })
	for o, hours := range l.unpriced {
		b.Unpriced = append(b.Unpriced, Unpriced{o, hours})
	}
	slices.SortFunc(b.Unpriced, func(x, y Unpriced) int {
		return cmp.Or(cmp.Compare(y.GPUHours, x.GPUHours), cmp.Compare(x.InstanceType, y.InstanceType),
			cmp.Compare(x.CapacityType, y.CapacityType), cmp.Compare(x.Zone, y.Zone))
	})
	for _, from := range slices.Sorted(maps.Keys(l.sources)) {
		b.Prices = append(b.Prices, PriceSources{from, l.sources[from]})
	}
	for _, at := range slices.SortedFunc(maps.Keys(l.series), time.Time.Compare) {
		b.Series = append(b.Series, *l.series[at])
	}
	return b
}

// sorted returns the lines of the bill, the most expensive first.
func (l *Ledger) sorted() (lines []Line) {
	for k, s := range l.lines {
		lines = append(lines, Line{Cluster: l.options.Cluster, Team: k.team, Namespace: k.namespace, Workload: k.workload, Owner: k.owner,
			Use: k.use, InstanceType: k.instanceType, CapacityType: k.capacityType, Sum: *s})
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.GPUHours, a.GPUHours),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Use, b.Use),
			cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	return lines
}
