package advise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/replay/tune"
)

// Document is the text of a ScalingPolicy. The method With returns the text with the settings of a candidate, such as minReplicas.
type Document struct {
	Name string // namespace/name
	text []byte
}

// NewDocument returns a policy for a Deployment of vLLM servers. It is for users who do not have a policy yet. Its signals are metrics of
// the workload's own pods. These metrics do not exist at zero replicas, so the controller refuses the policy with minReplicas 0.
func NewDocument(namespace, name string) Document {
	return Document{Name: namespace + "/" + name, text: []byte(`apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec:
  scaleTargetRef: {name: ` + name + `}
  minReplicas: 1
  maxReplicas: 1
  objective: {wait: 10s, percentile: 99}
  signals:
  - {name: running, type: vllm, metric: requestsRunning}
  - {name: waiting, type: vllm, metric: requestsWaiting}
`)}
}

// FindDocument returns the policy with the given NAMESPACE/NAME in the text of a file, without the other documents of the file.
func FindDocument(text []byte, name string) (Document, error) {
	for from := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		err := from.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return Document{}, fmt.Errorf("no ScalingPolicy %s in the file", name)
		case err != nil:
			return Document{}, err
		}
		if tune.SpecOf(&doc, name) == nil {
			continue
		}
		found, err := encode(&doc)
		return Document{Name: name, text: found}, err
	}
}

// With returns the text with the settings of a candidate. Comments are kept.
func (d Document) With(s Setting) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(d.text, &doc); err != nil {
		return nil, err
	}
	spec := tune.SpecOf(&doc, d.Name)
	if spec == nil {
		return nil, fmt.Errorf("no ScalingPolicy %s in the document", d.Name)
	}
	for _, field := range []struct {
		path  []string
		value string
	}{
		{[]string{"minReplicas"}, strconv.Itoa(int(s.MinReplicas))},
		{[]string{"maxReplicas"}, strconv.Itoa(int(s.MaxReplicas))},
		{[]string{"objective", "wait"}, short(s.Wait)},
		{[]string{"objective", "percentile"}, strings.TrimSuffix(percent(s.Percentile), "%")},
	} {
		if err := tune.Set(spec, field.path, field.value); err != nil {
			return nil, fmt.Errorf("spec.%s: %w", strings.Join(field.path, "."), err)
		}
	}
	removeOtherTimes(spec)
	return encode(&doc)
}

// removeOtherTimes removes the fields of an objective that must not be set together with its field wait.
func removeOtherTimes(spec *yaml.Node) {
	for i := 0; i+1 < len(spec.Content); i += 2 {
		if spec.Content[i].Value != "objective" {
			continue
		}
		o, kept := spec.Content[i+1], []*yaml.Node(nil)
		for k := 0; k+1 < len(o.Content); k += 2 {
			if !slices.Contains([]string{"timeToFirstToken", "interTokenLatency", "deadline"}, o.Content[k].Value) {
				kept = append(kept, o.Content[k], o.Content[k+1])
			}
		}
		o.Content = kept
	}
}

func encode(doc *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	to := yaml.NewEncoder(&out)
	to.SetIndent(2)
	if err := to.Encode(doc); err != nil {
		return nil, err
	}
	return out.Bytes(), to.Close()
}
