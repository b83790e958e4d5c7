// Package commandtest runs commands and writes files for the tests of several command packages. Only tests import it.
package commandtest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
)

// Run executes the command root with the arguments args. It returns the exit code, standard output and standard error.
func Run(t *testing.T, root *cobra.Command, args ...string) (code int, out, problem string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = commandline.Run(t.Context(), root, args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// Write writes text to a file, and fails the test after an error.
func Write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// File writes a file in a new directory that is deleted after the test, and returns its path.
func File(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Write(t, path, []byte(text))
	return path
}
