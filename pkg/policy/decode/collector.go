package decode

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"go.yaml.in/yaml/v3"
)

// Collector collects the problems of one text. For each problem it finds the line, the column and the value of the field.
type Collector struct {
	File       string
	LineOffset int    // number of lines in the file before the text
	Document   string // kind and name: "ScalingPolicy team-chat/llama-chat"; empty until they are known
	Root       *yaml.Node
	// Origins is used for a policy that is composed from annotations. It maps the path of a field, such as "spec.signals[1]", to the
	// annotation that contains the field. An element also applies to all fields below its path.
	Origins  map[string]Origin
	Problems []policy.Problem
	Decoded  int // number of problems that decoding found, which are the first ones in Problems; later checks found the other problems
}

// Origin is the annotation in which a part of a policy was written.
type Origin struct {
	Field string     // for Problem.Field, such as "metadata.annotations[gpuscaler.io/queue-source]"
	Text  string     // the whole value, if the annotation does not contain YAML
	Root  *yaml.Node // the YAML of the part, if the annotation contains YAML
}

// maxProblems is the maximum number of problems of one text. Each problem is logged and sent as an Event, and an annotation of 256 KiB can
// contain tens of thousands of mistakes.
const maxProblems = 100

// record adds problems. After maxProblems problems, it adds one more problem that says that the list is incomplete, and then drops all
// further problems.
func (f *Collector) record(all ...policy.Problem) {
	for _, problem := range all {
		if f.Full() {
			return
		}
		if len(f.Problems) == maxProblems {
			problem = policy.Problem{File: f.File, Document: f.Document, Line: problem.Line,
				Message: fmt.Sprintf("has further problems: only the first %d are listed", maxProblems), Allowed: "a text without the listed problems"}
		}
		f.Problems = append(f.Problems, problem)
	}
}

// Full reports whether further problems would be dropped. The caller then need not check the rest of the text.
func (f *Collector) Full() bool { return len(f.Problems) > maxProblems }

// Include records problems that another Collector found.
func (f *Collector) Include(all []policy.Problem) { f.record(all...) }

// Add records a problem in the field p. n is the node of the field, from which Add reads the line and the column. n may be nil.
func (f *Collector) Add(n *yaml.Node, p *Path, problem policy.Problem) {
	f.record(f.place(n, p, problem))
}

func (f *Collector) place(n *yaml.Node, p *Path, problem policy.Problem) policy.Problem {
	problem.File, problem.Document = f.File, f.Document
	if n != nil && n.Line > 0 {
		problem.Line, problem.Column = n.Line+f.LineOffset, n.Column
	}
	if problem.Field = p.String(); len(f.Origins) > 0 {
		if from, below, ok := f.writtenBy(p); ok {
			problem.Field = from.Field
			if rest := below.String(); rest != "" && from.Root != nil {
				problem.Field += "." + rest
			}
		}
	}
	return problem
}

// Reject records a problem in the field p, with the line, column and value of the field.
func (f *Collector) Reject(p *Path, message, allowed string) { f.report(p, message, allowed, false) }

// Warn records a warning about the field p.
func (f *Collector) Warn(p *Path, message, allowed string) { f.report(p, message, allowed, true) }

func (f *Collector) report(p *Path, message, allowed string, warning bool) {
	problem := f.ProblemAt(p, message, allowed)
	if problem.Warning = warning; !f.FollowsFromDecoding(problem.Field) {
		f.record(problem)
	}
}

// FollowsFromDecoding reports whether a problem in a field is only a consequence of a problem that decoding has recorded. If it returns
// true, the caller does not record the new problem, so that each mistake is reported only once.
func (f *Collector) FollowsFromDecoding(field string) bool {
	within := func(inner, outer string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for _, p := range f.Problems[:f.Decoded] {
		// A misspelled field name also makes the correct field missing. Both problems have the same cause, so only the misspelled name is
		// reported.
		sibling := p.Found == "" && field[:strings.LastIndexByte(field, '.')+1] == p.Field[:strings.LastIndexByte(p.Field, '.')+1]
		if sibling || within(p.Field, field) || within(field, p.Field) {
			return true
		}
	}
	return false
}

// ProblemAt returns a problem with the line, column and value of the field p. It does not record the problem.
func (f *Collector) ProblemAt(p *Path, message, allowed string) policy.Problem {
	problem := policy.Problem{Message: message, Allowed: allowed}
	root, rest := f.Root, p
	if from, below, ok := f.writtenBy(p); ok {
		if root, rest = from.Root, below; root == nil && from.Text != "" {
			problem.Found = wording.Quote(from.Text)
		}
	}
	n, exact := Locate(root, rest)
	if exact && n.Kind == yaml.ScalarNode {
		problem.Found = Describe(n)
	}
	return f.place(n, p, problem)
}

// writtenBy returns the element of Origins for the path p or for the nearest path above p. below is the rest of p after the path of that
// element. ok is false if Origins has no such element.
func (f *Collector) writtenBy(p *Path) (from Origin, below *Path, ok bool) {
	for up := p; up != nil && len(f.Origins) > 0; up = up.up {
		if from, ok = f.Origins[up.String()]; ok {
			return from, below, true
		}
		below = below.under(up)
	}
	return Origin{}, nil, false
}

// Recover converts a panic into a problem of the document that caused it, so that other documents are not affected. It sets *done to true
// to show that the recorded problems are complete. It must be called with defer. A panic is a defect of gpuscaler or of a library.
func (f *Collector) Recover(done *bool) {
	if fault := recover(); fault != nil {
		f.Problems = append(f.Problems, policy.Problem{File: f.File, Line: f.LineOffset + 1, Document: f.Document,
			Message: fmt.Sprintf("%s: %v", InternalError, fault), Allowed: "please report it with this text", Stack: string(debug.Stack())})
		*done = true
	}
}

// InternalError is the beginning of the message about a recovered panic.
const InternalError = "gpuscaler panicked while it processed this text"

// Failed reports whether the text has an error. Warnings do not count.
func (f *Collector) Failed() bool { return policy.Errors(f.Problems) > 0 }

// RejectText records a problem in the value of an annotation. found is that value.
func (f *Collector) RejectText(field, found, message, allowed string) {
	f.record(policy.Problem{File: f.File, Document: f.Document, Field: field, Message: message, Found: wording.Quote(found), Allowed: allowed})
}
