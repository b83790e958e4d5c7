// Package migrate converts between policies and the objects that scale workloads: HPAs and KEDA's ScaledObjects. It does not read a
// cluster. An HPA or ScaledObject follows a policy if it sets exactly the replicas of the policy's target.
//
//   - HPA and ScaledObject return the manifest of an object that follows a policy exactly.
//   - Import returns a policy for an existing object, the manifest that replaces the object, and the manifest that restores it.
package migrate

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Names that an HPA or a ScaledObject uses to refer to a target of gpuscaler. Package cluster recognizes managed objects by these names.
const (
	metricName  = "gpuscaler-desired-replicas"
	policyLabel = "gpuscaler.io/policy"
	triggerName = "gpuscaler"
)

// object is a manifest of a Kubernetes object. In YAML, its fields have the order of the API documentation, and short maps are on one line.
type object struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata,flow"`
	Spec       any      `yaml:"spec"`
}

type metadata struct {
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace"`
}

type targetRef struct {
	APIVersion string `yaml:"apiVersion,omitempty"`
	Kind       string `yaml:"kind,omitempty"`
	Name       string `yaml:"name"`
}

type behavior struct {
	ScaleUp   direction `yaml:"scaleUp,flow"`
	ScaleDown direction `yaml:"scaleDown,flow"`
}

type direction struct {
	Tolerance string `yaml:"tolerance,omitempty"`
	Window    int    `yaml:"stabilizationWindowSeconds"`
	Policies  []rate `yaml:"policies,flow"`
}

type rate struct {
	Type          string `yaml:"type"`
	Value         int    `yaml:"value"`
	PeriodSeconds int    `yaml:"periodSeconds"`
}

// exactBehavior returns a behavior with which an HPA applies each target immediately, because the policy limits and stabilizes the target.
// With the default tolerance of 10%, the HPA would ignore a change from 10 to 11. Its default stabilization window of 300 s would delay
// each decrease a second time.
func exactBehavior(v Version) behavior {
	none := "0"
	if v.before(tolerance) {
		none = ""
	}
	return behavior{
		ScaleUp:   direction{Tolerance: none, Policies: []rate{{"Pods", 1000, 15}}},
		ScaleDown: direction{Tolerance: none, Policies: []rate{{"Percent", 100, 15}}},
	}
}

type hpaSpec struct {
	ScaleTargetRef targetRef `yaml:"scaleTargetRef,flow"`
	MinReplicas    int32     `yaml:"minReplicas"`
	MaxReplicas    int32     `yaml:"maxReplicas"`
	Metrics        []metric  `yaml:"metrics"`
	Behavior       behavior  `yaml:"behavior"`
}

type metric struct {
	Type     string   `yaml:"type"`
	External external `yaml:"external"`
}

type external struct {
	Metric identifier   `yaml:"metric"`
	Target metricTarget `yaml:"target,flow"`
}

type identifier struct {
	Name     string   `yaml:"name"`
	Selector selector `yaml:"selector,flow"`
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type metricTarget struct {
	Type         string `yaml:"type"`
	AverageValue string `yaml:"averageValue"`
}

// HPA returns the manifest of a HorizontalPodAutoscaler that follows a policy exactly. The HPA reads external.metrics.k8s.io, so gpuscaler
// must serve this API. A cluster has only one server of this API, so the manifest cannot be used in a cluster in which KEDA serves the API.
func HPA(c *policy.Compiled) (string, error) {
	w := &c.Workload
	notes := modeNotes(w)
	if w.Policy.MinReplicas == 0 {
		if w.Activate {
			notes = append(notes, "An HPA keeps at least 1 replica and is disabled at 0: gpuscaler itself scales 0 -> 1 and 1 -> 0 (activate: "+
				"true).")
		} else {
			notes = append(notes, "The policy has minReplicas: 0, and an HPA cannot scale from or to 0: add activate: true to the policy, or use "+
				"KEDA.")
		}
	}
	notes = append(notes, fmt.Sprintf("The metric has no fallback on purpose: without one the HPA keeps its replicas while no target is "+
		"served (mode: hold, an "+
		"outage). If the feature gate HPAExternalMetricFallback is on and a fallback is required, the only one that never scales down is "+
		"`fallback: {replicas: %d}` (maxReplicas) next to metric and target.", w.Policy.MaxReplicas))
	return manifest(notes, object{
		APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Metadata: metadata{w.Key.Name, w.Key.Namespace},
		Spec: hpaSpec{
			ScaleTargetRef: targetRef{w.Target.APIVersion, w.Target.Kind, w.Target.Name},
			MinReplicas:    max(w.Policy.MinReplicas, 1), MaxReplicas: w.Policy.MaxReplicas,
			Metrics: []metric{{Type: "External", External: external{
				Metric: identifier{metricName, selector{map[string]string{policyLabel: w.Key.Name}}},
				Target: metricTarget{"AverageValue", "1"},
			}}},
			Behavior: exactBehavior(0),
		},
	})
}

// modeNotes returns comments about the mode of the policy for the manifest.
func modeNotes(w *scaling.Workload) (notes []string) {
	if w.Mode == scaling.Advisory {
		notes = append(notes, "The policy is advisory: its target is not served, so this object would keep its replicas. Apply it when the "+
			"mode is auto.")
	}
	return notes
}

// manifest returns an object as YAML, with the notes as comments above it.
func manifest(notes []string, o object) (string, error) {
	var out bytes.Buffer
	for _, n := range notes {
		for i, line := range fold(n, 110) {
			out.WriteString(map[bool]string{true: "# ", false: "#   "}[i == 0] + line + "\n")
		}
	}
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(o); err != nil {
		return "", fmt.Errorf("manifest of %s/%s: %w", o.Metadata.Namespace, o.Metadata.Name, err)
	}
	return out.String(), encoder.Close()
}

// fold splits a text into lines. The parameter width is the maximum length of a line in bytes.
func fold(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
