package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one defect of a text that a user wrote. It contains the position of the defect, the found value and the allowed values.
type Problem struct {
	// File is the path of the file as passed to Load, or the object: "ScaledObject team-chat/llama-chat".
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`     // line number, from 1; 0 if the text has no lines, for example because a file is missing
	Column   int    `json:"column,omitempty"`   // column number, starting at 1
	Document string `json:"document,omitempty"` // kind and name: "ScalingPolicy team-chat/llama-chat"; empty if the document has no name
	Field    string `json:"field,omitempty"`    // path of the field: "spec.signals[2].target"
	Found    string `json:"found,omitempty"`
	Allowed  string `json:"allowed,omitempty"`
	Message  string `json:"message"`
	// Warning is true if the document is accepted, but its effect is probably not what its author intends.
	Warning bool `json:"warning,omitempty"`
	// Stack is set if a panic caused the problem. It is written only to the log.
	Stack string `json:"-"`
}

// String returns the problem on one line. The line begins with the file, line and column, as the messages of compilers do, so that an
// editor can open the file at this position.
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

// Render returns the problems as text, with one problem in each line.
func Render(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// Errors returns the number of problems that are not warnings.
func Errors(problems []Problem) (n int) {
	for _, p := range problems {
		if !p.Warning {
			n++
		}
	}
	return n
}

// SortProblems sorts problems by file, line and column.
func SortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
