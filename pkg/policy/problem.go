package policy

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with what somebody wrote: where it stands, what was found and what is allowed.
type Problem struct {
	File     string `json:"file,omitempty"`     // as it was named to Load, or the object: "ScaledObject team-chat/llama-chat"
	Line     int    `json:"line,omitempty"`     // 1-based; 0 where the text has no lines (a missing file)
	Column   int    `json:"column,omitempty"`   // 1-based
	Document string `json:"document,omitempty"` // "ScalingPolicy team-chat/llama-chat"; empty while the document has no name
	Field    string `json:"field,omitempty"`    // "spec.signals[2].target"
	Found    string `json:"found,omitempty"`
	Allowed  string `json:"allowed,omitempty"`
	Message  string `json:"message"`
	// Warning marks what works, though not as its author may think: it holds nothing back.
	Warning bool `json:"warning,omitempty"`
}

// String renders the problem on one line, as compilers do, so that editors jump to it.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		if p.Line > 0 && p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
		b.WriteString(": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Message)
	if p.Found != "" {
		b.WriteString("; found " + p.Found)
	}
	if p.Allowed != "" {
		b.WriteString("; allowed: " + p.Allowed)
	}
	if p.Document != "" {
		b.WriteString(" [" + p.Document + "]")
	}
	return b.String()
}

// Render returns the problems one a line, in the order of the files.
func Render(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// Errors counts the problems that are more than a warning.
func Errors(problems []Problem) (n int) {
	for _, p := range problems {
		if !p.Warning {
			n++
		}
	}
	return n
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// maxFound bounds how much of a foreign text is repeated in a problem: a whole file pasted into one value stays out of the log.
const maxFound = 60

// quote shows a found text, cut where it is long.
func quote(s string) string {
	s = credentials.ReplaceAllString(s, "://***@")
	if r := []rune(s); len(r) > maxFound {
		s = string(r[:maxFound]) + "..."
	}
	return fmt.Sprintf("%q", s)
}

// credentials in a URL are never repeated: problems go to logs and Events.
var credentials = regexp.MustCompile(`://[^/@]*@`)

// nearest returns the word of the list that somebody who wrote s may have meant, or "".
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
	if len(s) > 64 || best == "" || least >= len(best) {
		return ""
	}
	return best
}

// distance is the number of insertions, deletions, replacements and swaps of neighbours between two words
// (optimal string alignment).
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

func didYouMean(s string, words []string) string {
	if w := nearest(s, words); w != "" {
		return fmt.Sprintf(", did you mean %q?", w)
	}
	return ""
}

// list renders words for people: a, b or c.
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
