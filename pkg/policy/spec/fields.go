package spec

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// field is one line of the format: the decoder, the JSON Schema and the reference in the docs are all read off these, which in turn
// are read off the struct tags of spec.go and platformspec.go. So the three cannot disagree.
type Field struct {
	Name     string
	Index    int // of the struct field
	Doc      string
	Enum     []string
	Required bool
	Default  string // the default, for people
}

type Fields struct {
	Fields []Field
	Names  []string
	ByName map[string]Field
}

var tables sync.Map // reflect.Type -> *fieldTable

func FieldsOf(t reflect.Type) *Fields {
	if known, ok := tables.Load(t); ok {
		return known.(*Fields)
	}
	table := &Fields{ByName: map[string]Field{}}
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		f := Field{Name: name, Index: i, Doc: tag.Get("doc"), Required: tag.Get("required") == "true", Default: tag.Get("default")}
		if words := tag.Get("enum"); words != "" {
			f.Enum = strings.Split(words, ",")
		}
		table.Fields = append(table.Fields, f)
		table.Names = append(table.Names, name)
		table.ByName[name] = f
	}
	slices.Sort(table.Names)
	tables.Store(t, table)
	return table
}

func SignalTypes() []string {
	t := FieldsOf(reflect.TypeFor[Signal]())
	return t.ByName["type"].Enum
}
