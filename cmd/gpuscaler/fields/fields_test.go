// Package fields_test checks that every field of the documents has an effect. Each field has a probe, which changes only that field and
// observes the result: a target, a query, a write, a refusal or a computed cost. Output that only repeats the field's value does not count
// as an effect.
package fields_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy/schema"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// docSet contains the documents of a probe. The keys are "policy", "policy2", "platform" and "book". A value is a document as
// yaml.Unmarshal returns it.
type docSet map[string]any

// edit contains values of fields by document and path. A key has the form "platform spec.teams[0].name".
type edit map[string]any

// absent is the value of an edit that removes the field.
type absent struct{}

// fieldProbe changes one field of the documents and observes the effect.
type fieldProbe struct {
	field string // kind and path, with indexes: "policy spec.signals[0].target"
	was   any    // value before the change; nil: the value in the base documents
	is    any    // the changed value
	with  edit   // edits of the documents both before and after the change
	also  edit   // edits of the documents only after the change, for fields that must be set together
	see   func(t *testing.T, d docSet) []string
}

const basePolicy = `
apiVersion: gpuscaler.io/v1alpha1
kind: ScalingPolicy
metadata: {name: llama, namespace: team-chat}
spec:
  scaleTargetRef: {name: llama}
  minReplicas: 1
  maxReplicas: 20
  signals:
  - {name: queue, type: redis, source: jobs, listName: jobs, target: 10}
`

const basePlatform = `
apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: prod}
spec:
  dataSources:
  - {name: jobs, type: redis, address: "redis:6379"}
`

const baseBook = `
apiVersion: gpuscaler.io/v1alpha1
kind: PriceBook
metadata: {name: prices}
spec:
  regions:
  - name: us-east-1
    source: "https://example.com"
    asOf: "2026-07-20"
    instanceTypes:
    - {name: g5.xlarge, gpus: 1, on-demand: 1.0, spot: 0.4, reserved: 0.6}
`

// notProbed contains the fields without a probe, each with the reason. These fields only identify or date a document.
var notProbed = map[string]string{
	"policy apiVersion":           "another version is refused; package policy tests it",
	"policy kind":                 "another kind is another document",
	"platform apiVersion":         "as of a policy",
	"platform kind":               "as of a policy",
	"platform metadata.namespace": "refused; package policy tests it",
	"book apiVersion":             "as of a policy",
	"book kind":                   "as of a policy",
	"book metadata.name":          "the name of the document",
	"book metadata.namespace":     "a price book is a file; the field is part of the metadata that all kinds share",
	"book spec.regions[].source":  "provenance, required for each price list because a price without a source cannot be checked",
	"book spec.regions[].asOf":    "provenance, as source",
}

func (d docSet) clone() docSet {
	out := docSet{}
	for kind, tree := range d {
		out[kind] = copied(tree)
	}
	return out
}

func copied(tree any) (out any) {
	text, err := yaml.Marshal(tree)
	if err != nil {
		panic(err)
	}
	if err := yaml.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

func baseDocuments(t *testing.T) docSet {
	t.Helper()
	out := docSet{}
	for kind, text := range map[string]string{"policy": basePolicy, "platform": basePlatform, "book": baseBook} {
		var tree any
		if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		out[kind] = tree
	}
	return out
}

var step = regexp.MustCompile(`\[(\d+)\]|([^.\[\]]+)`)

// set sets the value of the field at, for example "platform spec.teams[0].name". It creates missing mappings and lists of the path.
func (d docSet) set(at string, value any) {
	kind, path, _ := strings.Cut(at, " ")
	var steps []any
	for _, m := range step.FindAllStringSubmatch(path, -1) {
		if m[1] != "" {
			i, _ := strconv.Atoi(m[1])
			steps = append(steps, i)
		} else {
			steps = append(steps, m[2])
		}
	}
	d[kind] = setIn(d[kind], steps, value)
}

func setIn(tree any, steps []any, value any) any {
	if len(steps) == 0 {
		return copied(value) // several probes share a value, and a later edit would change the shared value
	}
	if i, ok := steps[0].(int); ok {
		list, _ := tree.([]any)
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = setIn(list[i], steps[1:], value)
		return list
	}
	m, _ := tree.(map[string]any)
	if m == nil {
		m = map[string]any{}
	}
	name := steps[0].(string)
	if _, gone := value.(absent); gone && len(steps) == 1 {
		delete(m, name)
		return m
	}
	m[name] = setIn(m[name], steps[1:], value)
	return m
}

func (d docSet) edit(all edit) {
	for _, at := range slices.Sorted(maps.Keys(all)) {
		d.set(at, all[at])
	}
}

// text returns one document as YAML.
func (d docSet) text(kind string) string {
	out, err := yaml.Marshal(d[kind])
	if err != nil {
		panic(err)
	}
	return string(out)
}

// variants returns the documents before and after the change of the probed field.
func (p *fieldProbe) variants(t *testing.T) (before, after docSet) {
	before = baseDocuments(t)
	before.edit(p.with)
	if p.was != nil {
		before.set(p.field, p.was)
	}
	after = before.clone()
	after.set(p.field, p.is)
	after.edit(p.also)
	return before, after
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// name returns the path of the field in the schema. If the field is a key that users choose, such as a label, it returns the path of the
// mapping that contains the key.
func (p *fieldProbe) name(known map[string]bool) string {
	name := listIndex.ReplaceAllString(p.field, "[]")
	for !known[name] && strings.Contains(name, ".") {
		if known[name+"[]"] {
			return name + "[]"
		}
		name = name[:strings.LastIndex(name, ".")]
	}
	return name
}

// formatFields lists every field of the format, read from the published schemas.
func formatFields(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	var walk func(s map[string]any, path string)
	walk = func(s map[string]any, path string) {
		if items, ok := s["items"].(map[string]any); ok {
			walk(items, path+"[]")
			return
		}
		properties, _ := s["properties"].(map[string]any)
		if properties == nil {
			out[path] = true
			return
		}
		for name, of := range properties {
			separator := "."
			if strings.HasSuffix(path, " ") {
				separator = ""
			}
			walk(of.(map[string]any), path+separator+name)
		}
	}
	for file, kind := range map[string]string{"scalingpolicy.json": "policy", "platformconfig.json": "platform", "pricebook.json": "book"} {
		var s map[string]any
		if err := json.Unmarshal(schema.JSONSchemas()[file], &s); err != nil {
			t.Fatal(err)
		}
		walk(s, kind+" ")
	}
	return out
}

// TestEveryFieldHasAnEffect fails for a field without a fieldProbe, for a probe of a field that does not exist, and for a field whose
// change does not change the observed result.
func TestEveryFieldHasAnEffect(t *testing.T) {
	known := formatFields(t)
	probed := map[string]bool{}
	var all []fieldProbe
	for _, part := range [][]fieldProbe{targetProbes(), queryProbes(), sourceProbes(t), groupProbes(), writeProbes(), priceProbes(t),
		refusalProbes()} {
		all = append(all, part...)
	}
	all = append(all, defaultsProbes(all)...)
	for i := range all {
		p := &all[i]
		name := p.name(known)
		if !known[name] {
			t.Errorf("the field %s does not exist", p.field)
			continue
		}
		probed[name] = true
		t.Run(strings.ReplaceAll(p.field, " ", "/"), func(t *testing.T) {
			t.Parallel()
			before, after := p.variants(t)
			if before.text("policy") == after.text("policy") && before.text("platform") == after.text("platform") &&
				before.text("book") == after.text("book") {
				t.Fatal("both variants are the same")
			}
			first, again, second := p.see(t, before), p.see(t, before), p.see(t, after)
			if !slices.Equal(first, again) {
				t.Errorf("two runs with the same value differ:\n%s\nand\n%s", strings.Join(first, "\n"), strings.Join(again, "\n"))
			}
			if slices.Equal(first, second) {
				t.Errorf("changing the value has no effect:\n%s", strings.Join(first[:min(len(first), 6)], "\n"))
			}
		})
	}
	for name := range known {
		switch why := notProbed[name]; {
		case why == "" && !probed[name]:
			t.Errorf("%s has no probe: show a target, query, write, refusal or cost that its value changes, or remove the field", name)
		case why != "" && probed[name]:
			t.Errorf("%s has a probe and an exemption", name)
		}
	}
	for name := range notProbed {
		if !known[name] {
			t.Errorf("the exempted field %s does not exist", name)
		}
	}
}

// loaded loads the documents into a store. refused contains a line for each problem that is not a warning, with its document and field.
func loaded(t *testing.T, d docSet) (s *store.Store, refused []string) {
	t.Helper()
	dir := t.TempDir()
	for _, kind := range []string{"platform", "policy", "policy2"} {
		if d[kind] == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, kind+".yaml"), []byte(d.text(kind)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = store.New(store.Options{})
	for _, p := range s.Load(dir).Problems {
		if !p.Warning {
			refused = append(refused, fmt.Sprintf("refused: %s %s: %s", p.Document, p.Field, strings.ReplaceAll(p.Message, dir, "")))
		}
	}
	return s, refused
}

// good returns a store with the documents, and fails the test if one of them is refused.
func good(t *testing.T, d docSet) *store.Store {
	t.Helper()
	s, refused := loaded(t, d)
	if len(refused) > 0 {
		t.Fatalf("%s\nin\n%s\n%s", strings.Join(refused, "\n"), d.text("platform"), d.text("policy"))
	}
	return s
}

// refusals returns the problems for which the documents are refused.
func refusals(t *testing.T, d docSet) []string {
	_, refused := loaded(t, d)
	return refused
}
