package cost

import (
	"cmp"
	"slices"
)

// Sum is what was paid in dollars, and what for. Cost = Busy + IdleByActivity + IdleByMemory + Unheld + Unmeasured.
type Sum struct {
	GPUHours         float64 `json:"gpuHours"`
	UnpricedGPUHours float64 `json:"unpricedGPUHours"` // of these; their cost is in none of the sums below
	Cost             float64 `json:"cost"`
	Busy             float64 `json:"busy"`
	IdleByActivity   float64 `json:"idleByActivity"`
	IdleByMemory     float64 `json:"idleByMemory"`
	Unheld           float64 `json:"unheld"`       // held by no pod: free, not cut into slices, committed and not running
	Unmeasured       float64 `json:"unmeasured"`   // whether it was busy is not known
	IdleGPUHours     float64 `json:"idleGPUHours"` // that were idle, priced or not: half of a GPU-hour at half of its activity
	// MeasuredGPUHours are those whose activity is known; ActivityGPUHours is their sum weighted by activity.
	MeasuredGPUHours float64 `json:"measuredGPUHours"`
	ActivityGPUHours float64 `json:"activityGPUHours"`
}

// Idle is what was paid for nothing, as far as it is known.
func (s *Sum) Idle() float64 { return s.IdleByActivity + s.IdleByMemory + s.Unheld }

// Activity is the mean activity over the GPU-hours for which it is known.
func (s *Sum) Activity() Fraction {
	if s.MeasuredGPUHours <= 0 {
		return Fraction{}
	}
	return Of(s.ActivityGPUHours / s.MeasuredGPUHours)
}

// Priced tells whether any of it has a price; where not, Cost says nothing.
func (s *Sum) Priced() bool { return s.GPUHours > s.UnpricedGPUHours || s.GPUHours == 0 }

// Add adds another sum.
func (s *Sum) Add(o *Sum) {
	s.GPUHours += o.GPUHours
	s.UnpricedGPUHours += o.UnpricedGPUHours
	s.Cost += o.Cost
	s.Busy += o.Busy
	s.IdleByActivity += o.IdleByActivity
	s.IdleByMemory += o.IdleByMemory
	s.Unheld += o.Unheld
	s.Unmeasured += o.Unmeasured
	s.IdleGPUHours += o.IdleGPUHours
	s.MeasuredGPUHours += o.MeasuredGPUHours
	s.ActivityGPUHours += o.ActivityGPUHours
}

// Use is what a GPU-hour went to.
type Use string

// The uses. Only Held has a namespace.
const (
	Held       Use = "held"                // by a pod
	Free       Use = "free"                // by no pod
	Unsliced   Use = "not cut into slices" // the rest of a GPU in MIG mode
	Unreported Use = "not reported"        // the machine was paid for, and no exporter spoke for the GPU
	Committed  Use = "committed, not run"  // paid for by a commitment, and no such instance ran
)

// Line is one line of the bill.
type Line struct {
	Cluster      string `json:"cluster,omitempty"`
	Team         string `json:"team,omitempty"`
	Namespace    string `json:"namespace,omitempty"`
	Workload     string `json:"workload,omitempty"`
	Owner        string `json:"owner,omitempty"`
	Use          Use    `json:"use"`
	InstanceType string `json:"instanceType"`
	CapacityType string `json:"capacityType"`
	Sum
}

type lineKey struct {
	team, namespace, workload, owner string
	use                              Use
	instanceType, capacityType       string
}

// Group is the sum over the lines that share a name.
type Group struct {
	Name string `json:"name"`
	Sum
}

// GroupBy sums the lines by what name makes of each, the dearest first. Lines of the empty name are left out.
func GroupBy(lines []Line, name func(*Line) string) []Group {
	index := map[string]int{}
	var out []Group
	for i := range lines {
		n := name(&lines[i])
		if n == "" {
			continue
		}
		at, ok := index[n]
		if !ok {
			at = len(out)
			index[n] = at
			out = append(out, Group{Name: n})
		}
		out[at].Add(&lines[i].Sum)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.GPUHours, a.GPUHours), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Total sums all lines.
func Total(lines []Line) (all Sum) {
	for i := range lines {
		all.Add(&lines[i].Sum)
	}
	return all
}
