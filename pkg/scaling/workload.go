package scaling

// Key is the namespace and the name of a policy. They are also the namespace and the name of its external metric.
type Key struct{ Namespace, Name string }

// String returns namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Target is the object that is scaled: any kind with a scale subresource.
type Target struct{ APIVersion, Kind, Name string }

// Mode says what happens with a decision.
type Mode uint8

const (
	// Auto serves the targets and applies changes.
	Auto Mode = iota
	// Advisory means that decisions are computed, explained and recorded, but no metric is served and no object is changed.
	Advisory
	// Hold means that every request for a metric returns an error, so that each HPA keeps its replicas.
	Hold
)

// String returns the value of the PlatformConfig's mode.
func (m Mode) String() string { return [...]string{"auto", "advisory", "hold"}[m] }

// Workload is a scale target with its compiled policy. Package policy builds it from files and annotations. A Workload is not changed after
// it is built; an edit of the policy creates a new one.
type Workload struct {
	Key    Key
	Target Target
	Policy *Policy
	Mode   Mode
	Group  string // capacity group; empty: no NodePool is changed for this workload
	Origin string // where the policy is defined, for explanations: "chat.yaml@3f1c" or "ScaledObject llama-chat"
	// Activate allows gpuscaler to change the scale subresource from 0 to 1 and from 1 to 0, for a workload that KEDA does not scale.
	Activate bool
}
