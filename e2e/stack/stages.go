package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"
)

// StartupAnnotation on a pod is the time from its scheduling until it is Ready, such as "20s". It simulates a model server that loads its
// weights. A pod without the annotation is Ready immediately.
const StartupAnnotation = "e2e.gpuscaler.io/startup"

// RunTimeAnnotation on the pod of a Job is the time from its start until it completes, such as "20s". A pod without the annotation
// completes immediately.
const RunTimeAnnotation = "e2e.gpuscaler.io/run-time"

// HostProcess is the label of pods that package kubelet runs instead of kwok.
const HostProcess = "e2e.gpuscaler.io/host-process"

// writeStages writes the file with kwok's stages, which simulate nodes and pods, and returns its path. The pod stages use the delays in the
// pod's annotations and exclude pods with the label HostProcess.
func (s *Stack) writeStages() (path string, err error) {
	text := []string{nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease}
	for _, stage := range []string{podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete} {
		edited, err := editPodStage(stage)
		if err != nil {
			return "", err
		}
		text = append(text, edited)
	}
	path = filepath.Join(s.Dir, "stages.yaml")
	return path, os.WriteFile(path, []byte(strings.Join(text, "\n---\n")), 0o600)
}

// delays contains, by the name of a kwok stage, the pod annotation with the delay of the stage.
var delays = map[string]string{"pod-ready": StartupAnnotation, "pod-complete": RunTimeAnnotation}

func editPodStage(text string) (string, error) {
	var stage v1alpha1.Stage
	if err := yaml.UnmarshalStrict([]byte(text), &stage); err != nil {
		return "", fmt.Errorf("kwok's stage: %w", err)
	}
	stage.Spec.Selector.MatchExpressions = append(stage.Spec.Selector.MatchExpressions, v1alpha1.MatchExpression{
		JQ: &v1alpha1.SelectorJQ{Key: fmt.Sprintf(".metadata.labels[%q]", HostProcess), Operator: v1alpha1.SelectorOpDoesNotExist},
	})
	if annotation, delayed := delays[stage.Name]; delayed {
		stage.Spec.Delay = &v1alpha1.StageDelay{
			DurationMilliseconds: new(int64),
			DurationFrom: &v1alpha1.ExpressionFrom{JQ: &v1alpha1.ExpressionJQ{Expression: fmt.Sprintf(".metadata.annotations[%q]",
				annotation)}},
		}
	}
	edited, err := yaml.Marshal(stage)
	return string(edited), err
}
