package cost

import "time"

// Interval contains the machines that ran in one interval of time.
type Interval struct {
	At    time.Time // end of the interval
	Hours float64   // length of the interval in hours, > 0
	Nodes []Node
}

// Node is one machine with GPUs, with its price and measurements.
type Node struct {
	Name string
	Offer
	Pool     string // name of the NodePool; empty: the node does not belong to Karpenter
	Observed Price  // price from Karpenter's metric for offerings; the zero Price if there is none
	GPUs     int    // number of GPUs of the machine, with and without measurements; 0: unknown
	Devices  []Device
}

// Device is one GPU with measurements. A GPU without MIG has one Slice, whose ID and Profile are empty.
type Device struct {
	ID        string // UUID
	Model     string
	MemoryMiB float64 // total memory; 0: unknown
	Slices    []Slice
}

// Slice is a MIG instance, or a whole GPU without MIG.
type Slice struct {
	ID       string // the label GPU_I_ID of the MIG instance; empty: the whole GPU
	Profile  string // name of the MIG profile, for example "1g.10gb"
	Pods     []Pod  // several pods if they share the slice by time-slicing; empty: the slice is free
	Activity Fraction
	Memory   Fraction
	UsedMiB  float64 // used framebuffer; 0 if Memory is unknown
}

// Fraction is a number from 0 to 1 that can be unknown. The zero Fraction is unknown, which differs from a known 0.
type Fraction struct {
	Value float64
	Known bool
}

// Of returns a known fraction, limited to the range from 0 to 1. For NaN it returns the unknown fraction.
func Of(v float64) Fraction {
	if v != v {
		return Fraction{}
	}
	return Fraction{Value: min(max(v, 0), 1), Known: true}
}

// Pod is a pod with a GPU.
type Pod struct {
	Namespace, Name string
	Workload        string // name of the Deployment, Job or other object that controls the pod
	Owner           string // name of the user, from a label; empty: no label
	Notebook        bool   // the pod is an interactive session
}
