package schema_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/policy/schema"
)

func ExampleJSONSchemas() {
	fmt.Println(slices.Sorted(maps.Keys(schema.JSONSchemas())))
	// Output: [platformconfig.json pricebook.json scalingpolicy.json]
}
