// Package openapi reads from the OpenAPI documents of an API server which fields an object of a kind can have.
package openapi

// Property contains the parts of an OpenAPI schema from which the fields of an object can be listed.
type Property struct {
	Properties map[string]Property `json:"properties"`
	Enum       []any               `json:"enum"`
	AllOf      []Property          `json:"allOf"`
}

// At returns the schema of the field at a path below p. ok is false if the field does not exist.
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
