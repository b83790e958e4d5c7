// Package schema generates the JSON Schemas and the reference of the format from the field tables of package spec.
//
// A generator such as github.com/invopop/jsonschema would need a second set of struct tags, cannot express that a field may be null,
// and would replace only the 40 lines that walk over the types.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// JSONSchemas returns the JSON Schemas of the documents by file name, for editors and CI. They use the same field tables as the
// decoder, so a schema accepts every document that the decoder accepts. Rules about several values (minReplicas above maxReplicas, a
// query that does not exist) are not part of the schemas.
func JSONSchemas() map[string][]byte {
	return map[string][]byte{
		"scalingpolicy.json":  schemaOf(spec.KindScalingPolicy, reflect.TypeFor[spec.PolicyDocument]()),
		"platformconfig.json": schemaOf(spec.KindPlatformConfig, reflect.TypeFor[spec.PlatformDocument]()),
		"pricebook.json":      schemaOf(spec.KindPriceBook, reflect.TypeFor[spec.PriceBookDocument]()),
	}
}

type jsonSchema struct {
	Schema      string                 `json:"$schema,omitempty"`
	ID          string                 `json:"$id,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Type        any                    `json:"type,omitempty"`
	Const       string                 `json:"const,omitempty"`
	Enum        []any                  `json:"enum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	Minimum     *int                   `json:"minimum,omitempty"`
	Maximum     *int                   `json:"maximum,omitempty"`
	Items       *jsonSchema            `json:"items,omitempty"`
	Properties  map[string]*jsonSchema `json:"properties,omitempty"`
	Required    []string               `json:"required,omitempty"`
	// AdditionalProperties is false for structs, and the schema of the values for maps.
	AdditionalProperties any `json:"additionalProperties,omitempty"`
}

func schemaOf(kind string, t reflect.Type) []byte {
	s := structSchema(t)
	s.Schema, s.ID, s.Title = "https://json-schema.org/draft/2020-12/schema", "https://gpuscaler.io/schema/"+strings.ToLower(kind)+".json",
		kind
	s.Properties["apiVersion"].Const, s.Properties["kind"].Const = spec.APIVersion, kind
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s); err != nil {
		panic("policy: the schema is made of plain values: " + err.Error())
	}
	return out.Bytes()
}

func structSchema(t reflect.Type) *jsonSchema {
	s := &jsonSchema{Type: "object", Properties: map[string]*jsonSchema{}, AdditionalProperties: false}
	for _, f := range spec.FieldsOf(t).Fields {
		p := valueSchema(t.Field(f.Index).Type)
		p.Description = describeField(f)
		for _, w := range f.Enum {
			p.Enum = append(p.Enum, w)
		}
		s.Properties[f.Name] = p
		if f.Required {
			s.Required = append(s.Required, f.Name)
		} else {
			// a field may be written without a value
			if p.Type = orNull(p.Type); p.Enum != nil {
				p.Enum = append(p.Enum, "", nil)
			}
		}
	}
	return s
}

func orNull(t any) any {
	if many, ok := t.([]string); ok {
		return append(append([]string(nil), many...), "null")
	}
	return []string{t.(string), "null"}
}

func describeField(f spec.Field) string {
	if f.Default == "" {
		return f.Doc
	}
	return fmt.Sprintf("%s. Default: %s", f.Doc, f.Default)
}

func valueSchema(t reflect.Type) *jsonSchema {
	if t.Kind() == reflect.Pointer {
		return valueSchema(t.Elem())
	}
	if w, ok := reflect.New(t).Interface().(spec.Scalar); ok {
		return &jsonSchema{Type: []string{"string", "number"}, Pattern: w.Pattern()}
	}
	if t == reflect.TypeFor[spec.Names]() {
		return &jsonSchema{Type: []string{"string", "array"}, Items: valueSchema(t.Elem())}
	}
	zero, most := 0, 1<<31-1
	switch t.Kind() {
	case reflect.Struct:
		return structSchema(t)
	case reflect.Slice:
		return &jsonSchema{Type: "array", Items: valueSchema(t.Elem())}
	case reflect.Map:
		return &jsonSchema{Type: "object", AdditionalProperties: valueSchema(t.Elem())}
	case reflect.Bool:
		return &jsonSchema{Type: "boolean"}
	case reflect.String:
		return &jsonSchema{Type: "string"}
	case reflect.Float64:
		return &jsonSchema{Type: "number", Minimum: &zero, Maximum: &most}
	}
	return &jsonSchema{Type: "integer", Minimum: &zero, Maximum: &most}
}
