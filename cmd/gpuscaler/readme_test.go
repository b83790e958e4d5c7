package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// blocks returns the YAML blocks of the README.
func blocks(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```")
	for i := 1; i < len(parts); i += 2 {
		if block, is := strings.CutPrefix(parts[i], "yaml\n"); is {
			all = append(all, block)
		}
	}
	return all
}

// platformOfTheReadme writes the PlatformConfig to a file and returns its path. The PlatformConfig is a part of the chart values in
// README.md.
func platformOfTheReadme(t *testing.T) (path string) {
	t.Helper()
	for _, block := range blocks(t) {
		var values struct{ Platform map[string]any }
		if yaml.Unmarshal([]byte(block), &values) != nil || values.Platform == nil {
			continue
		}
		text, err := yaml.Marshal(map[string]any{"apiVersion": "gpuscaler.io/v1alpha1", "kind": "PlatformConfig",
			"metadata": map[string]any{"name": "readme"}, "spec": values.Platform})
		if err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(t.TempDir(), "platform.yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Fatal("the README has no values with a platform")
	return ""
}

func TestManifestsOfTheReadmeAreValid(t *testing.T) {
	var policies, hpas int
	platform := platformOfTheReadme(t)
	for _, block := range blocks(t) {
		switch {
		case strings.Contains(block, "apiVersion: gpuscaler.io/"):
			path := filepath.Join(t.TempDir(), "readme.yaml")
			if err := os.WriteFile(path, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if problems := store.Validate(platform, path); len(problems) > 0 {
				t.Errorf("%s", policy.Render(problems))
			}
			policies++
		case strings.Contains(block, "kind: HorizontalPodAutoscaler"):
			var h autoscalingv2.HorizontalPodAutoscaler
			if err := yaml.UnmarshalStrict([]byte(block), &h); err != nil {
				t.Error(err)
			}
			hpas++
		}
	}
	if policies == 0 || hpas == 0 {
		t.Errorf("%d policy blocks and %d HPAs: the README shows at least one of each", policies, hpas)
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, c := range rootCommand().Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if len(c.Long) < 100 || c.Example == "" || c.Short == "" {
			t.Errorf("%s: the help needs a short line, a description and an example", c.Name())
		}
		var out bytes.Buffer
		c.SetOut(&out)
		if err := c.Help(); err != nil || !strings.Contains(out.String(), "Usage:") {
			t.Errorf("%s --help: %v\n%s", c.Name(), err, out.String())
		}
	}
}

// A word in backticks in the description of a flag becomes the name of its value in the help. A command or a sentence in backticks would
// appear there by mistake.
func TestNamesOfFlagValuesAreOneWord(t *testing.T) {
	names := regexp.MustCompile(`^[A-Za-z0-9=:]*$`)
	var check func(c *cobra.Command)
	checked := 0
	check = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			checked++
			if name, usage := pflag.UnquoteUsage(f); !names.MatchString(name) || strings.Contains(usage, "`") {
				t.Errorf("%s --%s: the value is shown as %q", c.CommandPath(), f.Name, name)
			}
		})
		for _, child := range c.Commands() {
			check(child)
		}
	}
	if check(rootCommand()); checked < 50 {
		t.Errorf("only %d flags are checked", checked)
	}
}
