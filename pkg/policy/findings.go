package policy

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// findings collects what is wrong with one text, and knows where each value of it stands.
type findings struct {
	file     string
	above    int    // lines of the file above this text
	document string // "ScalingPolicy team-chat/llama-chat", once known
	root     *yaml.Node
	// origins says who wrote a part of a policy that was put together from annotations: "spec.signals[1]" and what is below it.
	origins  map[string]origin
	problems []Problem
	decoded  int // how many of the problems are the decoder's
}

// origin is where a part of a policy was written.
type origin struct {
	field string     // "metadata.annotations[gpuscaler.io/queue-source]"
	text  string     // the whole text of a short key
	root  *yaml.Node // the part's own YAML, where it is YAML
}

// yamlPath is the way from the document's root to a value. Text is made of it only when there is a problem.
type yamlPath struct {
	up    *yamlPath
	name  string
	index int // when name is empty
}

var (
	rootPath *yamlPath
	specPath = rootPath.key("spec")
)

func (p *yamlPath) key(name string) *yamlPath { return &yamlPath{up: p, name: name} }
func (p *yamlPath) at(i int) *yamlPath        { return &yamlPath{up: p, index: i} }

func (p *yamlPath) String() string {
	switch {
	case p == nil:
		return ""
	case p.name == "":
		return p.up.String() + "[" + strconv.Itoa(p.index) + "]"
	case p.up == nil:
		return p.name
	}
	return p.up.String() + "." + p.name
}

// add records a problem with the value at n, which may be nil.
func (f *findings) add(n *yaml.Node, p *yamlPath, problem Problem) {
	f.problems = append(f.problems, f.place(n, p, problem))
}

func (f *findings) place(n *yaml.Node, p *yamlPath, problem Problem) Problem {
	problem.File, problem.Document = f.file, f.document
	if n != nil && n.Line > 0 {
		problem.Line, problem.Column = n.Line+f.above, n.Column
	}
	if problem.Field = p.String(); len(f.origins) > 0 {
		if from, below, ok := f.writtenBy(p); ok {
			problem.Field = from.field
			if rest := below.String(); rest != "" && from.root != nil {
				problem.Field += "." + rest
			}
		}
	}
	return problem
}

// bad records a problem with the value at p; its place and what was found are looked up.
func (f *findings) bad(p *yamlPath, message, allowed string) { f.complain(p, message, allowed, false) }

// odd is bad for what works, though not as its author may think.
func (f *findings) odd(p *yamlPath, message, allowed string) { f.complain(p, message, allowed, true) }

func (f *findings) complain(p *yamlPath, message, allowed string, warning bool) {
	problem := f.problemAt(p, message, allowed)
	if problem.Warning = warning; !f.follows(problem.Field) {
		f.problems = append(f.problems, problem)
	}
}

// follows tells that a field is only wrong because something in it could not be decoded: one mistake is told once.
func (f *findings) follows(field string) bool {
	within := func(inner, outer string) bool {
		rest, ok := strings.CutPrefix(inner, outer)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for _, p := range f.problems[:f.decoded] {
		// A misspelled field is missing under its right name.
		sibling := p.Found == "" && field[:strings.LastIndexByte(field, '.')+1] == p.Field[:strings.LastIndexByte(p.Field, '.')+1]
		if sibling || within(p.Field, field) || within(field, p.Field) {
			return true
		}
	}
	return false
}

// problemAt describes a problem with the value at p without recording it.
func (f *findings) problemAt(p *yamlPath, message, allowed string) Problem {
	problem := Problem{Message: message, Allowed: allowed}
	root, rest := f.root, p
	if from, below, ok := f.writtenBy(p); ok {
		if root, rest = from.root, below; root == nil && from.text != "" {
			problem.Found = quote(from.text)
		}
	}
	n, exact := locate(root, rest)
	if exact && n.Kind == yaml.ScalarNode {
		problem.Found = describe(n)
	}
	return f.place(n, p, problem)
}

// writtenBy finds who wrote the part that p lies in, and the rest of the way from there.
func (f *findings) writtenBy(p *yamlPath) (from origin, below *yamlPath, ok bool) {
	for up := p; up != nil && len(f.origins) > 0; up = up.up {
		if from, ok = f.origins[up.String()]; ok {
			return from, below, true
		}
		below = below.under(up)
	}
	return origin{}, nil, false
}

// under puts the last step of top above the whole of p.
func (p *yamlPath) under(top *yamlPath) *yamlPath {
	if p == nil {
		return &yamlPath{name: top.name, index: top.index}
	}
	return &yamlPath{up: p.up.under(top), name: p.name, index: p.index}
}

// survive turns a panic, which is a fault of ours or of a library, into a problem with the one text that caused it: the documents
// beside it must not go down with it. It sets done, so that what was found counts.
func (f *findings) survive(done *bool) {
	if fault := recover(); fault != nil {
		f.problems = append(f.problems, Problem{File: f.file, Line: f.above + 1, Document: f.document,
			Message: fmt.Sprintf("%s: %v", ourFault, fault), Allowed: "please report this text"})
		*done = true
	}
}

const ourFault = "gpuscaler failed over this text"

func (f *findings) failed() bool { return Errors(f.problems) > 0 }

// locate returns the node at p, or the nearest one above it where p itself is not written.
func locate(root *yaml.Node, p *yamlPath) (n *yaml.Node, exact bool) {
	if p == nil || root == nil {
		return root, root != nil
	}
	n, exact = locate(root, p.up)
	if !exact {
		return n, false
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if p.name == "" {
		if n.Kind == yaml.SequenceNode && p.index < len(n.Content) {
			return n.Content[p.index], true
		}
		return n, false
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == p.name {
			return n.Content[i+1], true
		}
	}
	return n, false
}
