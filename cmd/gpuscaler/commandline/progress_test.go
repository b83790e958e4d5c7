package commandline

import (
	"bytes"
	"strings"
	"testing"
)

// A log must not contain the control characters of a status line.
func TestProgressIsShownOnlyOnATerminal(t *testing.T) {
	var log bytes.Buffer
	p := NewProgress(&log)
	p.Report("replay", 0.5)
	p.End()
	if text := log.String(); strings.ContainsAny(text, "\r\x1b") || !strings.HasSuffix(text, "cores\n") {
		t.Errorf("%q", text)
	}
}
