package explain

import (
	reasons "github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// SurgeOf returns why a capacity group adds a replica to a workload before Karpenter evicts a replica, or why the group stopped adding it.
// The text names the node. SurgeOf returns "" if the group adds no replica. key is the namespace/name of the workload.
func SurgeOf(r *engine.GroupRecord, key string) string {
	for i := range r.Reasons {
		if reason := &r.Reasons[i]; reason.Rule == reasons.RuleSurge && reason.Name == key {
			return reason.Text(r.Group.Names())
		}
	}
	return ""
}
