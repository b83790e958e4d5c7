package objective

import "time"

// Kind is the kind of time that an objective limits.
type Kind uint8

// Values of Kind.
const (
	Wait              Kind = iota // the time from the arrival of a request until a replica starts to process it
	TimeToFirstToken              // the time from the arrival of a request until its first token
	InterTokenLatency             // the time between two tokens of a response
	Deadline                      // the time from the arrival of a job until it is complete
)

func (k Kind) String() string {
	return [...]string{"wait", "timeToFirstToken", "interTokenLatency", "deadline"}[min(k, Deadline)]
}

// Objective is an SLO: Percentile percent of the work is served within Limit, measured over Window.
type Objective struct {
	Kind       Kind
	Limit      time.Duration
	Percentile float64 // above 0 and below 100
	// Window is the time over which the share of late work is measured. 0 means DefaultWindow.
	Window time.Duration
	// Capacity is the work per second that a replica serves, if the user sets it. 0 means that the model learns it.
	Capacity float64
	// ColdStart is the time from the decision to a ready replica, if the user sets it. 0 means that the model learns it.
	ColdStart time.Duration
}

// allowed returns the share of the work that may be late, 0..1.
func (o *Objective) allowed() float64 { return max(1-o.Percentile/100, 1e-6) }

// window returns the time over which the share of late work is measured.
func (o *Objective) window() time.Duration {
	if o.Window <= 0 {
		return DefaultWindow
	}
	return o.Window
}

// DefaultWindow is one day, because the load of most workloads repeats daily. All work that may be late in a day can then be late in the
// hours in which this saves the most replicas.
const DefaultWindow = 24 * time.Hour

// Limits are the bounds of a plan. Max must not be less than Min.
type Limits struct{ Min, Max int32 }

// Value is one measured number, with the time of its measurement.
type Value struct {
	V     float64
	At    time.Time // when the sample was taken; values with the same time are from the same sample
	Known bool      // false: missing, stale or not usable. A missing value is not 0.
	// Window is the time before At of which V is a mean, for example one minute for rate(x[1m]). 0 means the time since the previous sample.
	Window time.Duration
}

// Evidence contains what was measured about the workload in one tick. All fields count work in the same unit, requests or tokens.
type Evidence struct {
	Arrivals Value // work that arrived per second
	Served   Value // work that was completed per second
	Queued   Value // work that waits for a replica
	InFlight Value // work that replicas process
	Busy     Value // mean share of time in which the GPUs of the ready replicas were busy, 0..1
	Latency  Value // the measured percentile of the time that the objective limits, in seconds
	Late     Value // share of the work since the last sample that was not served within the limit, 0..1; only if a histogram is measured

	Ready int32 // ready replicas
	// Starting contains the age of each replica that was requested and is not ready, in any order. Observe does not keep the slice.
	Starting []time.Duration
	// ColdStarts are the cold starts that ended since the last tick. Observe does not keep the slice.
	ColdStarts []ColdStart
	// Version identifies what determines the capacity of a replica: the image of the server and the GPU type. If it changes, the capacity is
	// learned again. 0 means that it is unknown.
	Version uint64
}

// Phase is a part of a cold start.
type Phase uint8

// Values of Phase, in the order of time.
const (
	NodeLaunch     Phase = iota // from the decision to a launched node
	Registration                // from the launch of the node until the node has joined the cluster
	GPUAllocatable              // from joining the cluster until the node reports its GPUs
	ImagePull                   // from the assignment of the pod to a node until its container has started, including init containers
	ModelLoad                   // from the start of the container until the replica is ready
	Phases                      // the number of phases
)

func (p Phase) String() string {
	return [...]string{"node launch", "registration", "GPU allocatable", "image pull", "model load", "unknown"}[min(p, Phases)]
}

// ColdStart is one completed start of a replica.
type ColdStart struct {
	Total time.Duration // from the decision to the ready replica
	// Node is the time from the decision until the pod was assigned to a node. 0 means that it is unknown, or that a node with free GPUs
	// existed.
	Node  time.Duration
	Phase [Phases]time.Duration // 0: unknown, or not part of this start
}
