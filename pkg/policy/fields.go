package policy

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// field is one line of the format: the decoder, the JSON Schema and the reference in the docs are all read off these, which in turn
// are read off the struct tags of spec.go and platformspec.go. So the three cannot disagree.
type field struct {
	name     string
	index    int // of the struct field
	doc      string
	enum     []string
	required bool
	preset   string // the default, for people
}

type fieldTable struct {
	fields []field
	names  []string
	byName map[string]field
}

var tables sync.Map // reflect.Type -> *fieldTable

func fieldsOf(t reflect.Type) *fieldTable {
	if known, ok := tables.Load(t); ok {
		return known.(*fieldTable)
	}
	table := &fieldTable{byName: map[string]field{}}
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		f := field{name: name, index: i, doc: tag.Get("doc"), required: tag.Get("required") == "true", preset: tag.Get("default")}
		if words := tag.Get("enum"); words != "" {
			f.enum = strings.Split(words, ",")
		}
		table.fields = append(table.fields, f)
		table.names = append(table.names, name)
		table.byName[name] = f
	}
	slices.Sort(table.names)
	tables.Store(t, table)
	return table
}
