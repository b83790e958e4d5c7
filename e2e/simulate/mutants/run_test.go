package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const repository = "../../.."

// TestMutantsApply checks that the text that each mutant replaces occurs once in the code. Otherwise a change of the code could leave a
// mutant without effect.
func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		if _, err := m.source(); err != nil {
			t.Errorf("%s: %v", m.what, err)
		}
	}
}

// source returns the text of the file with the mutant.
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
		if chosen.MatchString(m.what) {
			t.Run(m.what, m.run)
		}
	}
}

func (m *mutant) run(t *testing.T) {
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
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", list, "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("%s: does not compile: %v\n%s", m.what, err, out)
	}
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
