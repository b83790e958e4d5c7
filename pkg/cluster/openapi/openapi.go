// Package openapi finds out which fields an object of a kind can have, from the OpenAPI documents of an API server.
package openapi

// Property is the part of an OpenAPI schema that lists fields.
type Property struct {
	Properties map[string]Property `json:"properties"`
	Enum       []any               `json:"enum"`
	AllOf      []Property          `json:"allOf"`
}

// At returns the schema of the field at a path below p; ok is false if the field does not exist.
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
