package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Policies is the directory that gpuscaler reads.
type Policies struct{ Dir string }

// Put writes one file of policies, or replaces it, at once.
func (p Policies) Put(name, text string) error {
	path := filepath.Join(p.Dir, name+".yaml")
	// Not in the directory under a name that counts: a file half written is a
	// file with mistakes.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Remove takes a file of policies away.
func (p Policies) Remove(name string) error { return os.Remove(filepath.Join(p.Dir, name+".yaml")) }

// Write puts a file for the time of a test.
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

// Platform is the text of a PlatformConfig with that spec.
func Platform(spec string) string {
	return "apiVersion: gpuscaler.io/v1alpha1\nkind: PlatformConfig\nmetadata: {name: e2e}\nspec:\n" + indent(spec)
}

// Policy is the text of a ScalingPolicy for the Deployment of that name.
func Policy(namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: gpuscaler.io/v1alpha1\nkind: ScalingPolicy\nmetadata: {name: %s, namespace: %s}\nspec:\n  scaleTargetRef: {name: %s}\n%s",
		name, namespace, name, indent(spec))
}

func indent(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ") + "\n"
}
