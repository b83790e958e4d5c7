package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The flag --config names the PlatformConfig and policies in all commands, with the same meaning and shell completion. Previous names of
// this flag in single commands are rejected.
func TestConfigurationHasOneFlagInAllCommands(t *testing.T) {
	var with []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, old := range []string{"platform", "policy", "policy-file", "config-file"} {
			if c.Flags().Lookup(old) != nil {
				t.Errorf("%s has a flag --%s, want --config", c.CommandPath(), old)
			}
		}
		if f := c.Flags().Lookup("config"); f != nil && !c.Hidden {
			with = append(with, strings.TrimPrefix(c.CommandPath(), "gpuscaler "))
			if f.Value.Type() != "stringArray" || !strings.HasPrefix(f.Usage, "file or directory with the PlatformConfig and policies") {
				t.Errorf("%s: --config is a %s: %s", c.CommandPath(), f.Value.Type(), f.Usage)
			}
		}
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(rootCommand())
	slices.Sort(with)
	want := []string{"advise", "capacity plan", "lint", "manifests gitops", "manifests hpa", "manifests scaledobject", "replay", "report",
		"run", "tune", "validate"}
	if !slices.Equal(with, want) {
		t.Errorf("--config is a flag of %q, want %q", with, want)
	}
	for _, command := range with {
		// ":0" is the shell's own completion of files and directories.
		args := append(append([]string{"__complete"}, strings.Fields(command)...), "--config", "")
		if _, out, _ := runLine(t, args...); !strings.HasPrefix(out, ":0") {
			t.Errorf("%s --config is completed by %q, want files", command, out)
		}
	}
}

// The commands validate and lint accept paths of policies both as arguments and as values of --config.
func TestValidateReadsArgumentsAndTheFlagAlike(t *testing.T) {
	for _, args := range [][]string{
		{"validate", "../../config/examples/platform.yaml", "../../config/examples/office-hours.yaml"},
		{"validate", "--config", "../../config/examples/platform.yaml", "--config", "../../config/examples/office-hours.yaml"},
		{"validate", "../../config/examples/platform.yaml", "--config", "../../config/examples/office-hours.yaml"},
	} {
		if code, out, stderr := runLine(t, args...); code != 0 || !strings.HasPrefix(out, "ok: 2 documents") {
			t.Errorf("%v: exit code %d: %s%s", args, code, out, stderr)
		}
	}
	if code, _, stderr := runLine(t, "validate"); code != 1 || !strings.Contains(stderr, "a PATH, --config or --policies is required") {
		t.Errorf("without a path: exit code %d: %s", code, stderr)
	}
}
