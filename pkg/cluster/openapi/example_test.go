package openapi_test

import (
	"encoding/json"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/openapi"
)

func ExampleProperty_At() {
	var schema openapi.Property
	if err := json.Unmarshal([]byte(`{"properties":{"spec":{"properties":{"limits":{}}}}}`), &schema); err != nil {
		fmt.Println(err)
	}
	_, limits := schema.At("spec", "limits")
	_, weight := schema.At("spec", "weight")
	fmt.Println(limits, weight)
	// Output: true false
}
