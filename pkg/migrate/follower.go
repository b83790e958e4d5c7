// Package migrate writes what stands beside a policy: the HPA or the ScaledObject that follows it exactly, and the way in from those
// that stand in a cluster already, with the way back. It turns text and values into text; nothing here reads a cluster.
//
//	follower.go, scaledobject.go, mirror.go   a policy -> the manifest that follows it
//	import.go, fromhpa.go, fromscaledobject.go   an HPA or a ScaledObject -> a policy, the manifest that replaces it, the way back
package migrate

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Names by which followers find the number, as package cluster looks for them.
const (
	metricName  = "gpuscaler-desired-replicas"
	policyLabel = "gpuscaler.io/policy"
	triggerName = "gpuscaler"
)

// object is a manifest as people read it: fields in the order of the API's own documents, short maps on one line.
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

// exactly is the behavior of a follower that takes each step at once and whole. gpuscaler did the smoothing already; with an HPA's own
// tolerance of a tenth, 10 -> 11 would never happen, and its window of 300 s would be waited for after ours.
func exactly(v Version) behavior {
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

// HPA returns the HorizontalPodAutoscaler that follows a policy exactly, where no KEDA owns external.metrics.k8s.io.
func HPA(c *policy.Compiled) (string, error) {
	w := &c.Workload
	notes := followerNotes(w)
	if w.Policy.MinReplicas == 0 {
		if w.Activate {
			notes = append(notes, "An HPA keeps at least 1 and sleeps at 0: gpuscaler itself takes the steps 0 -> 1 and 1 -> 0 (activate: true).")
		} else {
			notes = append(notes, "The policy has minReplicas: 0, and an HPA neither wakes from 0 nor goes there: write activate: true into the policy, or use KEDA.")
		}
	}
	notes = append(notes, fmt.Sprintf("The metric has no fallback on purpose: without one the HPA keeps its replicas while no target is served (mode: hold, an "+
		"outage). Where the feature gate HPAExternalMetricFallback is on and a fallback is required, the only one that lowers nothing is "+
		"`fallback: {replicas: %d}` (maxReplicas) beside metric and target.", w.Policy.MaxReplicas))
	return manifest(notes, object{
		APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Metadata: metadata{w.Key.Name, w.Key.Namespace},
		Spec: hpaSpec{
			ScaleTargetRef: targetRef{w.Target.APIVersion, w.Target.Kind, w.Target.Name},
			MinReplicas:    max(w.Policy.MinReplicas, 1), MaxReplicas: w.Policy.MaxReplicas,
			Metrics: []metric{{Type: "External", External: external{
				Metric: identifier{metricName, selector{map[string]string{policyLabel: w.Key.Name}}},
				Target: metricTarget{"AverageValue", "1"},
			}}},
			Behavior: exactly(0),
		},
	})
}

// followerNotes are those for every kind of follower.
func followerNotes(w *scaling.Workload) (notes []string) {
	if w.Mode == scaling.Advisory {
		notes = append(notes, "The policy is advisory: its number is not served, and whoever follows it stays where it is. Apply this when it is auto.")
	}
	return notes
}

// manifest renders an object below its notes.
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

// fold breaks a text into lines of at most so many characters.
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
