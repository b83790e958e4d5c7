package spec

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Field describes one field of the document format. Its values are read from the struct tags and from docs.go. The decoder, the JSON Schema
// and the reference all use Field, so they cannot contradict each other.
type Field struct {
	Name     string
	Index    int // index of the struct field
	Doc      string
	Enum     []string
	Required bool
	Default  string // the default value as text for the reference
}

// Fields contains a Field for each field of a struct, as a list and by the YAML name of the field.
type Fields struct {
	Fields []Field
	Names  []string
	ByName map[string]Field
}

var tables sync.Map // cache of *Fields by reflect.Type

// FieldsOf returns the fields of a struct type and caches the result.
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
		f := Field{Name: name, Index: i, Doc: docs[t.Name()+"."+name], Required: tag.Get("required") == "true", Default: tag.Get("default")}
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

// SignalTypes returns the values of the field `type` of a signal.
func SignalTypes() []string {
	t := FieldsOf(reflect.TypeFor[Signal]())
	return t.ByName["type"].Enum
}
