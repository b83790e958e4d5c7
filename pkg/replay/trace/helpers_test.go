package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func mustCollect(tb testing.TB, t *Trace) []Request {
	tb.Helper()
	all, err := t.Collect(0)
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func mustGenerate(tb testing.TB, p Profile) *Trace {
	tb.Helper()
	t, err := Generate(p)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// fingerprint returns a hash of every field of every request.
func fingerprint(t *Trace) string {
	h := sha256.New()
	for r := range t.All() {
		failed := int64(0)
		if r.Failed {
			failed = 1
		}
		var raw [32]byte
		for i, n := range []int64{int64(r.At), int64(r.InputTokens), int64(r.OutputTokens), failed} {
			binary.LittleEndian.PutUint64(raw[8*i:], uint64(n))
		}
		h.Write(raw[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// refused checks that err is an *Error with all fields set. The line of the error must be equal to the parameter line, and its message must
// contain the parameter found.
func refused(tb testing.TB, err error, line int, found string) {
	tb.Helper()
	var e *Error
	if !errors.As(err, &e) {
		tb.Fatalf("got error %v (%T), want an *Error about %q", err, err, found)
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
