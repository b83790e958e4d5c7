package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

const schemaFile = "../../../config/schema/replay.md"

// The file config/schema/replay.md lists every field of the JSON, with the comment of the field in its Go source. A removed field or a
// changed type appears there as a difference and requires a new schema name.
func TestSchemaReferenceIsCurrent(t *testing.T) {
	s := schema{words: comments(t, "../evaluate/report.go", "../evaluate/gates.go", "../evaluate/admission.go", "../simulator/assumptions.go")}
	s.line("# Output of `gpuscaler replay -o json`")
	s.line("")
	s.line("Schema `%s`: new fields keep this name; a removed field or a changed meaning requires a new name. "+
		"Durations are seconds,\nshares are 0 to 1, money is $. *Not always* marks a field that can be absent. Several workloads in one "+
		"cluster are listed in\n`workloads`; the top-level fields are then their sums, or the values of the worst workload.", evaluate.Schema)
	s.line("")
	s.line("| field | type | | meaning |")
	s.line("|---|---|---|---|")
	s.fields("", reflect.TypeFor[evaluate.Report]())
	golden.Compare(t, schemaFile, s.out.String())
	for _, name := range s.bare {
		t.Errorf("%s has no description: add a comment after the field", name)
	}
	documented := map[string]bool{}
	for _, line := range strings.Split(s.out.String(), "\n") {
		if name, is := strings.CutPrefix(line, "| `"); is {
			name, _, _ = strings.Cut(name, "`")
			documented[name] = true
		}
	}
	b, err := json.Marshal(example(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	var report any
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	walk("", report, func(path string) {
		if !documented[path] {
			t.Errorf("the report contains %s, and the reference does not", path)
		}
	})
}

// walk calls visit with the path of every field of a document. A list element is name[].
func walk(path string, v any, visit func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			at := strings.TrimPrefix(path+"."+name, ".")
			if strings.HasSuffix(path, "costByCapacityType") || strings.HasSuffix(path, "ledgerGPUSeconds") {
				continue // the keys are capacity types and causes, and not names of fields
			}
			visit(at)
			walk(at, inner, visit)
		}
	case []any:
		for _, inner := range v {
			walk(path+"[]", inner, visit)
		}
	}
}

type schema struct {
	out   bytes.Buffer
	words map[string]string // comments of the fields; a key is Type.Field
	bare  []string
}

func (s *schema) line(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// fields writes the fields of a struct. It writes the fields of an embedded struct as fields of the outer struct.
func (s *schema) fields(path string, of reflect.Type) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if f.Anonymous && name == "" {
			s.fields(path, f.Type)
			continue
		}
		kind, inner, list := jsonType(f.Type)
		at, always := path+name, ""
		if strings.Contains(options, "omit") {
			always = "not always"
		}
		words := s.words[of.Name()+"."+f.Name]
		if words == "" && inner == nil {
			s.bare = append(s.bare, of.Name()+"."+f.Name)
		}
		s.line("| `%s` | %s | %s | %s |", at, kind, always, strings.ReplaceAll(words, "|", "\\|"))
		ofRun := inner == reflect.TypeFor[evaluate.WorkloadRun]()
		if inner != nil && !(inner == reflect.TypeFor[evaluate.Subject]() && list) && !ofRun {
			s.fields(at+element(list)+".", inner)
		} else if inner != nil {
			more := map[bool]string{true: ", and `policy`, `gpuHours` (GPU hours that its replicas held)"}[ofRun]
			s.line("| `%s[]...` | | | same as the top-level fields%s |", at, more)
		}
	}
}

func element(list bool) string {
	if list {
		return "[]"
	}
	return ""
}

// jsonType returns the JSON type of a Go type, and whether it is a list. inner is the struct type whose fields must be listed too, or nil.
func jsonType(of reflect.Type) (kind string, inner reflect.Type, list bool) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case of == reflect.TypeFor[time.Time]():
		return "time", nil, false
	case of == reflect.TypeFor[ledger.Ledger]():
		return "object", nil, false
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
		return "list", of.Elem(), true
	case of.Kind() == reflect.Slice:
		return "list of strings", nil, true
	case of.Kind() == reflect.Struct:
		return "object", of, false
	case of.Kind() == reflect.Map:
		return "object", nil, false
	case of.Kind() == reflect.Bool:
		return "true or false", nil, false
	case of.Kind() == reflect.String:
		return "string", nil, false
	}
	return "number", nil, false
}

// comments returns the trailing comments of the struct fields in Go files. A key is Type.Field.
func comments(t *testing.T, files ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			if fields, is := spec.Type.(*ast.StructType); is {
				for _, field := range fields.Fields.List {
					for _, id := range field.Names {
						out[spec.Name.Name+"."+id.Name] = strings.TrimSpace(strings.ReplaceAll(field.Comment.Text(), "\n", " "))
					}
				}
			}
			return true
		})
	}
	return out
}
