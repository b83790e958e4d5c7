package commandline

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// On a terminal no line is longer than the terminal is wide. Another program receives the whole text.
func TestTablesFitTheTerminal(t *testing.T) {
	rows := [][]string{{"POLICY", "TARGET", "REASON"}, {"team-chat/llama-chat", "4", "gateway 37 needs 4 replicas: 37 / 10 → 4"},
		{"a/b", "1", "ok"}}
	for _, width := range []int{0, 1, 10, 40, 80, 200} {
		var out bytes.Buffer
		if err := WriteTable(&out, width, rows); err != nil {
			t.Fatal(err)
		}
		whole := strings.Contains(out.String(), "37 / 10 → 4")
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("width %d: a line has %d characters: %q", width, n, line)
			}
		}
		if whole != (width == 0 || width >= 80) || strings.Count(out.String(), "\n") != 3 {
			t.Errorf("width %d:\n%s", width, &out)
		}
	}
}
