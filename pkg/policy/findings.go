package policy

import (
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
	// origins says who wrote a part of a policy that was put together from several annotations: "spec.signals[1]" -> the key.
	origins  map[string]string
	problems []Problem
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
	problem.Field = f.rename(p.String())
	return problem
}

// bad records a problem with the value at p; its place and what was found are looked up.
func (f *findings) bad(p *yamlPath, message, allowed string) { f.complain(p, message, allowed, false) }

// odd is bad for what works, though not as its author may think.
func (f *findings) odd(p *yamlPath, message, allowed string) { f.complain(p, message, allowed, true) }

func (f *findings) complain(p *yamlPath, message, allowed string, warning bool) {
	problem := f.problemAt(p, message, allowed)
	problem.Warning = warning
	f.problems = append(f.problems, problem)
}

// problemAt describes a problem with the value at p without recording it.
func (f *findings) problemAt(p *yamlPath, message, allowed string) Problem {
	n, exact := locate(f.root, p)
	problem := Problem{Message: message, Allowed: allowed}
	if exact && n.Kind == yaml.ScalarNode {
		problem.Found = describe(n)
	}
	return f.place(n, p, problem)
}

func (f *findings) failed() bool { return Errors(f.problems) > 0 }

// rename puts the annotation in the place of the part of the policy that it wrote.
func (f *findings) rename(field string) string {
	best := ""
	for prefix := range f.origins {
		rest, ok := strings.CutPrefix(field, prefix)
		if ok && len(prefix) > len(best) && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			best = prefix
		}
	}
	if best == "" {
		return field
	}
	return f.origins[best] + strings.TrimPrefix(field, best)
}

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
