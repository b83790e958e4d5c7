package cost

import (
	"cmp"
	"slices"
)

// Sum contains GPU-hours and their cost in dollars. Cost = Busy + IdleByActivity + IdleByMemory + Unallocated + Unmeasured.
type Sum struct {
	GPUHours float64 `json:"gpuHours"`
	// the part of GPUHours without a known price; Cost and its parts do not include it
	UnpricedGPUHours float64 `json:"unpricedGPUHours"`
	Cost             float64 `json:"cost"`
	Busy             float64 `json:"busy"`
	IdleByActivity   float64 `json:"idleByActivity"`
	IdleByMemory     float64 `json:"idleByMemory"`
	Unallocated      float64 `json:"unallocated"` // cost of GPUs that no pod used: free, not partitioned, or committed and not running
	Unmeasured       float64 `json:"unmeasured"`  // cost of GPUs whose activity was not measured
	// idle GPU-hours, with and without a known price; one GPU-hour with an activity of 0.5 counts as 0.5 idle GPU-hours
	IdleGPUHours float64 `json:"idleGPUHours"`
	// MeasuredGPUHours are the GPU-hours with a known activity. ActivityGPUHours are the same hours multiplied by the activity.
	MeasuredGPUHours float64 `json:"measuredGPUHours"`
	ActivityGPUHours float64 `json:"activityGPUHours"`
}

// Idle returns the cost of idle GPUs. GPUs without measurements are not included.
func (s *Sum) Idle() float64 { return s.IdleByActivity + s.IdleByMemory + s.Unallocated }

// Activity returns the mean activity over the GPU-hours with a known activity.
func (s *Sum) Activity() Fraction {
	if s.MeasuredGPUHours <= 0 {
		return Fraction{}
	}
	return Of(s.ActivityGPUHours / s.MeasuredGPUHours)
}

// Priced reports whether the cost is known at least in part: at least one GPU-hour has a price, or there are no GPU-hours.
func (s *Sum) Priced() bool { return s.GPUHours > s.UnpricedGPUHours || s.GPUHours == 0 }

// Add adds each field of o to the same field of s.
func (s *Sum) Add(o *Sum) {
	s.GPUHours += o.GPUHours
	s.UnpricedGPUHours += o.UnpricedGPUHours
	s.Cost += o.Cost
	s.Busy += o.Busy
	s.IdleByActivity += o.IdleByActivity
	s.IdleByMemory += o.IdleByMemory
	s.Unallocated += o.Unallocated
	s.Unmeasured += o.Unmeasured
	s.IdleGPUHours += o.IdleGPUHours
	s.MeasuredGPUHours += o.MeasuredGPUHours
	s.ActivityGPUHours += o.ActivityGPUHours
}

// Use is the kind of use of a GPU-hour.
type Use string

// Uses of a GPU-hour. Only Allocated has a namespace.
const (
	Allocated     Use = "allocated"              // a pod used the GPU
	Free          Use = "free"                   // no pod used the GPU
	Unpartitioned Use = "not partitioned"        // the part of a GPU in MIG mode that belongs to no instance
	Unreported    Use = "not reported"           // the machine ran, but no exporter reported the GPU
	Committed     Use = "committed, not running" // charged because of a commitment, without a running instance
)

// Line contains the GPU-hours and the cost of one workload, owner and use on one instance type and capacity type.
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

// Group is the sum of the lines that have the same name, such as the same team.
type Group struct {
	Name string `json:"name"`
	Sum
}

// GroupBy adds up the lines that have the same name; the parameter name returns the name of a line. The most expensive group is first.
// Lines with an empty name are omitted.
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

// Total returns the sum of all lines.
func Total(lines []Line) (all Sum) {
	for i := range lines {
		all.Add(&lines[i].Sum)
	}
	return all
}
