package policy

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A list in brackets over several lines reads from its last line on only: a mistake behind it is not looked for in its first.
func TestTheLineThatWasMistypedIsNamed(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"all is well", "a: 1\nb: 2\n", 3},
		{"behind brackets over lines", "a: [\n  1,\n  2,\n]\nb: 1\n c: 2\n", 5},
		{"behind a text over lines", "a: |\n  one\n  two\n\n  three\nb: 1\n\tc: 2\nd: 3\n", 6},
		{"in the first line", "a: @\nb: 1\n", 0},
		{"nothing", "", 1},
	} {
		if got := readable(bytes.SplitAfter([]byte(c.text), []byte("\n"))); got != c.want {
			t.Errorf("%s: %d lines can be read, want %d", c.name, got, c.want)
		}
	}
}

// Whatever the text, a line of it is named, and it is soon found.
func TestEveryMistypedTextHasALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([ \t]{0,4}[a-c"{}\[\]:,@|-]{0,6} ?[a-c]?\n){0,12}`).Draw(t, "text")
		lines := bytes.SplitAfter([]byte(text), []byte("\n"))
		if n := readable(lines); n < 0 || n > len(lines) {
			t.Fatalf("%d of %d lines", n, len(lines))
		}
	})
}
