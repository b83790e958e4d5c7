package decode

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"go.yaml.in/yaml/v3"
)

// Part is the text of one document of a file.
type Part struct {
	Text       []byte
	LineOffset int // number of lines in the file before the text
}

// Split splits a file at its `---` lines. A syntax error then affects only the document that contains it.
func Split(file []byte) (parts []Part) {
	start, above, line := 0, 0, 0
	for at := 0; at < len(file); line++ {
		end := len(file)
		if i := bytes.IndexByte(file[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		row := file[at:end]
		if bytes.HasPrefix(row, []byte("---")) && (len(row) == 3 || strings.IndexByte(" \t\r\n", row[3]) >= 0) {
			parts = append(parts, Part{file[start:at], above})
			start, above = at, line
		}
		at = end
	}
	return append(parts, Part{file[start:], above})
}

// Parse parses the text, which must contain one YAML document, and sets f.Root. It records a problem if the text is not valid YAML or
// contains a second document. It returns false if the text is empty.
func (f *Collector) Parse(text []byte) (found bool) {
	var node yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return false
	} else if err != nil {
		f.syntaxError(text, err)
		return true
	}
	if len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
		return false
	}
	var more yaml.Node
	if err := decoder.Decode(&more); err != nil && !errors.Is(err, io.EOF) {
		f.syntaxError(text, err)
		return true
	} else if err == nil {
		f.Add(&more, Root, policy.Problem{Message: "another document begins here", Allowed: "a line --- between documents"})
		return true
	}
	f.Root = node.Content[0]
	return true
}

// Decode decodes the whole text into a struct.
func (f *Collector) Decode(into any) {
	f.DecodeNode(f.Root, into)
	f.Decoded = len(f.Problems)
}

// DecodeNode decodes one node of the text into a struct.
func (f *Collector) DecodeNode(n *yaml.Node, into any) {
	reader := decoder{Collector: f}
	reader.value(n, reflect.ValueOf(into).Elem(), nil)
}
