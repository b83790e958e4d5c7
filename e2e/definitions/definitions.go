// Package definitions reads the CRDs of other projects from their Go modules and installs them.
package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

func init() { utilruntime.Must(apiextensionsv1.AddToScheme(stack.Scheme)) }

// Read returns the CRDs in the files of a Go module that match a pattern. The module has the form PATH@VERSION.
func Read(t *testing.T, module, files string) (crds []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	download.Dir = t.TempDir()
	text, err := download.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", module, err, text)
	}
	var at struct{ Dir string }
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(at.Dir, files))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no %s (%v)", module, files, err)
	}
	for _, path := range paths {
		crds = append(crds, ReadAll[apiextensionsv1.CustomResourceDefinition](t, path)...)
	}
	return crds
}

// ReadAll returns the documents of a YAML file.
func ReadAll[T any](t *testing.T, path string) (all []*T) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	documents := utilyaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		o := new(T)
		if err := documents.Decode(o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, o)
	}
}

// Install creates the CRDs that do not exist, and waits until the API server serves all of them.
func Install(t *testing.T, c client.Client, crds ...*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, crd := range crds {
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), crd.DeepCopy())); err != nil {
			t.Fatalf("%s: %v", crd.Name, err)
		}
	}
	for _, crd := range crds {
		stack.Eventually(t, time.Minute, crd.Name+" is served", func(ctx context.Context) error { return established(ctx, c, crd.Name) })
	}
}

func established(ctx context.Context, c client.Client, name string) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := c.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
		return err
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("%s is not established", name)
}
