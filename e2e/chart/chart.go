// Package chart renders the shipped Helm chart with Helm's own engine, so that the end-to-end tests run with exactly the roles that
// users install.
package chart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Release contains the arguments of `helm install`.
type Release struct {
	Name, Namespace string
	Values          map[string]any // values that override values.yaml, as with --set
	APIs            []string       // additional API versions of the cluster, for example keda.sh/v1alpha1
}

// Apply creates or updates the objects of some templates (rbac.yaml, serviceaccount.yaml) as the administrator.
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
	rendered, err := Templates(r)
	if err != nil {
		return nil, err
	}
	text, ok := rendered[name]
	if !ok {
		return nil, fmt.Errorf("the chart has no template %s", name)
	}
	return decode(strings.NewReader(text))
}

// Templates returns the rendered templates, by their names below templates/.
func Templates(r Release) (map[string]string, error) {
	root, err := Directory()
	if err != nil {
		return nil, err
	}
	chart, err := loader.Load(root)
	if err != nil {
		return nil, err
	}
	// Without a cluster, Helm uses the Kubernetes version in these capabilities.
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}
	capabilities.APIVersions = append(capabilities.APIVersions, r.APIs...)
	given := map[string]any{"image": map[string]any{"repository": "gpuscaler"}} // a required value, because the chart has no default image
	maps.Copy(given, r.Values)
	options := chartutil.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, IsInstall: true}
	values, err := chartutil.ToRenderValues(chart, given, options, capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(chart, values)
	if err != nil {
		return nil, err
	}
	templates := map[string]string{}
	for name, text := range rendered {
		templates[strings.TrimPrefix(name, path.Join(chart.Name(), "templates")+"/")] = text
	}
	return templates, nil
}

// Flags returns those arguments of the Deployment's container that set the flags with the given names.
func Flags(r Release, names ...string) (args []string, err error) {
	rendered, err := Templates(r)
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(rendered["deployment.yaml"], "\n") {
		arg, _ := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if name, _, set := strings.Cut(arg, "="); set && slices.Contains(names, name) {
			args = append(args, arg)
		}
	}
	if len(args) != len(names) {
		return nil, fmt.Errorf("the Deployment has the arguments %q, want %q", args, names)
	}
	return args, nil
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

// Directory returns the path of the chart. It finds the chart relative to this source file.
func Directory() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("no source path")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "charts", "gpuscaler"), nil
}
