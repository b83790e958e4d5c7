package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// commandsOf returns the shell commands of a workflow. It omits the steps that use an action of another repository.
func commandsOf(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../../.github/workflows/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct{ Steps []struct{ Run string } }
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, job := range workflow.Jobs {
		for _, s := range job.Steps {
			if s.Run != "" {
				commands = append(commands, strings.TrimSpace(s.Run))
			}
		}
	}
	return commands
}

// The release workflow runs the make targets of the dry run and of the publication and nothing else, so that a release cannot differ from
// the dry run.
func TestReleaseWorkflowPublishesTheDryRun(t *testing.T) {
	if got, want := commandsOf(t, "release.yml"), []string{"make release-dry-run", "make release-publish"}; !slices.Equal(got, want) {
		t.Errorf("the workflow runs %q, want %q", got, want)
	}
	if got := commandsOf(t, "ci.yml"); !slices.Contains(got, "make release-dry-run") {
		t.Errorf("CI runs %q, want `make release-dry-run` among them", got)
	}
	for target, subcommands := range map[string][]string{"release-dry-run": {"build", "check"}, "release-publish": {"publish"}} {
		recipe, err := exec.CommandContext(t.Context(), "make", "-C", "../..", "--no-print-directory", "-n", target).Output()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(recipe)) {
			_, arguments, _ := strings.Cut(line, " run ./cmd/release ")
			subcommand, _, _ := strings.Cut(arguments, " ")
			got = append(got, subcommand)
		}
		if !slices.Equal(got, subcommands) {
			t.Errorf("make %s runs %q, want %q:\n%s", target, got, subcommands, recipe)
		}
	}
}
