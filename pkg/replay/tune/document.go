package tune

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Rewrite returns the text of the policy file with the settings that the search found. Comments, the order of keys and the other YAML
// documents in the file are kept. If no settings were found, it returns the text unchanged.
func (r *Result) Rewrite(text []byte) ([]byte, error) {
	if !r.Found {
		return text, nil
	}
	var out bytes.Buffer
	to := yaml.NewEncoder(&out)
	to.SetIndent(2)
	from := yaml.NewDecoder(bytes.NewReader(text))
	written := false
	for {
		var doc yaml.Node
		err := from.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if spec := SpecOf(&doc, r.Policy); spec != nil {
			written = true
			for i, k := range r.knobs {
				if r.best[i] == k.Value {
					continue
				}
				if err := Set(spec, k.Path, k.Write(r.best[i])); err != nil {
					return nil, err
				}
			}
		}
		if err := to.Encode(&doc); err != nil {
			return nil, err
		}
	}
	if !written {
		return nil, fmt.Errorf("no document of %s in the file", r.Policy)
	}
	return out.Bytes(), to.Close()
}

// SpecOf returns the spec of a YAML document if it is the ScalingPolicy with the given NAMESPACE/NAME, and nil for any other document.
func SpecOf(doc *yaml.Node, name string) *yaml.Node {
	if len(doc.Content) == 0 {
		return nil
	}
	var head struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
	}
	if doc.Decode(&head) != nil || head.Kind != "ScalingPolicy" || head.Metadata.Namespace+"/"+head.Metadata.Name != name {
		return nil
	}
	return valueOf(doc.Content[0], "spec")
}

// valueOf returns the value of a key, or nil if the mapping does not have it.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// Set writes a scalar at a path of keys and list indexes, and creates missing mappings. It returns an error for a list index that does not
// exist.
func Set(n *yaml.Node, path []string, value string) error {
	for _, key := range path {
		next := (*yaml.Node)(nil)
		switch n.Kind {
		case yaml.SequenceNode:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(n.Content) {
				return fmt.Errorf("no element %s", key)
			}
			next = n.Content[i]
		case yaml.MappingNode:
			if next = valueOf(n, key); next == nil {
				next = &yaml.Node{Kind: yaml.MappingNode}
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, next)
			}
		default:
			return fmt.Errorf("the parent of %s is not a mapping", key)
		}
		n = next
	}
	comment := n.LineComment
	*n = yaml.Node{Kind: yaml.ScalarNode, Value: value, LineComment: comment}
	return nil
}
