package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Policies is the directory of policies that gpuscaler reads.
type Policies struct{ Dir string }

// Put writes or replaces one policy file atomically.
func (p Policies) Put(name, text string) error {
	path := filepath.Join(p.Dir, name+".yaml")
	// Write a file that gpuscaler ignores, and rename it. gpuscaler would report an error for a partly written file.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Remove deletes a policy file.
func (p Policies) Remove(name string) error { return os.Remove(filepath.Join(p.Dir, name+".yaml")) }

// Write writes a file and deletes it at the end of the test.
func (p Policies) Write(t testing.TB, name, text string) {
	t.Helper()
	if err := p.Put(name, text); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Remove(name); err != nil {
			t.Error(err)
		}
	})
}

// Platform returns a PlatformConfig with the given spec.
func Platform(spec string) string {
	return "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: e2e}\nspec:\n" + indent(spec)
}

// Policy returns a ScalingPolicy for the Deployment with the given name.
func Policy(namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: %s, namespace: %s}\nspec:\n  "+
		"scaleTargetRef: {name: %s}\n%s",
		name, namespace, name, indent(spec))
}

func indent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ") + "\n"
}
