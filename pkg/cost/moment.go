package cost

import "time"

// Moment is everything that was paid for over one step of time.
type Moment struct {
	At    time.Time // the step's end
	Hours float64   // its length, > 0
	Nodes []Node
}

// Node is one machine with GPUs.
type Node struct {
	Name string
	Offer
	Pool     string // NodePool; empty: not Karpenter's
	Observed Price  // what Karpenter's offering metric says; the zero Price where it says nothing
	GPUs     int    // of the machine, whether they report or not; 0: unknown
	Devices  []Device
}

// Device is one GPU that reported. A whole GPU is one slice without a profile.
type Device struct {
	ID        string // UUID
	Model     string
	MemoryMiB float64 // in all; 0: unknown
	Slices    []Slice
}

// Slice is a whole GPU, or a MIG instance of one.
type Slice struct {
	ID       string // GPU_I_ID; empty: the whole GPU
	Profile  string // "1g.10gb"
	Pods     []Pod  // that hold it; several share it in time; none: it is free
	Activity Fraction
	Memory   Fraction
	UsedMiB  float64 // of the framebuffer; 0 where Memory is unknown
}

// Fraction is a part of a whole, 0 to 1. The zero Fraction is unknown, which is not 0.
type Fraction struct {
	Value float64
	Known bool
}

// Of returns a known fraction, cut to 0..1; NaN is unknown.
func Of(v float64) Fraction {
	if v != v {
		return Fraction{}
	}
	return Fraction{Value: min(max(v, 0), 1), Known: true}
}

// Pod is who holds a GPU.
type Pod struct {
	Namespace, Name string
	Workload        string // the Deployment, Job, StatefulSet ... that made it
	Owner           string // the person, where a label names one
	Notebook        bool   // somebody's interactive session
}
