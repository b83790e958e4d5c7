package spotmarket

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// sharedData returns the path of a file in the directory shared/data next to the repository. It skips the test if the file does not exist.
func sharedData(tb testing.TB, path string) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			tb.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	file := filepath.Join(dir, "..", "shared", "data", path)
	if _, err := os.Stat(file); err != nil {
		tb.Skipf("skipped: the shared traces are not beside the project: %v", err)
	}
	return file
}

func gzipped(tb testing.TB, text string) string {
	tb.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.String()
}

// refused checks that err is an *trace.Error with all fields set. Its line must be equal to the parameter line, and its message must
// contain the parameter found.
func refused(tb testing.TB, err error, line int, found string) {
	tb.Helper()
	var e *trace.Error
	if !errors.As(err, &e) {
		tb.Fatalf("got error %v (%T), want an *trace.Error about %q", err, err, found)
	}
	if e.File == "" || e.Found == "" || e.Allowed == "" {
		tb.Errorf("the refusal leaves something out: %+v", e)
	}
	if e.Line != line {
		tb.Errorf("line %d, want %d: %v", e.Line, line, err)
	}
	if !strings.Contains(err.Error(), found) {
		tb.Errorf("got %q, want %q", err, found)
	}
}
