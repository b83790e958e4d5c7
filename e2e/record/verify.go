package record

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Recording is what a gpuscaler of a test writes down with `run --record`.
type Recording struct{ dir string }

// NewRecording makes room for one.
func NewRecording() (Recording, error) {
	dir, err := os.MkdirTemp("", "gpuscaler-recording-")
	return Recording{dir}, err
}

// File is what --record is given.
func (r Recording) File() string { return filepath.Join(r.dir, "recording.jsonl") }

// Close removes it.
func (r Recording) Close() { os.RemoveAll(r.dir) }

// Verify decides again all that was decided, with the product's own `replay --verify`: so many decisions for workloads, and of capacity
// groups, must have been there at least, all the same byte for byte.
func (r Recording) Verify(binary string, workloads, groups int) error {
	out, err := exec.Command(binary, "replay", "--verify", r.File()).CombinedOutput()
	fmt.Printf("%s", out)
	if err != nil {
		return fmt.Errorf("%s: %w", r.File(), err)
	}
	var decisions, ticks, nodes int
	for line := range strings.Lines(string(out)) {
		if n, _ := fmt.Sscanf(line, "%d decisions in %d ticks, and %d for capacity groups", &decisions, &ticks, &nodes); n >= 2 {
			break
		}
	}
	if decisions < workloads || nodes < groups {
		return fmt.Errorf("%s: %d decisions and %d for capacity groups prove nothing", r.File(), decisions, nodes)
	}
	return nil
}
