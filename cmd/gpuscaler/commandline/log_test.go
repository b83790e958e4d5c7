package commandline

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The library that reloads certificates must log JSON lines as gpuscaler does, and no stack trace. controller-runtime accepts a logger only
// once in a process, so this test sets it in a child process.
func TestLibrariesLogAsJSON(t *testing.T) {
	const child = "GPUSCALER_TEST_LOGGER"
	if os.Getenv(child) != "" {
		if _, err := NewLogger("info"); err != nil {
			t.Fatal(err)
		}
		log.Log.WithName("certwatcher").Info("Updated current TLS certificate")
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^TestLibrariesLogAsJSON$")
	command.Env = append(os.Environ(), child+"=1")
	var stderr strings.Builder
	command.Stderr = &stderr
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	if got := stderr.String(); !strings.HasPrefix(got, "{") || !strings.Contains(got,
		"Updated current TLS certificate") || !strings.Contains(got, "controller-runtime") {
		t.Errorf("logged %q", got)
	}
}
