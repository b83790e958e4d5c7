package compile

import (
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/validation"
)

// byNamespace lists the types of exporters that are identified only by their namespace, without pod labels.
var byNamespace = []policy.SourceType{policy.SourceKueue, policy.ExporterKarpenter, policy.ExporterStateMetrics}

// exporters checks spec.exporters. It adds the default exporters of each type that spec.exporters does not contain, and stores the result
// in each data source of type prometheus.
func (c *platformCompiler) exporters() {
	var out []policy.Exporter
	declared := map[policy.SourceType]bool{}
	for i, s := range c.spec.Exporters {
		e := policy.Exporter{Type: policy.SourceType(s.Type), Namespace: s.Namespace, PodLabels: s.PodLabels}
		c.exporter(&e, decode.Spec.Key("exporters").At(i))
		declared[e.Type] = true
		if e.Type == policy.SourceDCGM && len(e.PodLabels) == 0 {
			out = append(out, policy.DCGMExporters(e.Namespace)...)
		} else {
			out = append(out, e)
		}
	}
	for _, e := range policy.DefaultExporters() {
		if !declared[e.Type] && c.teamOf(e.Namespace) == "" {
			out = append(out, e)
		}
	}
	for i := range c.out.DataSources {
		if d := &c.out.DataSources[i]; d.Type == policy.DataPrometheus {
			d.Exporters = out
		}
	}
}

func (c *platformCompiler) exporter(e *policy.Exporter, p *decode.Path) {
	if e.Namespace != "" && len(validation.IsDNS1123Label(e.Namespace)) > 0 {
		c.Reject(p.Key("namespace"), "is not a namespace", "at most 63 lower-case letters, digits and '-'")
	}
	if team := c.teamOf(e.Namespace); team != "" {
		c.Reject(p.Key("namespace"), "belongs to team "+team+", which could then write readings of every tenant", "a namespace of no team")
	}
	switch labels := len(e.PodLabels); {
	case slices.Contains(byNamespace, e.Type) && labels > 0:
		c.Reject(p.Key("podLabels"), "does not belong to type "+string(e.Type)+": its metrics are trusted by namespace", "omit the field")
	case labels == 0 && slices.Contains(policy.ModelServers(), e.Type):
		c.Reject(p.Key("podLabels"), "is missing: without labels, every pod of the namespace could report about other pods",
			"labels of the exporter's pods")
	}
}

// teamOf returns the name of the team to which a namespace belongs, or "" if the namespace belongs to no team.
func (c *platformCompiler) teamOf(namespace string) string {
	for _, t := range c.spec.Teams {
		if slices.Contains(t.Namespaces, namespace) {
			return t.Name
		}
	}
	return ""
}

// scrapeLabel checks the name of a label from which gpuscaler reads the scraped pod or its namespace. Prometheus must set the label,
// because a label that the pod itself exports could contain the name of another pod.
func (c *platformCompiler) scrapeLabel(name string, p *decode.Path) {
	switch {
	case name == "":
	case !model.LegacyValidation.IsValidLabelName(name):
		c.Reject(p, "is not a label name", "a label name as in Prometheus")
	case strings.HasPrefix(name, "exported_"):
		c.Reject(p, "is written by the scraped pod, so a pod could report about pods of another tenant",
			"the label that the scrape sets, such as namespace or pod; declare exporters in spec.exporters")
	}
}
