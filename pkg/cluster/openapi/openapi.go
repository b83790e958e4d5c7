// Package openapi reads which fields an API server has, from its OpenAPI documents.
package openapi

// Property is the part of an OpenAPI schema that lists fields.
type Property struct {
	Properties map[string]Property `json:"properties"`
	Enum       []any               `json:"enum"`
	AllOf      []Property          `json:"allOf"`
}

// At returns the schema of a field below this one; ok is false if the field does not exist.
func (p Property) At(path ...string) (field Property, ok bool) {
	for _, name := range path {
		next, found := p.Properties[name]
		for i := 0; !found && i < len(p.AllOf); i++ {
			next, found = p.AllOf[i].Properties[name]
		}
		if !found {
			return Property{}, false
		}
		p = next
	}
	return p, true
}
