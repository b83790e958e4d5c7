package explain

import (
	reasons "github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// SurgeOf returns why a capacity group adds a replica to a workload before Karpenter evicts one, or why it stopped. It names the node. It
// returns "" if the group does neither. The parameter key is namespace/name of the workload.
func SurgeOf(r *engine.GroupRecord, key string) string {
	for i := range r.Reasons {
		if reason := &r.Reasons[i]; reason.Rule == reasons.RuleSurge && reason.Name == key {
			return reason.Text(r.Group.Names())
		}
	}
	return ""
}
