package cost

import "time"

// Interval has the machines of one interval of time.
type Interval struct {
	At    time.Time // the end
	Hours float64   // the length, > 0
	Nodes []Node
}

// Node is one machine with GPUs.
type Node struct {
	Name string
	Offer
	Pool     string // NodePool; empty: not a node of Karpenter
	Observed Price  // from Karpenter's metric for offerings; the zero Price if there is none
	GPUs     int    // of the machine, with and without measurements; 0: unknown
	Devices  []Device
}

// Device is one GPU with measurements. A whole GPU is one slice without a profile.
type Device struct {
	ID        string // UUID
	Model     string
	MemoryMiB float64 // total; 0: unknown
	Slices    []Slice
}

// Slice is a whole GPU, or a MIG instance of one.
type Slice struct {
	ID       string // GPU_I_ID; empty: the whole GPU
	Profile  string // "1g.10gb"
	Pods     []Pod  // several pods share it by time-slicing; empty: it is free
	Activity Fraction
	Memory   Fraction
	UsedMiB  float64 // of the framebuffer; 0 if Memory is unknown
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
	Workload        string // the Deployment, Job or other object that created it
	Owner           string // the user in a label, or empty
	Notebook        bool   // an interactive session
}
