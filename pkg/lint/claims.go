package lint

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// ClaimsIgnored is the name of the check in the findings that IgnoredClaims returns.
const ClaimsIgnored = "KarpenterIgnoresClaims"

// IgnoredClaims returns a finding for each workload of a capacity group whose pods request GPUs with resource claims (dynamic resource
// allocation). By default, Karpenter launches no nodes for such pods. The function claims reports whether the pod template of a workload
// has resourceClaims.
func IgnoredClaims(policies []*policy.Compiled, claims func(*scaling.Workload) bool) (all []Finding) {
	for _, c := range policies {
		w := &c.Workload
		if w.Group == "" || !claims(w) {
			continue
		}
		all = append(all, Finding{Severity: Warning, Check: ClaimsIgnored, About: "ScalingPolicy " + w.Key.String(),
			What: fmt.Sprintf("the pods of %s %s claim devices by dynamic resource allocation (DRA), and by default Karpenter ignores such pods",
				w.Target.Kind, w.Target.Name),
			Why: "a pod without a node gets none from Karpenter, and while it waits gpuscaler lowers no limit of capacity group " + w.Group,
			Fix: "set --ignore-dra-requests=false of Karpenter if its provider supports DRA, or request the GPUs as an extended resource such " +
				"as nvidia.com/gpu"})
	}
	return all
}
