package policy

import (
	"cmp"
	"fmt"
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

func SortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
