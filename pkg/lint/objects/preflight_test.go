package objects

import (
	"testing"
)

func TestVersionsAreParsed(t *testing.T) {
	for text, want := range map[string][2]int{"2.21.0": {2, 21}, "v1.15.0": {1, 15}, "1.15": {1, 15}} {
		if major, minor, ok := majorMinor(text); !ok || major != want[0] || minor != want[1] {
			t.Errorf("%q: %d.%d %v", text, major, minor, ok)
		}
	}
	for _, text := range []string{"", "latest", "main-abc", "sha"} {
		if _, _, ok := majorMinor(text); ok {
			t.Errorf("%q was parsed as a version", text)
		}
	}
}
