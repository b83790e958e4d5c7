package policy

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/validation"
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

// byNamespace are the types whose metrics are trusted by namespace alone.
var byNamespace = []SourceType{SourceKueue, ExporterKarpenter, ExporterStateMetrics}

// engineTypes are the types of model servers.
var engineTypes = []SourceType{SourceVLLM, SourceSGLang, SourceTriton, SourceNIM, SourceRay, SourceTGI}

// dcgmExporters are the labels of the DCGM exporter's pods: those of the GPU operator, and those of the exporter's own chart.
func dcgmExporters(namespace string) []Exporter {
	return []Exporter{
		{SourceDCGM, namespace, map[string]string{"app": "nvidia-dcgm-exporter"}},
		{SourceDCGM, namespace, map[string]string{"app.kubernetes.io/name": "dcgm-exporter"}},
	}
}

// DefaultExporters returns the exporters of a PlatformConfig that declares none.
func DefaultExporters() []Exporter {
	return append(dcgmExporters(dcgmNamespace), Exporter{Type: SourceKueue, Namespace: kueueNamespace},
		Exporter{Type: ExporterKarpenter, Namespace: "karpenter"}, Exporter{Type: ExporterKarpenter, Namespace: "kube-system"},
		Exporter{Type: ExporterStateMetrics, Namespace: "monitoring"}, Exporter{Type: ExporterStateMetrics, Namespace: "kube-state-metrics"},
		Exporter{Type: ExporterStateMetrics, Namespace: "kube-system"})
}

// exporters checks the declared exporters and gives them to each prometheus data source.
func (c *platformCompiler) exporters() {
	var out []Exporter
	declared := map[SourceType]bool{}
	for i, s := range c.spec.Exporters {
		e := Exporter{SourceType(s.Type), s.Namespace, s.PodLabels}
		c.exporter(&e, specPath.key("exporters").at(i))
		declared[e.Type] = true
		if e.Type == SourceDCGM && len(e.PodLabels) == 0 {
			out = append(out, dcgmExporters(e.Namespace)...)
		} else {
			out = append(out, e)
		}
	}
	for _, e := range DefaultExporters() {
		if !declared[e.Type] && c.teamOf(e.Namespace) == "" {
			out = append(out, e)
		}
	}
	for i := range c.out.DataSources {
		if d := &c.out.DataSources[i]; d.Type == DataPrometheus {
			d.Exporters = out
		}
	}
}

func (c *platformCompiler) exporter(e *Exporter, p *yamlPath) {
	if e.Namespace != "" && len(validation.IsDNS1123Label(e.Namespace)) > 0 {
		c.bad(p.key("namespace"), "is not a namespace", "at most 63 lower-case letters, digits and '-'")
	}
	if team := c.teamOf(e.Namespace); team != "" {
		c.bad(p.key("namespace"), "belongs to team "+team+", which could then write the readings of every tenant", "a namespace of no team")
	}
	switch labels := len(e.PodLabels); {
	case slices.Contains(byNamespace, e.Type) && labels > 0:
		c.bad(p.key("podLabels"), "does not belong to type "+string(e.Type)+": its metrics are trusted by namespace", "nothing here")
	case labels == 0 && slices.Contains(engineTypes, e.Type):
		c.bad(p.key("podLabels"), "is missing: a model server's metrics are its own, and every pod of the namespace would count", "labels of the exporter's pods")
	}
}

// teamOf returns the name of the team that a namespace belongs to, empty for none.
func (c *platformCompiler) teamOf(namespace string) string {
	for _, t := range c.spec.Teams {
		if slices.Contains(t.Namespaces, namespace) {
			return t.Name
		}
	}
	return ""
}

// scrapeLabel checks a label that identifies the scraped pod.
func (c *platformCompiler) scrapeLabel(name string, p *yamlPath) {
	switch {
	case name == "":
	case !model.LegacyValidation.IsValidLabelName(name):
		c.bad(p, "is not a label's name", "a label name as in Prometheus")
	case strings.HasPrefix(name, "exported_"):
		c.bad(p, "is written by the scraped page, so every scraped pod could name another tenant's pod",
			"the label that the scrape itself sets, such as namespace or pod; declare exporters in spec.exporters")
	}
}
