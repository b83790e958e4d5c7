// Package chart renders the shipped Helm chart's templates, so that the
// end-to-end tests run under exactly the roles that people install. The
// templates under test use no function of Helm's own.
package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Release is what helm install would be told.
type Release struct {
	Name, Namespace string
	Values          map[string]any // laid over values.yaml, key by key at the top
}

// Apply creates, or updates, the objects of some templates (rbac.yaml,
// serviceaccount.yaml) as the administrator.
func Apply(ctx context.Context, c client.Client, r Release, templates ...string) error {
	for _, name := range templates {
		objects, err := Render(r, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, o := range objects {
			config := client.ApplyConfigurationFromUnstructured(o)
			if err := c.Apply(ctx, config, client.FieldOwner("helm"), client.ForceOwnership); err != nil {
				return fmt.Errorf("%s: %s %s: %w", name, o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// Render returns the objects of one template.
func Render(r Release, name string) ([]*unstructured.Unstructured, error) {
	root, err := directory()
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	text, err := os.ReadFile(filepath.Join(root, "values.yaml"))
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	maps.Copy(values, r.Values)
	parsed, err := template.ParseFiles(filepath.Join(root, "templates", name))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Option("missingkey=error").Execute(&out, map[string]any{
		"Release": map[string]any{"Name": r.Name, "Namespace": r.Namespace}, "Values": values,
	})
	if err != nil {
		return nil, err
	}
	return decode(&out)
}

func decode(r io.Reader) (objects []*unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := documents.Decode(o); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(o.Object) > 0:
			objects = append(objects, o)
		}
	}
}

// directory finds the chart beside this source file.
func directory() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("no source path")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "charts", "gpuscaler"), nil
}
