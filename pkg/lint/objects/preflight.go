package objects

import (
	"fmt"
	"strconv"
	"strings"
)

// Checks of the cluster as a whole.
const (
	ExternalMetricsTaken       = "ExternalMetricsTaken"       // another service serves external metrics
	ExternalMetricsUnavailable = "ExternalMetricsUnavailable" // the registered service does not respond
	OldKubernetes              = "KubernetesTolerance"        // an HPA cannot be configured to follow the target exactly
	OldKEDA                    = "KEDAVersion"
	OldKarpenter               = "KarpenterVersion"
)

// ownServicePart is a part of the name of every Service of gpuscaler. If gpuscaler serves the external metrics API, the name of the
// registered Service contains it.
const ownServicePart = "gpuscaler"

// ClusterFacts contains the facts about a cluster that the checks need.
type ClusterFacts struct {
	Version string // version of the API server, "v1.36.4"; empty if it is unknown
	Minor   int    // minor version of the API server; 0 if it is unknown
	// APIService is the name of the APIService of external metrics. Service is the Service in the spec of the APIService, as NAMESPACE/NAME.
	// Service is empty if there is no APIService or if its spec contains no Service. Available is the status of the APIService's condition
	// Available: "True", or "False: " and the reason. Detail is the message of this condition.
	APIService, Service, Available, Detail string
	KEDA, Karpenter                        string // versions of KEDA and Karpenter; empty if they are not installed or unknown
	NodePoolsServed                        bool   // the API server serves NodePools as karpenter.sh/v1
}

// Cluster returns the findings about the cluster as a whole, which affect all policies: another server of external metrics, and versions of
// Kubernetes, KEDA or Karpenter that are too old.
func Cluster(f ClusterFacts) (found []ObjectFinding) {
	add := func(object, check, what, fix string) { found = append(found, newFinding(object, check, what, fix)) }
	if f.Service != "" {
		object := "APIService " + f.APIService
		if f.Available != "True" {
			add(object, ExternalMetricsUnavailable, fmt.Sprintf("%s is registered for external metrics and does not respond (%s %s): every HPA "+
				"with an external metric keeps its replicas, and namespaces cannot be deleted", f.Service, f.Available, f.Detail),
				fmt.Sprintf("repair %s, or delete the APIService if it was left behind", f.Service))
		}
		if !strings.Contains(f.Service, ownServicePart) && !strings.Contains(f.Service, "keda") {
			add(object, ExternalMetricsTaken, f.Service+" serves external metrics, and a cluster has one such service: HPAs cannot read targets "+
				"from gpuscaler", "move its metrics behind KEDA or into policies, or use gpuscaler through KEDA's external scaler")
		}
	}
	if f.Minor > 0 && f.Minor < toleranceMinor {
		fix := "enable the feature gate HPAConfigurableTolerance of the API server and kube-controller-manager"
		if f.Minor < gateMinor {
			fix = "start kube-controller-manager with --horizontal-pod-autoscaler-tolerance=0.001"
		}
		add("Kubernetes "+f.Version, OldKubernetes,
			"an HPA ignores changes below a tenth, and this version has no tolerance per HPA by default", fix)
	}
	if major, minor, ok := majorMinor(f.KEDA); ok && (major < 2 || major == 2 && minor < 14) {
		add("KEDA "+f.KEDA, OldKEDA, "external-push scalers are tested with KEDA from 2.14 on", "upgrade KEDA")
	}
	if major, _, ok := majorMinor(f.Karpenter); ok && (major < 1 || !f.NodePoolsServed) {
		add("Karpenter "+f.Karpenter, OldKarpenter, "karpenter.sh/v1 is not served: NodePools are neither read nor overridden",
			"upgrade Karpenter to 1.x")
	}
	return found
}

// majorMinor parses a version such as "2.21.0" or "v1.15.0".
func majorMinor(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(parts[1])
	return major, minor, err == nil
}
