package policy

import (
	"slices"
)

// Exporter selects pods whose metrics name other pods by label.
type Exporter struct {
	Type      SourceType
	Namespace string
	PodLabels map[string]string // all of them; empty where the whole namespace counts
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

// Where NVIDIA's GPU operator and Kueue install themselves. A default applies only while the PlatformConfig declares no exporter of the
// type, and not where the namespace belongs to a team.
const (
	dcgmNamespace  = "gpu-operator"
	kueueNamespace = "kueue-system"
)

// What describes nodes and their prices for the cost report. No signal has these types.
const (
	ExporterKarpenter    SourceType = "karpenter"
	ExporterStateMetrics SourceType = "kube-state-metrics"
)

// dcgmExporters are the labels of the DCGM exporter's pods: those of the GPU operator, and those of the exporter's own chart.
func DCGMExporters(namespace string) []Exporter {
	return []Exporter{
		{SourceDCGM, namespace, map[string]string{"app": "nvidia-dcgm-exporter"}},
		{SourceDCGM, namespace, map[string]string{"app.kubernetes.io/name": "dcgm-exporter"}},
	}
}

// DefaultExporters returns the exporters of a PlatformConfig that declares none.
func DefaultExporters() []Exporter {
	return append(DCGMExporters(dcgmNamespace), Exporter{Type: SourceKueue, Namespace: kueueNamespace},
		Exporter{Type: ExporterKarpenter, Namespace: "karpenter"}, Exporter{Type: ExporterKarpenter, Namespace: "kube-system"},
		Exporter{Type: ExporterStateMetrics, Namespace: "monitoring"}, Exporter{Type: ExporterStateMetrics, Namespace: "kube-state-metrics"},
		Exporter{Type: ExporterStateMetrics, Namespace: "kube-system"})
}
