package printable_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

func TestCleanEscapesWhatIsNotPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"office, 08:00\n\tBüro 東京 🙂":      "office, 08:00\n\tBüro 東京 🙂",
		"a\x1b[2J\x1b[1;1Hok":             `a\u001b[2J\u001b[1;1Hok`,
		"a\rb\x00\x07\x7f\u0085":          `a\u000db\u0000\u0007\u007f\u0085`,
		"evil\u202egnp.exe\u2066\u200b":   `evil\u202egnp.exe\u2066\u200b`,
		"line\u2028separator\ufeff":       `line\u2028separator\ufeff`,
		"tag\U000e0041":                   `tag\U000e0041`,
		"no text \xff\xfe, but \ufffd is": `no text \xff\xfe, but ` + "\ufffd is",
	} {
		if got := printable.Clean(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		if printable.Is(text) != (text == want) {
			t.Errorf("%q: printable %t", text, printable.Is(text))
		}
	}
}

// The output must contain the complete text and only printable characters, and must not depend on how the text is divided into writes.
func TestWriterWritesWhatCleanReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text") + "\u202eé" + rapid.String().Draw(t, "more") + "."
		var out bytes.Buffer
		w := printable.NewWriter(&out)
		for rest := []byte(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("%d of %d bytes, %v", wrote, n, err)
			}
			rest = rest[n:]
		}
		if out.String() != printable.Clean(text) || !printable.Is(out.String()) || !utf8.ValidString(out.String()) {
			t.Errorf("%q became %q", text, out.String())
		}
	})
}

func TestJSONKeepsItsValue(t *testing.T) {
	name := "a\x1b\u202eb\u200b"
	text, err := json.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal([]byte(printable.Clean(string(text))), &back); err != nil || back != name {
		t.Errorf("%q, %v", back, err)
	}
}
