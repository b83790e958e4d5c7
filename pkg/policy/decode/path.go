package decode

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Path is the path from the root of a document to a value. It is converted to text only for problems.
type Path struct {
	up    *Path
	name  string
	index int // index in a list, if name is empty
}

// Root is the path of the whole document. Spec is the path of its field spec.
var (
	Root *Path
	Spec = Root.Key("spec")
)

// Key returns the path of the field with the given name in the mapping at p.
func (p *Path) Key(name string) *Path { return &Path{up: p, name: name} }

// At returns the path of the element with index i of the list at p.
func (p *Path) At(i int) *Path { return &Path{up: p, index: i} }

// String returns the path in the form that problems contain, such as spec.signals[2].target.
func (p *Path) String() string {
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

// under returns a path that consists of the last element of top, followed by all elements of p. For the top spec.signals and the p
// [2].target, the result is signals[2].target.
func (p *Path) under(top *Path) *Path {
	if p == nil {
		return &Path{name: top.name, index: top.index}
	}
	return &Path{up: p.up.under(top), name: p.name, index: p.index}
}

// Locate returns the node at p. If the node does not exist, Locate returns the nearest existing node above p, and false.
func Locate(root *yaml.Node, p *Path) (n *yaml.Node, exact bool) {
	if p == nil || root == nil {
		return root, root != nil
	}
	n, exact = Locate(root, p.up)
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
