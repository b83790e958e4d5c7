package spec

import (
	"reflect"
	"testing"
)

// The reference and the schemas contain the texts of docs.go. Every field must have a text, and there must be no text for a field that was
// removed.
func TestEveryFieldIsDescribed(t *testing.T) {
	described := map[string]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if _, is := reflect.New(of).Interface().(Scalar); is || of.Kind() != reflect.Struct {
			return
		}
		for _, f := range FieldsOf(of).Fields {
			name := of.Name() + "." + f.Name
			if described[name] {
				continue
			}
			if described[name] = true; f.Doc == "" {
				t.Errorf("%s has no description in docs.go", name)
			}
			walk(of.Field(f.Index).Type)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[PolicyDocument](), reflect.TypeFor[PlatformDocument](),
		reflect.TypeFor[PriceBookDocument]()} {
		walk(of)
	}
	for name := range docs {
		if !described[name] {
			t.Errorf("docs.go describes %s, which does not exist", name)
		}
	}
}
