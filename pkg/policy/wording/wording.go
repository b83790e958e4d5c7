// Package wording formats found values and allowed values for the messages of policy problems.
package wording

import (
	"fmt"
	"regexp"
	"strings"
)

// maxFound is the maximum number of characters of a found value in a message, so that a pasted file does not fill the log.
const maxFound = 60

// Quote returns a found value in quotes. It shortens the value to maxFound characters and removes credentials from URLs.
func Quote(s string) string {
	s = credentials.ReplaceAllString(s, "://***@")
	if r := []rune(s); len(r) > maxFound {
		s = string(r[:maxFound]) + "..."
	}
	return fmt.Sprintf("%q", s)
}

// credentials matches the credentials in a URL. Quote removes them, because problems are written to logs and Events.
var credentials = regexp.MustCompile(`://[^/@]*@`)

// nearest returns the word that is most similar to s, or "" if no word is similar. A prefix that ends with "/" and that s shares with all
// words, as the annotations of one project do, is not compared: it would make all words similar.
func nearest(s string, words []string) string {
	prefix := s[:strings.LastIndexByte(s, '/')+1]
	var rest []string
	for _, w := range words {
		if after, has := strings.CutPrefix(w, prefix); has {
			rest = append(rest, after)
		}
	}
	if len(rest) < len(words) {
		prefix, rest = "", words
	}
	if w := mostSimilar(s[len(prefix):], rest); w != "" {
		return prefix + w
	}
	return ""
}

// mostSimilar is like nearest, but compares the whole texts.
func mostSimilar(s string, words []string) string {
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

// leastPart is the minimum length of the text for which the function containing searches.
const leastPart = 4

// containing returns the only word that begins or ends with s, such as queryRef for query. It returns "" if no word or several words do.
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

// distance returns how many insertions, deletions, replacements and swaps of adjacent letters change one word into the other (optimal
// string alignment distance).
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

// DidYouMean returns text to be appended to a message that suggests the most similar word, such as `, did you mean "maxReplicas"?`. It
// returns "" if no word is similar.
func DidYouMean(s string, words []string) string {
	if w := nearest(s, words); w != "" {
		return fmt.Sprintf(", did you mean %q?", w)
	}
	return ""
}

// List returns the words as one text, such as "a, b or c".
func List(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// NameAllowed describes the allowed names of objects.
const NameAllowed = "at most 63 lower-case letters, digits, '-' and '.', as in Kubernetes"
