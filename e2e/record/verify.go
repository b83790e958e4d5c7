package record

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Recording is a temporary directory for the recording that `gpuscaler run --record` writes during a test.
type Recording struct{ dir string }

// NewRecording creates a temporary directory for the recording.
func NewRecording() (Recording, error) {
	dir, err := os.MkdirTemp("", "gpuscaler-recording-")
	return Recording{dir}, err
}

// File returns the value of --record.
func (r Recording) File() string { return filepath.Join(r.dir, "recording.jsonl") }

// Close deletes the recording.
func (r Recording) Close() { os.RemoveAll(r.dir) }

// Verify recomputes all recorded decisions with `gpuscaler replay --verify`. It returns an error if a recomputed decision differs in one
// byte. It also returns an error if the recording has fewer decisions for workloads or for capacity groups than the given minimums.
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
		return fmt.Errorf("%s: %d decisions and %d for capacity groups are too few", r.File(), decisions, nodes)
	}
	return nil
}
