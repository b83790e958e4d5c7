// Package printable determines which text can be shown on a terminal. Names, labels and messages can be written by users and by other
// servers. An escape sequence in such a text can overwrite the lines above it, and a bidirectional control character can change the order
// of the text (CVE-2021-42574).
package printable

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rune reports whether a character can be shown on a terminal. This is true for printable characters, spaces, line feeds and tabs. It is
// false for control characters and for invisible format characters (bidirectional controls, zero-width characters, byte order marks).
func Rune(r rune) bool {
	return r == '\n' || r == '\t' || r != utf8.RuneError && !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp)
}

// Is reports whether every character of a text can be shown. It returns false if the text contains bytes that are not UTF-8.
func Is(text string) bool {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") || r != utf8.RuneError && !Rune(r) {
			return false
		}
	}
	return true
}

// Clean replaces each character that cannot be shown with an escape sequence, such as \u202e. In a JSON string, the escape sequence
// represents the same character.
func Clean(text string) string {
	if Is(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == utf8.RuneError || Rune(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// Writer cleans text, as Clean does, and writes it to another writer.
type Writer struct {
	to   io.Writer
	rest []byte // the first bytes of an incomplete character; the next Write contains the remaining bytes
}

// NewWriter returns a Writer that writes the cleaned text to another writer. It must not be used for binary output, because it replaces
// bytes that are not text.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write writes the cleaned text. It keeps the bytes of an incomplete character at the end of p for the next Write.
func (w *Writer) Write(p []byte) (int, error) {
	text := slices.Concat(w.rest, p)
	end := len(text)
	for back := 1; back < utf8.UTFMax && back <= end; back++ {
		if c := text[end-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[end-back:]) {
				end -= back
			}
			break
		}
	}
	w.rest = append([]byte(nil), text[end:]...)
	if _, err := io.WriteString(w.to, Clean(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(p), nil
}
