package openapi

import (
	"encoding/json"
	"testing"
)

func TestAtFollowsPropertiesAndAllOf(t *testing.T) {
	var p Property
	text := `{"properties":{"spec":{"allOf":[{"properties":{"weight":{}}},{"properties":{"limits":{"properties":{"cpu":{}}}}}]}}}`
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	for _, path := range [][]string{{"spec"}, {"spec", "weight"}, {"spec", "limits", "cpu"}} {
		if _, ok := p.At(path...); !ok {
			t.Errorf("%v is not found", path)
		}
	}
	for _, path := range [][]string{{"status"}, {"spec", "replicas"}, {"spec", "weight", "cpu"}} {
		if _, ok := p.At(path...); ok {
			t.Errorf("%v is found", path)
		}
	}
}
