package scaling

import (
	"cmp"
	"strings"
)

// Key is the namespace and the name of a policy. Its external metric has the same namespace and name.
type Key struct{ Namespace, Name string }

// String returns namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare returns a negative number if k sorts before o, 0 if they are equal, and a positive number otherwise. Keys are sorted by
// namespace, then by name.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name))
}

// Target is the object that is scaled. It can have any kind with a scale subresource.
type Target struct{ APIVersion, Kind, Name string }

// Mode determines what gpuscaler does with its decisions.
type Mode uint8

const (
	// Auto means that gpuscaler serves the targets and changes objects.
	Auto Mode = iota
	// Advisory means that decisions are computed, explained and recorded, but no metric is served and no object is changed.
	Advisory
	// Hold means that every request for a metric returns an error, so that each HPA keeps its replicas.
	Hold
)

// String returns the mode as the PlatformConfig contains it.
func (m Mode) String() string { return [...]string{"auto", "advisory", "hold"}[m] }

// Workload is a scale target with its compiled policy. Package policy creates it from files and annotations. A Workload never changes: an
// edit of the policy creates a new Workload.
type Workload struct {
	Key    Key
	Target Target
	Policy *Policy
	Group  string // capacity group; if empty, no NodePool is changed for this workload
	Origin string // where the policy is defined, for explanations: "chat.yaml@3f1c" or "ScaledObject llama-chat"
	Mode   Mode
	// Activate permits gpuscaler to change the scale subresource from 0 to 1 and from 1 to 0. It is for a workload that KEDA does not scale.
	Activate bool
}
