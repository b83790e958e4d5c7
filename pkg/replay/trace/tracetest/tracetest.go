// Package tracetest contains helpers for the tests of all packages that read traces. Only tests import it.
package tracetest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// Gzipped returns the text compressed with gzip.
func Gzipped(tb testing.TB, text string) string {
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

// Refused checks that err is a *trace.Error with all fields set. Its line must be equal to the parameter line, and its message must
// contain the parameter found.
func Refused(tb testing.TB, err error, line int, found string) {
	tb.Helper()
	var e *trace.Error
	if !errors.As(err, &e) {
		tb.Fatalf("got error %v (%T), want a *trace.Error about %q", err, err, found)
	}
	if e.File == "" || e.Found == "" || e.Allowed == "" {
		tb.Errorf("the error leaves out the file, what was found, or what is allowed: %+v", e)
	}
	if e.Line != line {
		tb.Errorf("line %d, want %d: %v", e.Line, line, err)
	}
	if !strings.Contains(err.Error(), found) {
		tb.Errorf("got %q, want %q", err, found)
	}
}
