package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// value is a value of the chart.
type value struct {
	path        []string // keys from the root of the values, for example: page, tenants, port
	initial     string   // the default as values.yaml writes it
	description string
	group       bool // the value is a mapping that contains other values
}

func (v value) name() string { return strings.Join(v.path, ".") }

// valuesOf returns the values of a mapping in values.yaml, in the order of the file. For a nested mapping whose properties the schema
// lists, it also returns the values in this mapping.
func valuesOf(t *testing.T, node *yaml.Node, schema map[string]any, path ...string) (all []value) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for i := 0; i < len(node.Content); i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		below, ok := properties[key.Value].(map[string]any)
		if !ok {
			t.Errorf("the schema has no %s", strings.Join(append(path, key.Value), "."))
			continue
		}
		v := value{path: append(append([]string{}, path...), key.Value), description: description(key, content)}
		if _, is := below["properties"].(map[string]any); is && content.Kind == yaml.MappingNode && len(content.Content) > 0 {
			v.group = true
			all = append(append(all, v), valuesOf(t, content, below, v.path...)...)
			continue
		}
		v.initial = flow(t, content)
		all = append(all, v)
	}
	return all
}

// description returns the text of the comments above a value and at the end of its line. It omits examples, which begin with a hyphen, and
// their comments.
func description(nodes ...*yaml.Node) string {
	var words []string
	for _, n := range nodes {
		for line := range strings.Lines(n.HeadComment + "\n" + n.LineComment) {
			text := strings.TrimPrefix(strings.TrimSpace(line), "#")
			if strings.HasPrefix(text, " - ") || strings.HasPrefix(text, "   ") {
				continue
			}
			words = append(words, strings.Fields(text)...)
		}
	}
	return strings.Join(words, " ")
}

// flow returns a YAML value in one line.
func flow(t *testing.T, n *yaml.Node) string {
	t.Helper()
	var content any
	if err := n.Decode(&content); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// chartValues returns the values of the chart and its schema.
func chartValues(t *testing.T) (values []value, schema map[string]any) {
	t.Helper()
	root, err := Directory()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(filepath.Join(root, "values.yaml")); err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return valuesOf(t, document.Content[0], schema), schema
}

const readmeHead = `# Helm chart of gpuscaler

This chart installs gpuscaler, which computes the replicas of GPU workloads. The [quick start](../../README.md#quick-start) has the
commands of an installation. [Operate](../../config/guides/operation.md) describes upgrades, monitoring and the uninstallation.

The table lists all values. [values.yaml](values.yaml) also has examples. Helm refuses a misspelled value, and a misspelled field of
the PlatformConfig or of a policy, because ` + "`values.schema.json`" + ` contains their schemas.

This page is generated from the comments in values.yaml. To change it, run ` + "`UPDATE_GOLDEN=1 go test ./chart`" + ` in e2e.

| value | default | description |
|---|---|---|
`

// The README of the chart must list every value, and each value must have a description, which is its comment in values.yaml.
func TestReadmeOfTheChartListsTheValues(t *testing.T) {
	values, _ := chartValues(t)
	var b strings.Builder
	b.WriteString(readmeHead)
	for _, v := range values {
		if v.description == "" && !v.group {
			t.Errorf("values.yaml has no comment for %s", v.name())
		}
		if v.group && v.description == "" {
			continue
		}
		initial := ""
		if !v.group {
			initial = "`" + v.initial + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.name(), initial, strings.ReplaceAll(v.description, "|", `\|`))
	}
	golden.Compare(t, "../../charts/gpuscaler/README.md", b.String())
}

// The schema must describe each value with the value's comment in values.yaml, and must contain the schemas of the PlatformConfig and of
// policies.
func TestSchemaDescribesTheValues(t *testing.T) {
	values, whole := chartValues(t)
	properties := whole["properties"].(map[string]any)
	for _, v := range values {
		at := whole
		for _, name := range v.path {
			at = at["properties"].(map[string]any)[name].(map[string]any)
		}
		if delete(at, "description"); v.description != "" {
			at["description"] = v.description
		}
	}
	platform := documentSchema(t, "platformconfig.json")["properties"].(map[string]any)["spec"].(map[string]any)
	platform["description"] = properties["platform"].(map[string]any)["description"]
	properties["platform"] = platform
	properties["policies"].(map[string]any)["items"] = documentSchema(t, "scalingpolicy.json")
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(whole); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../../charts/gpuscaler/values.schema.json", b.String())
}

// documentSchema returns the schema of a kind of document, without the keywords that are not allowed in a nested schema.
func documentSchema(t *testing.T, name string) (s map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../config/schema", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	delete(s, "$schema")
	delete(s, "$id")
	return s
}

// policy returns a valid policy, as a value of the chart.
func policy(name string) map[string]any {
	return map[string]any{"apiVersion": "gpuscaler.io/v1alpha1", "kind": "ScalingPolicy",
		"metadata": map[string]any{"name": name, "namespace": "team-chat"},
		"spec": map[string]any{"scaleTargetRef": map[string]any{"name": name}, "maxReplicas": 3,
			"signals": []any{map[string]any{"name": "busy", "type": "dcgm", "target": 60}}}}
}

// The chart must refuse a misspelled field of the PlatformConfig or of a policy before the installation, with the path of the field.
func TestMisspelledFieldsOfDocumentsAreRefused(t *testing.T) {
	misspelled := policy("chat")
	misspelled["spec"].(map[string]any)["maxReplica"] = 3
	for name, c := range map[string]struct {
		values map[string]any
		want   string
	}{
		"platform": {map[string]any{"platform": map[string]any{"dataSources": []any{
			map[string]any{"name": "prom", "type": "prometheus", "adress": "http://prometheus:9090"}}}}, "adress"},
		"policy": {map[string]any{"policies": []any{policy("embed"), misspelled}}, "maxReplica"},
	} {
		r := release("hpa")
		maps.Copy(r.Values, c.values)
		if _, err := Templates(r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %s", name, err, c.want)
		}
	}
}

// The chart must write each policy in the value policies to a file of the release, and must refuse two policies with the same name.
func TestPoliciesBecomeFiles(t *testing.T) {
	r := release("hpa")
	r.Values["policies"] = []any{policy("chat"), policy("embed")}
	r.Values["files"] = map[string]any{"chat.yaml": "kind: ScalingPolicy\n"}
	objects, err := Render(r, "config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := objects[len(objects)-1].Object["data"].(map[string]any)
	for name, part := range map[string]string{"chat.yaml": "kind: ScalingPolicy", "team-chat.chat.yaml": "name: chat",
		"team-chat.embed.yaml": "name: embed"} {
		if text, _ := files[name].(string); !strings.Contains(text, part) {
			t.Errorf("%s is %q", name, text)
		}
	}
	r.Values["policies"] = []any{policy("chat"), policy("chat")}
	if _, err := Templates(r); err == nil || !strings.Contains(err.Error(), "the policy team-chat.chat already exists") {
		t.Errorf("two policies with one name: %v", err)
	}
}

// Without an image, the installation must be refused with one sentence that names the value and the next step.
func TestUnsetImageIsRefused(t *testing.T) {
	r := release("hpa")
	r.Values["image"] = map[string]any{}
	_, err := Templates(r)
	if err == nil || !strings.Contains(err.Error(), "image.repository is not set: build an image") || strings.Contains(err.Error(), "\n") {
		t.Errorf("without an image: %v", err)
	}
}
