package schema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/policy/schema"
)

func TestThePublishedSchemasAndReferenceAreCurrent(t *testing.T) {
	for name, text := range schema.JSONSchemas() {
		golden.Compare(t, filepath.Join("../../../config/schema", name), string(text))
	}
	golden.Compare(t, "../../../config/schema/reference.md", schema.Reference())
}

// The schemas must accept the documents that `gpuscaler validate` accepts: the examples, and the valid documents in the tests of package
// store.
func TestTheSchemasAcceptWhatValidateAccepts(t *testing.T) {
	files, err := filepath.Glob("../../../config/examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	n := 0
	for _, file := range append(files, "../store/testdata/mistakes/policy.yaml", "../store/testdata/mistakes/platform.yaml",
		"../../../config/prices.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(strings.NewReader(string(text))); ; n++ {
			var doc any
			if d.Decode(&doc) != nil {
				break
			}
			for _, fault := range against(schemaFor(t, doc), doc, "") {
				t.Errorf("%s: %s", file, fault)
			}
		}
	}
	if n < 6 {
		t.Errorf("only %d documents were checked", n)
	}
}

func TestTheSchemasRejectAMisspelledFieldAndAnUnknownValue(t *testing.T) {
	base, err := os.ReadFile("../store/testdata/mistakes/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for old, wrong := range map[string]string{"maxReplicas: 12": "maxReplica: 12", "mode: auto": "mode: dry",
		"minReplicas: 1": "minReplicas: -1", "kind: ScalingPolicy": "kind: Policy",
		"cooldownPeriod: 15m": "cooldownPeriod: soon", "target: 80%": "target: [80]"} {
		var good, doc any
		if err := yaml.Unmarshal(base, &good); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(strings.Replace(string(base), old, wrong, 1)), &doc); err != nil {
			t.Fatal(err)
		}
		if faults := against(schemaFor(t, good), doc, ""); len(faults) == 0 {
			t.Errorf("%s: accepted", wrong)
		}
	}
}

func schemaFor(t *testing.T, doc any) map[string]any {
	t.Helper()
	kind, _ := doc.(map[string]any)["kind"].(string)
	var rules map[string]any
	if err := json.Unmarshal(schema.JSONSchemas()[strings.ToLower(kind)+".json"], &rules); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return rules
}

// against checks the value v against the JSON Schema in rules and returns the faults that it finds. It supports only the JSON Schema
// keywords that these schemas use.
func against(rules map[string]any, v any, path string) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, path+": "+fmt.Sprintf(format, args...)) }
	if types, ok := rules["type"]; ok && !hasType(types, v) {
		fault("%v is not of type %v", v, types)
		return faults
	}
	if c, ok := rules["const"]; ok && v != c {
		fault("%v is not %v", v, c)
	}
	if words, ok := rules["enum"].([]any); ok && !slices.Contains(words, v) {
		fault("%v is not one of %v", v, words)
	}
	if pattern, ok := rules["pattern"].(string); ok {
		if text, is := v.(string); is && !regexp.MustCompile(pattern).MatchString(text) {
			fault("%q does not match %s", text, pattern)
		}
	}
	if least, ok := rules["minimum"].(float64); ok {
		if n, is := asNumber(v); is && n < least {
			fault("%v is below %v", n, least)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		properties, _ := rules["properties"].(map[string]any)
		for name, value := range v {
			inner, known := properties[name].(map[string]any)
			if !known {
				inner, known = rules["additionalProperties"].(map[string]any)
			}
			if !known {
				fault("there is no %s", name)
				continue
			}
			faults = append(faults, against(inner, value, path+"."+name)...)
		}
		required, _ := rules["required"].([]any)
		for _, name := range required {
			if _, written := v[name.(string)]; !written {
				fault("%s is missing", name)
			}
		}
	case []any:
		for i, value := range v {
			faults = append(faults, against(rules["items"].(map[string]any), value, fmt.Sprintf("%s[%d]", path, i))...)
		}
	}
	return faults
}

func asNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func hasType(types, v any) bool {
	if many, ok := types.([]any); ok {
		return slices.ContainsFunc(many, func(t any) bool { return hasType(t, v) })
	}
	_, number := asNumber(v)
	switch types {
	case "object":
		_, ok := v.(map[string]any)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "string":
		if v == nil || number {
			return false
		}
		_, isBool := v.(bool)
		_, isMap := v.(map[string]any)
		_, isList := v.([]any)
		return !isBool && !isMap && !isList // YAML decodes a date as a timestamp, and the schema expects a string
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "integer":
		_, ok := v.(int)
		return ok
	case "number":
		return number
	case "null":
		return v == nil
	}
	return false
}
