package scaling

import "time"

// Key names a policy and, with it, the number that is served: namespace and name.
type Key struct{ Namespace, Name string }

// String returns namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Target is the object whose replicas a policy decides: any kind with a /scale subresource.
type Target struct{ APIVersion, Kind, Name string }

// Mode says what happens with a decision.
type Mode uint8

const (
	// Auto decides, serves and acts.
	Auto Mode = iota
	// Advisory decides, explains and records; nothing is served and nothing is written.
	Advisory
	// Hold serves an error on every metric, which makes each HPA stay where it is.
	Hold
)

// String returns the word used in PlatformConfig's mode.
func (m Mode) String() string { return [...]string{"auto", "advisory", "hold"}[m] }

// Workload is one scaled workload as the loop sees it: who it is and the compiled policy that decides for it.
// It is built by package policy (files and annotations, merged) and never changed afterwards: a new version is a new value.
type Workload struct {
	Key    Key
	Target Target
	Policy *Policy
	Mode   Mode
	Group  string // capacity group; empty: no node is ever nudged for this workload
	Origin string // where the policy was written, for people: "chat.yaml@3f1c", "ScaledObject llama-chat"
	// Activate lets gpuscaler write /scale 0->1 and 1->0 itself, where no KEDA does it.
	Activate bool
}

// Operator is what a person said at 3 a.m. by annotation; it acts within a tick and ends by itself.
type Operator struct {
	Paused   bool      // the target stays at the current replicas
	Min, Max int32     // override bounds, -1 where unset; they win over the policy's schedules and signals, never over the platform's bounds
	Until    time.Time // end of the override; Min and Max are ignored from this instant on
}

// NoOperator is an Operator that says nothing.
var NoOperator = Operator{Min: -1, Max: -1}
