// Package installation checks whether a cluster has what gpuscaler needs before it is installed, and whether an installed release works.
// `gpuscaler check` prints the results. The package changes no object: it creates access reviews, but the API server does not store them.
package installation

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

// Status is the status of a result.
type Status string

// The statuses. Warning means that gpuscaler works with a restriction, or that the check was not possible. Failed means that gpuscaler or
// one of its features does not work.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
)

// The checks. Their names must not change, because pipelines can refer to them.
const (
	Kubernetes      = "Kubernetes"
	ExternalMetrics = "ExternalMetrics" // the server that is registered for external.metrics.k8s.io
	GPUMetrics      = "GPUMetrics"      // the metrics of the DCGM exporter in Prometheus
	GPUNodes        = "GPUNodes"
	Karpenter       = "Karpenter"
	KEDA            = "KEDA"
	Permissions     = "Permissions" // permissions of the user that runs the command
	Controller      = "Controller"  // permissions of the ServiceAccount of the release
	Deployment      = "Deployment"
	Lease           = "Lease"
	APIService      = "APIService" // whether the APIService refers to this release and is available
	Policies        = "Policies"   // whether the policy documents are accepted
	CapacityGroups  = "CapacityGroups"
	Targets         = "Targets" // whether the targets are served
	Autoscalers     = "Autoscalers"
)

// Guides has the guide for each check, as a path in the repository with an anchor.
var Guides = map[string]string{
	Kubernetes:      "config/guides/hpa.md#fields",
	ExternalMetrics: "config/guides/hpa.md#another-server-has-the-registration",
	GPUMetrics:      "config/guides/costs.md",
	GPUNodes:        "config/guides/karpenter.md",
	Karpenter:       "config/guides/karpenter.md",
	KEDA:            "config/guides/keda.md#versions",
	Permissions:     "config/guides/security.md#which-permissions-commands-need",
	Controller:      "config/guides/security.md#which-permissions-commands-need",
	Deployment:      "config/guides/operation.md#install",
	Lease:           "config/runbooks/NoLeader.md",
	APIService:      "config/guides/hpa.md#another-server-has-the-registration",
	Policies:        "config/guides/teams.md#how-a-policy-reaches-the-controller",
	CapacityGroups:  "config/guides/nodes.md",
	Targets:         "config/guides/troubleshooting.md",
	Autoscalers:     "config/guides/hpa.md#fields",
}

// Result is the result of one check.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`          // one sentence without a final period
	Next   string `json:"next,omitempty"` // next step for the user; empty: no step is needed
	Guide  string `json:"guide"`
}

// Good returns the result of a check that found no problem.
func Good(check, format string, args ...any) Result {
	return Result{Check: check, Status: OK, Found: fmt.Sprintf(format, args...), Guide: Guides[check]}
}

// Bad returns the result of a check that found a problem. next is the next step for the user.
func Bad(check string, s Status, found, next string) Result {
	return Result{Check: check, Status: s, Found: found, Next: next, Guide: Guides[check]}
}

// Warn returns the result of a check that found a restriction, or that was not possible.
func Warn(check, found, next string) Result { return Bad(check, Warning, found, next) }

// Fail returns the result of a check that found a failure.
func Fail(check, found, next string) Result { return Bad(check, Failed, found, next) }

// Cluster reads a cluster for the checks.
type Cluster struct {
	Typed   kubernetes.Interface
	Objects dynamic.Interface
	// Namespace is the namespace of gpuscaler. UserNamespace is the namespace in which the user creates HPAs and ScaledObjects.
	Namespace, UserNamespace string
}

// unread returns the result of a check that was not possible because of an error.
func unread(check string, err error) Result {
	return Warn(check, "not checked: "+err.Error(), "repeat the check with more permissions, or when the API server responds")
}

// findingOf returns the finding whose check (of package objects) has the given name, or nil.
func findingOf(found []objects.ObjectFinding, check string) *objects.ObjectFinding {
	for i := range found {
		if found[i].Check == check {
			return &found[i]
		}
	}
	return nil
}
