package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// example returns a policy of config/examples, and the PlatformConfig of the examples.
func example(t *testing.T, name string) (*policy.Compiled, *policy.Platform) {
	t.Helper()
	s := store.New(store.Options{})
	if r := s.Load("../../config/examples/"); policy.Errors(r.Problems) > 0 {
		t.Fatal(policy.Render(r.Problems))
	}
	namespace, name, _ := strings.Cut(name, "/")
	c := s.Find(scaling.Key{Namespace: namespace, Name: name})
	if c == nil {
		t.Fatalf("no policy %s/%s", namespace, name)
	}
	return c, s.Platform()
}

// read returns the object in a file of testdata.
func read(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}
