// Package decode decodes YAML into the structs of package spec. Each difference from the format becomes a policy.Problem with the file,
// line, column, field, found value and allowed values. Decoding continues after a problem, so that all problems are reported at once.
//
// The package uses go.yaml.in/yaml/v3, whose nodes have a line and a column. The line number in its syntax errors is often wrong, so
// syntax.go searches for the correct line. The alternative github.com/goccy/go-yaml was also wrong: by twelve lines for an open quote, and
// by one line for an open bracket.
package decode

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// maxNodes is the maximum number of YAML values in a document. An alias counts each time it is used, because a small document in which
// aliases refer to other aliases can contain a huge number of values.
const maxNodes = 20000

// decoder decodes YAML nodes into structs. The yaml tags of a struct define the allowed fields. Each difference between the text and the
// struct becomes a Problem, and decoding continues.
type decoder struct {
	*Collector
	nodes int
}

// value decodes a node into v, which must be settable. A problem has the position of the node. If the node is an alias, the problem has the
// position of the anchor.
func (d *decoder) value(n *yaml.Node, v reflect.Value, p *Path) {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.Add(n, p, policy.Problem{Message: "the document is too large",
				Allowed: fmt.Sprintf("at most %d values, aliases counted each time", maxNodes)})
		}
		return
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias // this loop ends even for a cyclic alias, because the types are not recursive
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // as in Kubernetes, a field without a value counts as an omitted field
	}
	if v.Kind() == reflect.Pointer {
		before := len(d.Problems)
		v.Set(reflect.New(v.Type().Elem()))
		if d.value(n, v.Elem(), p); len(d.Problems) > before && v.Type().Elem().Kind() != reflect.Struct {
			v.SetZero() // after a problem, the field must not keep a partially decoded value
		}
		return
	}
	if w, ok := v.Addr().Interface().(spec.Scalar); ok {
		d.scalarType(n, w, p)
		return
	}
	if v.Type() == reflect.TypeFor[spec.Names]() && n.Kind != yaml.SequenceNode {
		d.oneName(n, v, p)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, v, p)
	case reflect.Slice:
		d.sequence(n, v, p)
	case reflect.Map:
		d.entries(n, v, p)
	default:
		d.scalar(n, v, p)
	}
}

// oneName decodes a field that contains a single name instead of a list of names. It sets v, whose type is spec.Names, to a list with this
// name.
func (d *decoder) oneName(n *yaml.Node, v reflect.Value, p *Path) {
	if n.Kind != yaml.ScalarNode {
		d.Add(n, p, policy.Problem{Message: "is not a name", Found: Describe(n), Allowed: "a name, or a list of names"})
		return
	}
	v.Set(reflect.ValueOf(make(spec.Names, 1)))
	d.scalar(n, v.Index(0), p)
}

func (d *decoder) scalarType(n *yaml.Node, w spec.Scalar, p *Path) {
	if n.Kind != yaml.ScalarNode {
		d.Add(n, p, policy.Problem{Message: "is not a single value", Found: Describe(n), Allowed: w.Allowed()})
		return
	}
	if err := w.Parse(n.Value); err != nil {
		d.Add(n, p, policy.Problem{Message: err.Error(), Found: Describe(n), Allowed: w.Allowed()})
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, p *Path) {
	table := spec.FieldsOf(v.Type())
	if n.Kind != yaml.MappingNode {
		d.Add(n, p, policy.Problem{Message: "is not a mapping", Found: Describe(n),
			Allowed: "a mapping with the fields " + wording.List(table.Names)})
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content) && !d.Full(); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := p.Key(key.Value)
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			d.Add(key, p, policy.Problem{Message: "merge keys are not supported: write the fields themselves", Found: Describe(key)})
			continue
		}
		if line, twice := first[key.Value]; twice {
			d.Add(key, at, policy.Problem{Message: fmt.Sprintf("is written twice, first in line %d", line+d.LineOffset), Found: Describe(value),
				Allowed: "one of the two"})
			continue
		}
		first[key.Value] = key.Line
		f, known := table.ByName[key.Value]
		if !known {
			d.Add(key, at, policy.Problem{Message: "there is no such field" + wording.DidYouMean(key.Value, table.Names),
				Allowed: wording.List(table.Names)})
			continue
		}
		d.value(value, v.Field(f.Index), at)
		d.checkEnum(value, v.Field(f.Index), at, f)
	}
	for _, f := range table.Fields {
		if _, written := first[f.Name]; f.Required && !written {
			d.Add(n, p.Key(f.Name), policy.Problem{Message: "is missing", Allowed: f.Doc})
		}
	}
}

// checkEnum checks the value of a field that has an enum tag.
func (d *decoder) checkEnum(n *yaml.Node, v reflect.Value, p *Path, f spec.Field) {
	if len(f.Enum) == 0 || v.Kind() != reflect.String || v.String() == "" || slices.Contains(f.Enum, v.String()) {
		return
	}
	d.Add(n, p, policy.Problem{Message: "is not a known value" + wording.DidYouMean(v.String(), f.Enum), Found: wording.Quote(v.String()),
		Allowed: wording.List(f.Enum)})
}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value, p *Path) {
	if n.Kind != yaml.SequenceNode {
		d.Add(n, p, policy.Problem{Message: "is not a list", Found: Describe(n), Allowed: "a list: each entry on its own line after a dash"})
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		if d.Full() {
			return
		}
		at := p.At(i)
		if item.Kind == yaml.ScalarNode && item.Tag == "!!null" {
			d.Add(item, at, policy.Problem{Message: "is an empty entry"})
			continue
		}
		d.value(item, v.Index(i), at)
	}
}

func (d *decoder) entries(n *yaml.Node, v reflect.Value, p *Path) {
	if n.Kind != yaml.MappingNode {
		d.Add(n, p, policy.Problem{Message: "is not a mapping", Found: Describe(n), Allowed: "a mapping of names to values"})
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content) && !d.Full(); i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		at := p.Key(key.Value)
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			d.Add(key, p, policy.Problem{Message: "merge keys are not supported: write the fields themselves", Found: Describe(key)})
			continue
		}
		d.checkPrintable(key, p)
		name := reflect.ValueOf(key.Value).Convert(v.Type().Key())
		if v.MapIndex(name).IsValid() {
			d.Add(key, at, policy.Problem{Message: "is written twice", Found: Describe(item), Allowed: "one of the two"})
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(item, element, at)
		v.SetMapIndex(name, element)
	}
}

// scalarKinds contains the kinds of Go fields that a YAML scalar can set. allowed describes the allowed values. set sets the field, or
// returns false if the value is not allowed.
var scalarKinds = map[reflect.Kind]struct {
	allowed string
	set     func(n *yaml.Node, v reflect.Value) bool
}{
	reflect.String: {"text", setText}, reflect.Bool: {"true or false", setBool}, reflect.Float64: {"a number, 0 or more", setNumber},
	reflect.Int32: {"a whole number, 0 or more", setWhole}, reflect.Int64: {"a whole number, 0 or more", setWhole},
	reflect.Int: {"a whole number, 0 or more", setWhole},
}

// scalar decodes a scalar into a field whose type does not implement spec.Scalar.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, p *Path) {
	kind, known := scalarKinds[v.Kind()]
	if !known {
		panic("policy: no decoding for a field of kind " + v.Kind().String())
	}
	isScalar := n.Kind == yaml.ScalarNode
	switch {
	case isScalar && kind.set(n, v):
		if v.Kind() == reflect.String {
			d.checkPrintable(n, p)
		}
		return
	case isScalar && v.Kind() == reflect.String:
		kind.allowed = "text: put it in quotes"
	}
	d.Add(n, p, policy.Problem{Message: "is not a valid value", Found: Describe(n), Allowed: kind.allowed})
}

func setText(n *yaml.Node, v reflect.Value) bool {
	if n.Tag != "!!str" && n.Tag != "!!timestamp" {
		return false
	}
	v.SetString(n.Value)
	return true
}

func setBool(n *yaml.Node, v reflect.Value) bool {
	v.SetBool(n.Tag == "!!bool" && strings.EqualFold(n.Value, "true"))
	return n.Tag == "!!bool"
}

func setWhole(n *yaml.Node, v reflect.Value) bool {
	whole, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
	if n.Tag != "!!int" || err != nil || whole < 0 || whole > math.MaxInt32 {
		return false
	}
	v.SetInt(whole)
	return true
}

func setNumber(n *yaml.Node, v reflect.Value) bool {
	number, err := strconv.ParseFloat(n.Value, 64)
	isNumber := (n.Tag == "!!int" || n.Tag == "!!float") && err == nil && spec.IsPlainNumber(n.Value)
	if !isNumber || !(number >= 0 && number <= math.MaxInt32) {
		return false
	}
	v.SetFloat(number)
	return true
}

// PrintableText describes the text that is allowed in values.
const PrintableText = "printable characters, line feeds and tabs"

// checkPrintable rejects text with control characters. gpuscaler prints names, reasons and log lines on terminals, which control characters
// could manipulate.
func (d *decoder) checkPrintable(n *yaml.Node, p *Path) {
	if !printable.Is(n.Value) {
		d.Add(n, p, policy.Problem{Message: "contains characters that cannot be displayed", Found: Describe(n), Allowed: PrintableText})
	}
}

// Describe returns the value of a node as text for a problem. For a node that is not a scalar, it returns "a mapping" or "a list".
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!null":
			return "nothing"
		case "!!str":
			return wording.Quote(n.Value)
		}
		return strings.Trim(wording.Quote(n.Value), `"`)
	}
	return "an alias"
}
