package decode

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"go.yaml.in/yaml/v3"
)

// Collector collects the problems of one text. It finds the line, column and value of the field that a problem is about.
type Collector struct {
	File       string
	LineOffset int    // number of lines of the file before the text
	Document   string // kind and name: "ScalingPolicy team-chat/llama-chat"; empty until they are known
	Root       *yaml.Node
	// Origins is used for a policy that is composed from annotations. It maps the path of a part of the policy, such as "spec.signals[1]",
	// to the annotation that contains the part. An entry also applies to all fields below the path.
	Origins  map[string]Origin
	Problems []policy.Problem
	Decoded  int // number of problems that decoding found; the others were found later
}

// Origin is the place where a part of a policy was written.
type Origin struct {
	Field string     // the field, for example "metadata.annotations[gpuscaler.io/queue-source]"
	Text  string     // the whole value, if the annotation does not contain YAML
	Root  *yaml.Node // the YAML of the part, if the annotation contains YAML
}

// maxProblems is the greatest number of problems of one text. Each is logged and sent as an Event, and an annotation of 256 KiB can contain
// tens of thousands.
const maxProblems = 100

// record adds a problem. If there are maxProblems already, it adds one error that says so, and drops all later ones.
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

// Full reports whether further problems would be dropped. The rest of the text needs no check then.
func (f *Collector) Full() bool { return len(f.Problems) > maxProblems }

// Include records problems that another Collector found.
func (f *Collector) Include(all []policy.Problem) { f.record(all...) }

// Add records a problem in the field p. n is the node of the field, from which the line and column are read; it may be nil.
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

// Warn records a warning about the value at p.
func (f *Collector) Warn(p *Path, message, allowed string) { f.report(p, message, allowed, true) }

func (f *Collector) report(p *Path, message, allowed string, warning bool) {
	problem := f.ProblemAt(p, message, allowed)
	if problem.Warning = warning; !f.FollowsFromDecoding(problem.Field) {
		f.record(problem)
	}
}

// FollowsFromDecoding reports whether a problem in a field is a consequence of a problem that decoding already recorded. Such a problem is
// not recorded, so that each defect is reported once.
func (f *Collector) FollowsFromDecoding(field string) bool {
	within := func(inner, outer string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for _, p := range f.Problems[:f.Decoded] {
		// If a field name is misspelled, the correct field is also missing. That is the same defect.
		sibling := p.Found == "" && field[:strings.LastIndexByte(field, '.')+1] == p.Field[:strings.LastIndexByte(p.Field, '.')+1]
		if sibling || within(p.Field, field) || within(field, p.Field) {
			return true
		}
	}
	return false
}

// ProblemAt returns a problem with the value at p without recording it.
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

// writtenBy returns the entry of Origins that applies to the path p, and the part of p below the path of that entry. ok is false if there
// is none.
func (f *Collector) writtenBy(p *Path) (from Origin, below *Path, ok bool) {
	for up := p; up != nil && len(f.Origins) > 0; up = up.up {
		if from, ok = f.Origins[up.String()]; ok {
			return from, below, true
		}
		below = below.under(up)
	}
	return Origin{}, nil, false
}

// Recover converts a panic into a problem of the document that caused it, so that other documents are not affected. A panic is a defect of
// gpuscaler or of a library. It sets *done to true, so that the caller uses the recorded problems. It must be called with defer.
func (f *Collector) Recover(done *bool) {
	if fault := recover(); fault != nil {
		f.Problems = append(f.Problems, policy.Problem{File: f.File, Line: f.LineOffset + 1, Document: f.Document,
			Message: fmt.Sprintf("%s: %v", InternalError, fault), Allowed: "please report it with this text", Stack: string(debug.Stack())})
		*done = true
	}
}

// InternalError begins the message of a recovered panic.
const InternalError = "gpuscaler panicked while it processed this text"

// Failed reports whether the text has a problem that is not a warning.
func (f *Collector) Failed() bool { return policy.Errors(f.Problems) > 0 }

// RejectText records a problem with the value of an annotation.
func (f *Collector) RejectText(field, found, message, allowed string) {
	f.record(policy.Problem{File: f.File, Document: f.Document, Field: field, Message: message, Found: wording.Quote(found), Allowed: allowed})
}
