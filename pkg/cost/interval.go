package cost

import "time"

// Interval contains the machines in one interval of time.
type Interval struct {
	At    time.Time // end of the interval
	Hours float64   // length of the interval in hours, > 0
	Nodes []Node
}

// Node is one machine with GPUs.
type Node struct {
	Name string
	Offer
	Pool     string // name of the NodePool; empty: the node does not belong to Karpenter
	Observed Price  // price from Karpenter's metric for offerings; the zero Price if there is none
	GPUs     int    // number of GPUs of the machine, with and without measurements; 0: unknown
	Devices  []Device
}

// Device is one GPU with measurements. A GPU that is not divided by MIG has one Slice without a profile.
type Device struct {
	ID        string // UUID
	Model     string
	MemoryMiB float64 // total memory; 0: unknown
	Slices    []Slice
}

// Slice is a whole GPU, or a MIG instance of one.
type Slice struct {
	ID       string // GPU_I_ID; empty: the whole GPU
	Profile  string // name of the MIG profile, for example "1g.10gb"
	Pods     []Pod  // several pods if they share the slice by time-slicing; empty: the slice is free
	Activity Fraction
	Memory   Fraction
	UsedMiB  float64 // used framebuffer; 0 if Memory is unknown
}

// Fraction is a number from 0 to 1. The zero Fraction is unknown, which is not 0.
type Fraction struct {
	Value float64
	Known bool
}

// Of returns a known fraction, limited to the range 0 to 1. NaN is unknown.
func Of(v float64) Fraction {
	if v != v {
		return Fraction{}
	}
	return Fraction{Value: min(max(v, 0), 1), Known: true}
}

// Pod is a pod with a GPU.
type Pod struct {
	Namespace, Name string
	Workload        string // name of the Deployment, Job or other object that created the pod
	Owner           string // name of the user in a label, or empty
	Notebook        bool   // the pod is an interactive session
}
