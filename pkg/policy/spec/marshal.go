package spec

import (
	"bytes"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Marshal returns a ScalingPolicy as a YAML document. Decoding the document returns the same policy.
func Marshal(key scaling.Key, written *Policy) ([]byte, error) {
	type name struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	}
	document := struct {
		APIVersion string  `yaml:"apiVersion"`
		Kind       string  `yaml:"kind"`
		Metadata   name    `yaml:"metadata"`
		Spec       *Policy `yaml:"spec"`
	}{APIVersion, KindScalingPolicy, name{key.Name, key.Namespace}, written}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(document); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

// NewAmount parses a target or an activation target that is written as in a file, such as "10", "80%" or "500ms".
func NewAmount(text string) (*Amount, error) {
	var a Amount
	if err := a.Parse(text); err != nil {
		return nil, err
	}
	return &a, nil
}
