package keda

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func unmarshal(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) }

func objects(apiVersion, kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind)
	return list
}

// ScaledObject returns a ScaledObject that has only a name, for reads and patches.
func ScaledObject(namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("keda.sh/v1alpha1")
	o.SetKind("ScaledObject")
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// Parse reads the documents of a YAML text.
func Parse(text string) (all []*unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		switch err := documents.Decode(o); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%w in\n%s", err, text)
		case len(o.Object) > 0:
			all = append(all, o)
		}
	}
}

// Apply applies the documents of a YAML text as `kubectl apply --server-side` does.
func Apply(ctx context.Context, c client.Client, text string, options ...client.ApplyOption) error {
	all, err := Parse(text)
	if err != nil {
		return err
	}
	for _, o := range all {
		options := append([]client.ApplyOption{client.FieldOwner("kubectl"), client.ForceOwnership}, options...)
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), options...); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
