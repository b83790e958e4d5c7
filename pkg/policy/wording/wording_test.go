package wording

import (
	"strings"
	"testing"
)

// slowDistance computes the distance by its definition, with one recursive call for each possible last edit.
func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	n, m := len(a)-1, len(b)-1
	least := min(slowDistance(a[:n], b), slowDistance(a, b[:m])) + 1
	if replaced := slowDistance(a[:n], b[:m]); a[n] == b[m] {
		least = min(least, replaced)
	} else {
		least = min(least, replaced+1)
	}
	if n > 0 && m > 0 && a[n] == b[m-1] && a[n-1] == b[m] {
		least = min(least, slowDistance(a[:n-1], b[:m-1])+1)
	}
	return least
}

// words returns all words of the given letters up to the given length.
func words(letters string, length int) []string {
	all := []string{""}
	for from := 0; length > 0; length-- {
		shorter := all[from:]
		from = len(all)
		for _, w := range shorter {
			for _, letter := range letters {
				all = append(all, w+string(letter))
			}
		}
	}
	return all
}

func TestDistanceIsTheLeastNumberOfEdits(t *testing.T) {
	all := append(words("ab", 4), words("abc", 3)...)
	for _, a := range all {
		for _, b := range all {
			if got, want := distance(a, b), slowDistance(a, b); got != want {
				t.Errorf("distance of %q and %q: %d, want %d", a, b, got, want)
			}
		}
	}
}

// A word of any length may differ by two edits to be suggested, and a longer word by one edit for every three letters. Words of more than
// 64 letters are not compared, because a pasted text is not a typo.
func TestSuggestions(t *testing.T) {
	long := strings.Repeat("abcdefgh", 8)
	for _, c := range []struct {
		found string
		words []string
		want  string
	}{
		{"mod", []string{"mode"}, "mode"},
		{"MODE", []string{"node", "mode"}, "mode"},
		{"moed", []string{"mode"}, "mode"},
		{"mooed", []string{"mode"}, "mode"},
		{"xxde", []string{"mode"}, "mode"},
		{"xxxe", []string{"mode"}, ""},
		{"xy", []string{"ab"}, ""}, // every letter differs, so the word is not similar
		{"xxb", []string{"axb"}, "axb"},
		{"maxReplicasss", []string{"minReplicas", "maxReplicas"}, "maxReplicas"},
		{"xxxxeplicas", []string{"maxReplicas"}, "maxReplicas"}, // the third letter is correct, so three letters differ
		{"xxxxxplicas", []string{"maxReplicas"}, ""},
		{"abcdefghi", []string{"xyzdefghi"}, "xyzdefghi"},
		{"abcdefghi", []string{"xyzwefghi"}, ""},
		{"que", []string{"queryRef"}, ""},
		{"quer", []string{"queryRef"}, "queryRef"},
		{"Ref", []string{"queryRef"}, ""},
		{"yRef", []string{"queryRef"}, "queryRef"},
		{"eryR", []string{"queryRef"}, ""},
		{"replicas", []string{"minReplicas", "maxReplicas"}, ""},
		{"me.io/queue-depth", []string{"me.io/queue-source", "me.io/queue-depth-per-replica"}, "me.io/queue-depth-per-replica"},
		{"me.io/queue-sourc", []string{"me.io/queue-source", "me.io/queue-depth-per-replica"}, "me.io/queue-source"},
		{"me.io/xyz", []string{"me.io/abc", "me.io/def"}, ""}, // only the prefix is equal
		{"me.io/mod", []string{"me.io/mode", "other"}, "me.io/mode"},
		{"sqs", []string{strings.Repeat("x", 70)}, ""},
		{long[:63] + "x", []string{long}, long},
		{long, []string{long[:63] + "x"}, long[:63] + "x"},
		{long + "x", []string{long}, ""},
		{long, []string{long + "x"}, long + "x"}, // the word begins with the found text
		{"y" + long[1:], []string{long + "x"}, ""},
	} {
		want := ""
		if c.want != "" {
			want = `, did you mean "` + c.want + `"?`
		}
		if got := DidYouMean(c.found, c.words); got != want {
			t.Errorf("%q in %q: %s, want %s", c.found, c.words, got, want)
		}
	}
}

func TestQuoteShortensLongValues(t *testing.T) {
	for given, want := range map[string]string{
		strings.Repeat("ü", 60):      `"` + strings.Repeat("ü", 60) + `"`,
		strings.Repeat("ü", 61):      `"` + strings.Repeat("ü", 60) + `..."`,
		"http://u:p@h, redis://:x@r": `"http://***@h, redis://***@r"`,
	} {
		if got := Quote(given); got != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
}
