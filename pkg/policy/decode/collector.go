package decode

import (
	"fmt"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"go.yaml.in/yaml/v3"
)

// findings collects what is wrong with one text, and knows where each value of it stands.
type Collector struct {
	File       string
	LineOffset int    // lines of the file above this text
	Document   string // "ScalingPolicy team-chat/llama-chat", once known
	Root       *yaml.Node
	// origins says who wrote a part of a policy that was put together from annotations: "spec.signals[1]" and what is below it.
	Origins  map[string]Origin
	Problems []policy.Problem
	Decoded  int // how many of the problems are the decoder's
}

// origin is where a part of a policy was written.
type Origin struct {
	Field string     // "metadata.annotations[gpuscaler.io/queue-source]"
	Text  string     // the whole text of a short key
	Root  *yaml.Node // the part's own YAML, where it is YAML
}

// add records a problem with the value at n, which may be nil.
func (f *Collector) Add(n *yaml.Node, p *Path, problem policy.Problem) {
	f.Problems = append(f.Problems, f.place(n, p, problem))
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

// bad records a problem with the value at p; its place and what was found are looked up.
func (f *Collector) Reject(p *Path, message, allowed string) { f.report(p, message, allowed, false) }

// odd is bad for what works, though not as its author may think.
func (f *Collector) Warn(p *Path, message, allowed string) { f.report(p, message, allowed, true) }

func (f *Collector) report(p *Path, message, allowed string, warning bool) {
	problem := f.ProblemAt(p, message, allowed)
	if problem.Warning = warning; !f.FollowsFromDecoding(problem.Field) {
		f.Problems = append(f.Problems, problem)
	}
}

// follows tells that a field is only wrong because something in it could not be decoded: one mistake is told once.
func (f *Collector) FollowsFromDecoding(field string) bool {
	within := func(inner, outer string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for _, p := range f.Problems[:f.Decoded] {
		// A misspelled field is missing under its right name.
		sibling := p.Found == "" && field[:strings.LastIndexByte(field, '.')+1] == p.Field[:strings.LastIndexByte(p.Field, '.')+1]
		if sibling || within(p.Field, field) || within(field, p.Field) {
			return true
		}
	}
	return false
}

// problemAt describes a problem with the value at p without recording it.
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

// writtenBy finds who wrote the part that p lies in, and the rest of the way from there.
func (f *Collector) writtenBy(p *Path) (from Origin, below *Path, ok bool) {
	for up := p; up != nil && len(f.Origins) > 0; up = up.up {
		if from, ok = f.Origins[up.String()]; ok {
			return from, below, true
		}
		below = below.under(up)
	}
	return Origin{}, nil, false
}

// survive turns a panic, which is a fault of ours or of a library, into a problem with the one text that caused it: the documents
// beside it must not go down with it. It sets done, so that what was found counts.
func (f *Collector) Recover(done *bool) {
	if fault := recover(); fault != nil {
		f.Problems = append(f.Problems, policy.Problem{File: f.File, Line: f.LineOffset + 1, Document: f.Document,
			Message: fmt.Sprintf("%s: %v", InternalError, fault), Allowed: "please report this text"})
		*done = true
	}
}

const InternalError = "gpuscaler failed over this text"

func (f *Collector) Failed() bool { return policy.Errors(f.Problems) > 0 }

// refuse records a problem with the text of a key.
func (f *Collector) RejectText(field, found, message, allowed string) {
	f.Problems = append(f.Problems, policy.Problem{File: f.File, Document: f.Document, Field: field, Message: message, Found: wording.Quote(found), Allowed: allowed})
}
