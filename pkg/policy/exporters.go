package policy

import (
	"slices"
)

// Exporter selects pods that export metrics about other pods. Labels of the exported series contain the names of the other pods.
type Exporter struct {
	Type      SourceType
	Namespace string
	PodLabels map[string]string // labels that the exporter's pods have; empty: every pod of the namespace is selected
}

// ExporterNamespaces returns the namespaces in which exporters of a type are declared.
func ExporterNamespaces(all []Exporter, t SourceType) (namespaces []string) {
	for _, e := range all {
		if e.Type == t && !slices.Contains(namespaces, e.Namespace) {
			namespaces = append(namespaces, e.Namespace)
		}
	}
	return namespaces
}

// The default namespaces of NVIDIA's GPU operator and of Kueue. A default exporter is used only if the PlatformConfig declares no exporter
// of the same type and if its namespace belongs to no team.
const (
	dcgmNamespace  = "gpu-operator"
	kueueNamespace = "kueue-system"
)

// Types of exporters with data about nodes and prices for the cost report. Signals cannot have these types.
const (
	ExporterKarpenter    SourceType = "karpenter"
	ExporterStateMetrics SourceType = "kube-state-metrics"
)

// DCGMExporters returns two exporters of type dcgm in a namespace: the first has the pod labels of the GPU operator, and the second the pod
// labels of the DCGM exporter's Helm chart.
func DCGMExporters(namespace string) []Exporter {
	return []Exporter{
		{SourceDCGM, namespace, map[string]string{"app": "nvidia-dcgm-exporter"}},
		{SourceDCGM, namespace, map[string]string{"app.kubernetes.io/name": "dcgm-exporter"}},
	}
}

// DefaultExporters returns the default exporters of all types. The default exporters of a type are used only if the PlatformConfig declares
// no exporter of this type.
func DefaultExporters() []Exporter {
	return append(DCGMExporters(dcgmNamespace), Exporter{Type: SourceKueue, Namespace: kueueNamespace},
		Exporter{Type: ExporterKarpenter, Namespace: "karpenter"}, Exporter{Type: ExporterKarpenter, Namespace: "kube-system"},
		Exporter{Type: ExporterStateMetrics, Namespace: "monitoring"}, Exporter{Type: ExporterStateMetrics, Namespace: "kube-state-metrics"},
		Exporter{Type: ExporterStateMetrics, Namespace: "kube-system"})
}
