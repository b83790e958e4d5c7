// Package wording formats text for the messages of policy problems: the value that was found, and the values that are allowed.
package wording

import (
	"fmt"
	"regexp"
	"strings"
)

// maxFound is the maximum number of characters of a found value in a message, so that a pasted file does not fill the log.
const maxFound = 60

// Quote returns a found value in quotes, shortened to maxFound characters, without credentials of URLs.
func Quote(s string) string {
	s = credentials.ReplaceAllString(s, "://***@")
	if r := []rune(s); len(r) > maxFound {
		s = string(r[:maxFound]) + "..."
	}
	return fmt.Sprintf("%q", s)
}

// credentials matches the credentials in a URL. Quote replaces them, because problems are written to logs and Events.
var credentials = regexp.MustCompile(`://[^/@]*@`)

// nearest returns the most similar of the words, or "" if none is similar.
func nearest(s string, words []string) string {
	best, least := "", max(2, len(s)/3)+1
	for _, w := range words {
		if strings.EqualFold(s, w) {
			return w
		}
		if d := distance(strings.ToLower(s), strings.ToLower(w)); d < least {
			best, least = w, d
		}
	}
	if len(s) <= 64 && best != "" && least < len(best) {
		return best
	}
	return containing(s, words)
}

// leastPart is the minimum length of a word that counts as a part of another word.
const leastPart = 4

// containing returns the only word that begins or ends with s, such as queryRef for query. It returns "" if there is none, or several.
func containing(s string, words []string) string {
	if len(s) < leastPart {
		return ""
	}
	found, part := "", strings.ToLower(s)
	for _, w := range words {
		if low := strings.ToLower(w); strings.HasPrefix(low, part) || strings.HasSuffix(low, part) {
			if found != "" {
				return ""
			}
			found = w
		}
	}
	return found
}

// distance returns the number of insertions, deletions, replacements and swaps of adjacent letters between two words (optimal string
// alignment).
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return len(a) + len(b)
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[(i+2)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}

// DidYouMean returns text that can be appended to a message, such as `, did you mean "maxReplicas"?`, with the most similar of the words.
// It returns "" if none is similar.
func DidYouMean(s string, words []string) string {
	if w := nearest(s, words); w != "" {
		return fmt.Sprintf(", did you mean %q?", w)
	}
	return ""
}

// List returns words as text: "a, b or c".
func List(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// NameAllowed describes the allowed names of objects.
const NameAllowed = "at most 63 lower-case letters, digits, '-' and '.', as in Kubernetes"
