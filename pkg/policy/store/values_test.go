package store_test

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// values is a row of a table of test values for one field: accepted values and refused values. For a number, accepted contains the lowest
// and the highest accepted value and one value between them, and refused contains the values just outside this range.
type values struct {
	field    string // name of the document and path of the field: "policy.objective.wait"
	with     string // lines of the spec with $ in place of the value; they replace the lines of the base document with the same keys
	accepted string // accepted values, separated by spaces; empty: all values of an enumeration, or both booleans
	refused  string
}

// The base documents have one line for each field of the spec.
const (
	basePolicy = `scaleTargetRef: {name: llama}
minReplicas: 1
maxReplicas: 12
capacityGroup: chat
signals: [{name: s, type: vllm, target: 10}]`
	basePlatform = `dataSources: [{name: prom, type: prometheus, address: "http://prom"}, {name: r, type: redis, address: "r:6379"}]
queries: [{name: q, query: "sum by (namespace, pool) (queue_size)", workloadLabel: pool}]
teams: [{name: chat, namespaces: [team-chat], capacityGroups: [chat]}]
capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: s, on-demand: o}}]`
)

// documents returns the base documents. In the document of the given kind, the given lines replace lines of the spec.
func documents(kind, lines string) map[string]string {
	specs := map[string]string{"policy": basePolicy, "platform": basePlatform}
	written := map[string]bool{}
	for line := range strings.Lines(lines) {
		key, _, _ := strings.Cut(line, ":")
		written[key] = true
	}
	var kept []string
	for line := range strings.Lines(specs[kind]) {
		if key, _, _ := strings.Cut(line, ":"); !written[key] {
			kept = append(kept, strings.TrimSuffix(line, "\n"))
		}
	}
	specs[kind] = strings.Join(append(kept, lines), "\n")
	indented := func(s string) string { return "spec:\n  " + strings.ReplaceAll(s, "\n", "\n  ") + "\n" }
	return map[string]string{
		"policy.yaml":   head + "ScalingPolicy\nmetadata: {name: llama, namespace: team-chat}\n" + indented(specs["policy"]),
		"platform.yaml": head + "PlatformConfig\nmetadata: {name: prod}\n" + indented(specs["platform"]),
	}
}

// load returns the problems of documents. If there are only warnings, it also returns the values that the engine and the adapters receive
// from the documents.
func load(t *testing.T, texts map[string]string) ([]policy.Problem, map[string]string) {
	t.Helper()
	files := fstest.MapFS{}
	for name, text := range texts {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	policies := store.New(store.Options{})
	report := policies.LoadFS(files)
	if policy.Errors(report.Problems) > 0 {
		return report.Problems, nil
	}
	compiled := map[string]string{}
	flatten(compiled, "policy", reflect.ValueOf(policies.Find(key("llama"))))
	flatten(compiled, "platform", reflect.ValueOf(policies.Platform()))
	return report.Problems, compiled
}

// untested are the types of fields that this test omits: compiled windows, and fields that repeat parts of the documents.
var untested = map[reflect.Type]bool{
	reflect.TypeFor[calendar.Window](): true, reflect.TypeFor[spec.Group](): true, reflect.TypeFor[spec.Defaults](): true,
}

// flatten stores the exported fields below v that are not zero. The key of each field is its path.
func flatten(out map[string]string, path string, v reflect.Value) {
	if s, ok := v.Interface().(fmt.Stringer); ok && v.Kind() != reflect.Pointer && v.Kind() != reflect.Struct {
		out[path] = s.String()
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out[path] = "set"
			flatten(out, path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !untested[f.Type] && !v.Field(i).IsZero() {
				flatten(out, path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			flatten(out, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			flatten(out, fmt.Sprintf("%s[%v]", path, k), v.MapIndex(k))
		}
	case reflect.Func:
		out[path] = "set"
	default:
		out[path] = fmt.Sprint(v.Interface())
	}
}

// hashes matches the paths of fields that identify the text of a document instead of its meaning.
var hashes = regexp.MustCompile(`\.Origin$|\.Signals\[\d+\]\.Source$`)

// change returns the lines that differ between the flattened values of two documents.
func change(from, to map[string]string) (lines []string) {
	all := maps.Clone(from)
	maps.Copy(all, to)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if a, b := from[path], to[path]; a != b && !hashes.MatchString(path) {
			lines = append(lines, path+": "+cmp.Or(a, "-")+" -> "+cmp.Or(b, "-"))
		}
	}
	return lines
}

// Each value of the table is written into a valid document. A refused value must cause only one problem, about the field. The golden file
// contains how each accepted value changes the compiled documents. The first value of a row is compared with the base documents, and the
// other values with the first value. The table must contain every number, enumeration and boolean of the format.
func TestEveryFieldAcceptsItsRangeAndNothingElse(t *testing.T) {
	problems, base := load(t, documents("policy", ""))
	if len(problems) > 0 {
		t.Fatalf("the base documents have problems:\n%s", policy.Render(problems))
	}
	var out strings.Builder
	for _, line := range change(map[string]string{}, base) {
		fmt.Fprintln(&out, line)
	}
	enumerations, tested := enumerations(), map[string]bool{}
	for _, row := range valueTable {
		tested[row.field] = true
		fmt.Fprintf(&out, "\n%s: %s\n", row.field, strings.ReplaceAll(row.with, "\n", "; "))
		from := base
		for i, value := range strings.Fields(cmp.Or(row.accepted, enumerations[row.field])) {
			problems, compiled := load(t, row.documents(value))
			if compiled == nil {
				t.Errorf("%s: %s is refused:\n%s", row.field, value, policy.Render(problems))
				continue
			}
			fmt.Fprintf(&out, "  %s\n", value)
			for _, line := range change(from, compiled) {
				fmt.Fprintf(&out, "    %s\n", line)
			}
			if i == 0 {
				from = compiled
			}
		}
		for value := range strings.FieldsSeq(row.refused) {
			problems, compiled := load(t, row.documents(value))
			if compiled != nil || !names(problems, row.field) {
				t.Errorf("%s: %s: the problem does not name the field:\n%s", row.field, value, policy.Render(problems))
				continue
			}
			fmt.Fprintf(&out, "  %s is refused: %s\n", value, problems[0].Message)
		}
	}
	for field := range enumerations {
		if !tested[field] {
			t.Errorf("the table of values lacks %s", field)
		}
	}
	golden.Compare(t, "testdata/values.txt", out.String())
}

func (v *values) documents(value string) map[string]string {
	kind, _, _ := strings.Cut(v.field, ".")
	return documents(kind, strings.ReplaceAll(v.with, "$", value))
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// names reports whether there is exactly one problem, and whether it is about the field or an element of the field.
func names(problems []policy.Problem, field string) bool {
	_, path, _ := strings.Cut(field, ".")
	return len(problems) == 1 && strings.HasPrefix(index.ReplaceAllString(problems[0].Field, "")+".", "spec."+path+".")
}

// enumerations returns the path of each number, enumeration and boolean of both documents, with the values of enumerations and booleans.
func enumerations() map[string]string {
	out := map[string]string{}
	var walk func(path string, t reflect.Type)
	walk = func(path string, t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		_, isScalar := reflect.New(t).Interface().(spec.Scalar)
		switch k := t.Kind(); {
		case isScalar || k == reflect.Int || k == reflect.Int32 || k == reflect.Int64 || k == reflect.Float64:
			out[path] = ""
		case k == reflect.Bool:
			out[path] = "true false"
		case k == reflect.Struct:
			for _, f := range spec.FieldsOf(t).Fields {
				walk(path+"."+f.Name, t.Field(f.Index).Type)
				if len(f.Enum) > 0 {
					out[path+"."+f.Name] = strings.Join(f.Enum, " ")
				}
			}
		}
	}
	walk("policy", reflect.TypeFor[spec.Policy]())
	walk("platform", reflect.TypeFor[spec.Platform]())
	return out
}
