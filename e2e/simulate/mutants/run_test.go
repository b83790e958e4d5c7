package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
)

const repository = "../../.."

// TestMutantsApply checks that the text that a mutant replaces occurs exactly once in the code. Otherwise a change of the code could leave
// a mutant without effect.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		if _, err := m.source(); err != nil {
			t.Errorf("%s: %v", m.what, err)
		}
	}
}

// source returns the text of the changed file.
func (m *mutant) source() (string, error) {
	text, err := os.ReadFile(filepath.Join(repository, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%q occurs %d times in %s, want once", m.old, n, m.file)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}

// TestMutants builds the simulation with each mutant and runs seeds until an invariant is violated. It takes about a minute for each
// mutant, so it runs only with SIMULATE_MUTANTS, a regular expression that selects mutants by their text.
func TestMutants(t *testing.T) {
	if os.Getenv("SIMULATE_MUTANTS") == "" {
		t.Skip("SIMULATE_MUTANTS is not set; make simulate-mutants sets it")
	}
	chosen := regexp.MustCompile(os.Getenv("SIMULATE_MUTANTS"))
	for _, m := range mutants {
		if chosen.MatchString(m.what) && m.seeds != byDepth {
			t.Run(m.what, m.run)
		}
	}
}

// TestInterleavingsFindMutants builds ../interleavings with each mutant that it must find, and explores until an invariant is violated.
// Like TestMutants, it runs only with SIMULATE_MUTANTS.
func TestInterleavingsFindMutants(t *testing.T) {
	if os.Getenv("SIMULATE_MUTANTS") == "" {
		t.Skip("SIMULATE_MUTANTS is not set; make simulate-mutants sets it")
	}
	chosen := regexp.MustCompile(os.Getenv("SIMULATE_MUTANTS"))
	for _, m := range mutants {
		if m.depth == 0 || !chosen.MatchString(m.what) {
			continue
		}
		t.Run(m.what, func(t *testing.T) {
			out, err := exec.Command(m.build(t, "../interleavings"), "-depth", fmt.Sprint(m.depth)).CombinedOutput()
			found := regexp.MustCompile(`(?m)^violated: (.*)\n.*\n  (\d+) actions`).FindStringSubmatch(string(out))
			if err == nil || found == nil {
				t.Fatalf("not found within %d actions: %s\n%s", m.depth, m.what, out)
			}
			fmt.Printf("found: %s: %s actions: %s\n", m.what, found[2], found[1])
		})
	}
}

// TestStoriesNeedTheirFix runs each story with its mutant. The run must violate the invariant that the story names. Like TestMutants, it
// runs only with SIMULATE_MUTANTS.
func TestStoriesNeedTheirFix(t *testing.T) {
	stories, err := schedule.Stories()
	if err != nil {
		t.Fatal(err)
	}
	chosen := regexp.MustCompile(os.Getenv("SIMULATE_MUTANTS"))
	for _, story := range stories {
		i := slices.IndexFunc(mutants, func(m mutant) bool { return m.what == story.Mutant })
		if story.Mutant != "" && i < 0 {
			t.Errorf("%s: no mutant is called %q", story.Name, story.Mutant)
		}
		if i < 0 || os.Getenv("SIMULATE_MUTANTS") == "" || !chosen.MatchString(story.Mutant) {
			continue
		}
		t.Run(story.Name, func(t *testing.T) {
			file := filepath.Join("..", "schedule", "stories", story.Name+".story")
			out, err := exec.Command(mutants[i].build(t, ".."), "-story", file).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "violated: "+story.Violates+"\n") {
				t.Errorf("with the mutant %q, the story does not violate %q:\n%s", story.Mutant, story.Violates, out)
			}
		})
	}
}

// build builds a command with the mutant and returns the path of the binary.
func (m *mutant) build(t *testing.T, command string) string {
	t.Helper()
	text, err := m.source()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, err := filepath.Abs(filepath.Join(repository, m.file))
	if err != nil {
		t.Fatal(err)
	}
	changed, list, binary := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulate")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{changed: text, list: string(overlay)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", list, "-o", binary, command).CombinedOutput(); err != nil {
		t.Fatalf("%s: does not compile: %v\n%s", m.what, err, out)
	}
	return binary
}

func (m *mutant) run(t *testing.T) {
	binary := m.build(t, "..")
	seeds, began := m.seeds, time.Now()
	if seeds == 0 {
		seeds = 100
	}
	out, err := exec.Command(binary, "-first", "1", "-seeds", fmt.Sprint(seeds), "-for", "1h", "-noshrink").CombinedOutput()
	found := regexp.MustCompile(`(?m)^seed (\d+): violated: (.*)$`).FindStringSubmatch(string(out))
	switch {
	case err != nil && found != nil:
		fmt.Printf("found: %s: seed %s: %s (%.0fs)\n", m.what, found[1], found[2], time.Since(began).Seconds())
	case err != nil:
		t.Errorf("%s: %v\n%s", m.what, err, out)
	default:
		t.Errorf("not found within %d seeds: %s", seeds, m.what)
	}
}
