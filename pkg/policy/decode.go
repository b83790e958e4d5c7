package policy

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

// maxNodes bounds the work that one document can cause: aliases of aliases of aliases grow without end.
const maxNodes = 20000

// decoder reads YAML nodes into structs, strictly: the struct's yaml tags are the whole list of allowed fields, and each
// deviation becomes a Problem with its place. It never stops at the first.
type decoder struct {
	*findings
	nodes int
}

// value reads a node into v, which is settable. Its problems stand where the value stands, for an alias at its anchor.
func (d *decoder) value(n *yaml.Node, v reflect.Value, p *yamlPath) {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.add(n, p, Problem{Message: "the document is too large", Allowed: fmt.Sprintf("at most %d values, aliases counted each time", maxNodes)})
		}
		return
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias // one that contains itself ends with the types, none of which contains itself
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // `field:` with nothing behind it is the same as no field, as in Kubernetes
	}
	if v.Kind() == reflect.Pointer {
		before := len(d.problems)
		v.Set(reflect.New(v.Type().Elem()))
		if d.value(n, v.Elem(), p); len(d.problems) > before && v.Type().Elem().Kind() != reflect.Struct {
			v.SetZero() // what cannot be read is not zero
		}
		return
	}
	if w, ok := v.Addr().Interface().(word); ok {
		d.word(n, w, p)
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

func (d *decoder) word(n *yaml.Node, w word, p *yamlPath) {
	if n.Kind != yaml.ScalarNode {
		d.add(n, p, Problem{Message: "is not a single value", Found: describe(n), Allowed: w.allowed()})
		return
	}
	if err := w.read(n.Value); err != nil {
		d.add(n, p, Problem{Message: err.Error(), Found: describe(n), Allowed: w.allowed()})
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, p *yamlPath) {
	table := fieldsOf(v.Type())
	if n.Kind != yaml.MappingNode {
		d.add(n, p, Problem{Message: "is not a mapping", Found: describe(n), Allowed: "a mapping with the fields " + list(table.names)})
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := p.key(key.Value)
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			d.add(key, p, Problem{Message: "merge keys are not read: write the fields themselves", Found: describe(key)})
			continue
		}
		if line, twice := first[key.Value]; twice {
			d.add(key, at, Problem{Message: fmt.Sprintf("is written twice, first in line %d", line+d.above), Found: describe(value), Allowed: "one of the two"})
			continue
		}
		first[key.Value] = key.Line
		f, known := table.byName[key.Value]
		if !known {
			d.add(key, at, Problem{Message: "there is no such field" + didYouMean(key.Value, table.names), Allowed: list(table.names)})
			continue
		}
		d.value(value, v.Field(f.index), at)
		d.oneOf(value, v.Field(f.index), at, f)
	}
	for _, f := range table.fields {
		if _, written := first[f.name]; f.required && !written {
			d.add(n, p.key(f.name), Problem{Message: "is missing", Allowed: f.doc})
		}
	}
}

// oneOf checks a field whose words are listed in its enum tag.
func (d *decoder) oneOf(n *yaml.Node, v reflect.Value, p *yamlPath, f field) {
	if len(f.enum) == 0 || v.Kind() != reflect.String || v.String() == "" || slices.Contains(f.enum, v.String()) {
		return
	}
	d.add(n, p, Problem{Message: "is not one of the words known here" + didYouMean(v.String(), f.enum), Found: quote(v.String()), Allowed: list(f.enum)})
}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value, p *yamlPath) {
	if n.Kind != yaml.SequenceNode {
		d.add(n, p, Problem{Message: "is not a list", Found: describe(n), Allowed: "a list, each entry on its own line behind a dash"})
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := p.at(i)
		if item.Kind == yaml.ScalarNode && item.Tag == "!!null" {
			d.add(item, at, Problem{Message: "is an empty entry"})
			continue
		}
		d.value(item, v.Index(i), at)
	}
}

func (d *decoder) entries(n *yaml.Node, v reflect.Value, p *yamlPath) {
	if n.Kind != yaml.MappingNode {
		d.add(n, p, Problem{Message: "is not a mapping", Found: describe(n), Allowed: "a mapping of names to values"})
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		at := p.key(key.Value)
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			d.add(key, p, Problem{Message: "merge keys are not read: write the fields themselves", Found: describe(key)})
			continue
		}
		d.shown(key, p)
		name := reflect.ValueOf(key.Value).Convert(v.Type().Key())
		if v.MapIndex(name).IsValid() {
			d.add(key, at, Problem{Message: "is written twice", Found: describe(item), Allowed: "one of the two"})
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(item, element, at)
		v.SetMapIndex(name, element)
	}
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, p *yamlPath) {
	allowed, ok := "", n.Kind == yaml.ScalarNode
	switch v.Kind() {
	case reflect.String:
		allowed = "text"
		if ok && n.Tag != "!!str" && n.Tag != "!!timestamp" {
			allowed, ok = "text: put it in quotes", false
		}
		if ok {
			v.SetString(n.Value)
			d.shown(n, p)
		}
	case reflect.Bool:
		allowed = "true or false"
		ok = ok && n.Tag == "!!bool"
		v.SetBool(ok && strings.EqualFold(n.Value, "true"))
	case reflect.Int32, reflect.Int64, reflect.Int:
		allowed = "a whole number, 0 or more"
		whole, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
		if ok = ok && n.Tag == "!!int" && err == nil && whole >= 0 && whole <= math.MaxInt32; ok {
			v.SetInt(whole)
		}
	case reflect.Float64:
		allowed = "a number, 0 or more"
		number, err := strconv.ParseFloat(n.Value, 64)
		ok = ok && (n.Tag == "!!int" || n.Tag == "!!float") && err == nil && isPlainNumber(n.Value)
		if ok = ok && number >= 0 && number <= math.MaxInt32; ok {
			v.SetFloat(number)
		}
	default:
		panic("policy: no way to read a field of kind " + v.Kind().String())
	}
	if !ok {
		d.add(n, p, Problem{Message: "is not what belongs here", Found: describe(n), Allowed: allowed})
	}
}

const shownAllowed = "printable characters, line feeds and tabs"

// shown refuses text that cannot be shown as it is: it would rewrite the terminal on which a name, a reason or a log line is read.
func (d *decoder) shown(n *yaml.Node, p *yamlPath) {
	if !printable.Is(n.Value) {
		d.add(n, p, Problem{Message: "has characters that cannot be shown", Found: describe(n), Allowed: shownAllowed})
	}
}

// describe says what a node is, for people.
func describe(n *yaml.Node) string {
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
			return quote(n.Value)
		}
		return strings.Trim(quote(n.Value), `"`)
	}
	return "an alias"
}
