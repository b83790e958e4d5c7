package capacity

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
)

// fieldCases lists every field with its path in Karpenter's API.
var fieldCases = []struct {
	field    nodepool.Field
	resource string
	path     nodepool.Path
	pointer  string
	text     string // the name of the field in messages
	value    nodepool.Value
}{
	{nodepool.FieldWeight, "", nodepool.Path{"spec", "weight"}, "/spec/weight", "weight", "4"},
	{nodepool.FieldConsolidateAfter, "", nodepool.Path{"spec", "disruption", "consolidateAfter"}, "/spec/disruption/consolidateAfter",
		"disruption.consolidateAfter", `"Never"`},
	{nodepool.FieldConsolidationPolicy, "", nodepool.Path{"spec", "disruption", "consolidationPolicy"}, "/spec/disruption/consolidationPolicy",
		"disruption.consolidationPolicy", `"WhenEmpty"`},
	{nodepool.FieldBudgets, "", nodepool.Path{"spec", "disruption", "budgets"}, "/spec/disruption/budgets", "disruption.budgets",
		`[{"nodes":"0"}]`},
	{nodepool.FieldLimit, "nvidia.com/gpu", nodepool.Path{"spec", "limits", "nvidia.com/gpu"}, "/spec/limits/nvidia.com~1gpu",
		"limits[nvidia.com/gpu]", `"4"`},
	{nodepool.FieldLimit + 1, "a~b/c.d", nodepool.Path{"spec", "limits", "a~b/c.d"}, "/spec/limits/a~0b~1c.d", "limits[a~b/c.d]", `"4"`},
	{nodepool.FieldLimit + 2, "limits", nodepool.Path{"spec", "limits", "limits"}, "/spec/limits/limits", "limits[limits]", `"4"`},
	{nodepool.FieldLimit + 3, "cpu", nodepool.Path{"spec", "limits", "cpu"}, "/spec/limits/cpu", "limits[cpu]", `"4"`},
}

// For every field, four properties must match its entry of fieldTable: the path in the patch, the name in messages, the path in the
// record annotation, and the format of the value.
func TestEveryFieldHasOnePathForPatchTextAndRecord(t *testing.T) {
	if len(fieldCases) != int(nodepool.NumFields) {
		t.Fatalf("%d cases for %d fields", len(fieldCases), nodepool.NumFields)
	}
	var s State
	for _, c := range fieldCases {
		change := override.Change{Field: c.field, Resource: c.resource, From: "1", To: c.value, Rule: explain.RuleSchedule}
		shown := override.Current{Field: c.field, Resource: c.resource}
		if !slices.Equal(change.Path(), c.path) || !slices.Equal(shown.Path(), c.path) || change.Path().Pointer() != c.pointer {
			t.Errorf("%s: path %q, pointer %s", c.text, change.Path(), change.Path().Pointer())
		}
		text := NodePoolPatch{"spot", override.Patch{Changes: []override.Change{change}}}.Text()
		if want := "spot spec." + c.text + ": 1 -> " + string(c.value) + "  (schedule)\n"; text != want {
			t.Errorf("text %q, want %q", text, want)
		}
		if change.Name() != c.text || shown.Name() != c.text || "spec."+c.text != change.Path().String() {
			t.Errorf("%s is named %s, %s and %s", c.text, change.Name(), shown.Name(), change.Path())
		}
		if f, ok := s.Limits.FieldAt(c.pointer); !ok || f != c.field {
			t.Errorf("%s is field %d, %v, want %d", c.pointer, f, ok, c.field)
		}
		if c.field == nodepool.FieldWeight || c.field >= nodepool.FieldLimit {
			if got := c.field.Number(4); got != c.value {
				t.Errorf("%s: the number 4 is written as %s, want %s", c.text, got, c.value)
			}
		} else if c.field != nodepool.FieldBudgets && c.field.Text(strings.Trim(string(c.value), `"`)) != c.value {
			t.Errorf("%s: %s", c.text, c.value)
		}
	}
}

func TestOtherPathsAreNoField(t *testing.T) {
	for _, pointer := range []string{"", "/", "weight", "/spec", "/spec/limits", "/spec/limits/", "/spec/limits/a/b", "/spec/template",
		"limits[cpu]"} {
		var s State
		if f, ok := s.Limits.FieldAt(pointer); ok {
			t.Errorf("%q is field %d", pointer, f)
		}
	}
}
