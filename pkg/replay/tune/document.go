package tune

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Rewrite puts what was found into the policy's own document; comments, order and all other documents stay as they are. Where
// nothing was found, the text is answered as it is.
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
		if spec := r.specOf(&doc); spec != nil {
			written = true
			for i, k := range r.knobs {
				if r.best[i] == k.Value {
					continue
				}
				if err := set(spec, k.Path, k.Write(r.best[i])); err != nil {
					return nil, err
				}
			}
		}
		if err := to.Encode(&doc); err != nil {
			return nil, err
		}
	}
	if !written {
		return nil, fmt.Errorf("%s has no document there", r.Policy)
	}
	return out.Bytes(), to.Close()
}

// specOf is the spec of the policy's document, nil of any other.
func (r *Result) specOf(doc *yaml.Node) *yaml.Node {
	if len(doc.Content) == 0 {
		return nil
	}
	var head struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
	}
	if doc.Decode(&head) != nil || head.Kind != "ScalingPolicy" || head.Metadata.Namespace+"/"+head.Metadata.Name != r.Policy {
		return nil
	}
	return child(doc.Content[0], "spec")
}

// child is the value of a key, nil where there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// set writes a scalar at a path, and makes the mappings on the way where they are not there.
func set(n *yaml.Node, path []string, value string) error {
	for _, key := range path {
		next := (*yaml.Node)(nil)
		switch n.Kind {
		case yaml.SequenceNode:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(n.Content) {
				return fmt.Errorf("there is no element %s", key)
			}
			next = n.Content[i]
		case yaml.MappingNode:
			if next = child(n, key); next == nil {
				next = &yaml.Node{Kind: yaml.MappingNode}
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, next)
			}
		default:
			return fmt.Errorf("%s stands under something that is no mapping", key)
		}
		n = next
	}
	comment := n.LineComment
	*n = yaml.Node{Kind: yaml.ScalarNode, Value: value, LineComment: comment}
	return nil
}
