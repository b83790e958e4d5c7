// Package schema generates the JSON Schemas and the reference of the format. It uses the structs and the field tables of package spec. Only
// tests import this package, so the schema generator is not part of the program.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// JSONSchemas returns the JSON Schemas of the documents for editors and CI. The key is the name of the file. The schemas are generated from
// the field tables that the decoder uses, so they accept every document that the decoder accepts. They do not contain rules about several
// values, for example that minReplicas must not be above maxReplicas or that a query must exist.
func JSONSchemas() map[string][]byte {
	return map[string][]byte{
		"scalingpolicy.json":  schemaOf(spec.KindScalingPolicy, reflect.TypeFor[spec.PolicyDocument]()),
		"platformconfig.json": schemaOf(spec.KindPlatformConfig, reflect.TypeFor[spec.PlatformDocument]()),
		"pricebook.json":      schemaOf(spec.KindPriceBook, reflect.TypeFor[spec.PriceBookDocument]()),
	}
}

func schemaOf(kind string, t reflect.Type) []byte {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, FieldNameTag: "yaml", Mapper: scalarSchema}
	s := r.ReflectFromType(t)
	addFieldTable(s, t)
	s.ID, s.Title = jsonschema.ID("https://gpuscaler.io/schema/"+strings.ToLower(kind)+".json"), kind
	constant(s, "apiVersion", spec.APIVersion)
	constant(s, "kind", kind)
	text, err := json.Marshal(s)
	if err != nil {
		panic("policy: the schema is made of plain values: " + err.Error())
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		panic("policy: the schema is JSON: " + err.Error())
	}
	return append(out.Bytes(), '\n')
}

// constant makes a schema require the given value for a field of a document.
func constant(s *jsonschema.Schema, field, value string) {
	if p, ok := s.Properties.Get(field); ok {
		p.Const = value
	}
}

// scalarSchema returns the schema of a type whose YAML form differs from its Go type, and nil for any other type. Numbers in the format are
// never negative.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	if w, ok := reflect.New(t).Interface().(spec.Scalar); ok {
		return &jsonschema.Schema{Pattern: w.Pattern(), Extras: types("string", "number")}
	}
	const most = "2147483647"
	switch {
	case t == reflect.TypeFor[spec.Names]():
		return &jsonschema.Schema{Items: &jsonschema.Schema{Type: "string"}, Extras: types("string", "array")}
	case t.Kind() == reflect.Float64:
		return &jsonschema.Schema{Type: "number", Minimum: "0", Maximum: most}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return &jsonschema.Schema{Type: "integer", Minimum: "0", Maximum: most}
	}
	return nil
}

// types returns the keyword "type" with several types. It is needed because the field Type of jsonschema.Schema can contain only one type.
func types(names ...string) map[string]any { return map[string]any{"type": names} }

// addFieldTable adds the data from the struct tags of package spec to a schema: descriptions, allowed words, and which fields are required.
// A field that is not required may also be written without a value.
func addFieldTable(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case s.Items != nil && t.Kind() == reflect.Slice:
		addFieldTable(s.Items, t.Elem())
	case s.AdditionalProperties != nil && t.Kind() == reflect.Map:
		addFieldTable(s.AdditionalProperties, t.Elem())
	case s.Properties != nil:
		s.Required = nil
		for _, f := range spec.FieldsOf(t).Fields {
			p, _ := s.Properties.Get(f.Name)
			addFieldTable(p, t.Field(f.Index).Type)
			p.Description = describeField(f)
			for _, w := range f.Enum {
				p.Enum = append(p.Enum, w)
			}
			if f.Required {
				s.Required = append(s.Required, f.Name)
			} else {
				orNull(p)
			}
		}
	}
}

// orNull extends the schema of a field so that the field may be null, which is how YAML represents a field without a value.
func orNull(p *jsonschema.Schema) {
	names, several := p.Extras["type"].([]string)
	if !several {
		names = []string{p.Type}
	}
	p.Type, p.Extras = "", types(append(names, "null")...)
	if p.Enum != nil {
		p.Enum = append(p.Enum, "", nil)
	}
}

func describeField(f spec.Field) string {
	if f.Default == "" {
		return f.Doc
	}
	return fmt.Sprintf("%s. Default: %s", f.Doc, f.Default)
}
