package override

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

const everyField = nodepool.FieldSet(1<<nodepool.NumFields - 1)

// After a crash between the writes to two NodePools, their records differ. The newest record determines the phase of the group, in every
// order of the NodePools. A record of another group is ignored.
func TestNewestRecordSetsThePhase(t *testing.T) {
	older := `{"v":1,"group":"chat","resource":"nvidia.com/gpu","revision":3,"spot":{"phase":2,"level":1,"since":1795392000000,"limit":4},` +
		`"fields":[{"path":"/spec/weight","on":true,"original":"80","value":"19"}]}`
	newer := `{"v":1,"group":"chat","resource":"nvidia.com/gpu","revision":5,"spot":{"phase":1,"level":2,"since":1795392001000},` +
		`"fields":[{"path":"/spec/weight","on":true,"original":"20","value":"81"}]}`
	other := strings.Replace(newer, `"chat","resource":"nvidia.com/gpu","revision":5`, `"batch","resource":"nvidia.com/gpu","revision":9`, 1)
	for _, order := range [][]string{{older, newer}, {newer, older}, {newer, strings.Replace(other, `"phase":1`, `"phase":3`, 1)}} {
		fs := newFields()
		s := fs.State
		for i, text := range order {
			if !fs.load(i, text, everyField) {
				t.Errorf("%s was not read", text)
			}
		}
		if s.Spot.Phase != statemachine.Fallback || s.Spot.Level != 2 || !s.Pools[0].Overrides[nodepool.FieldWeight].On ||
			!s.Pools[1].Overrides[nodepool.FieldWeight].On {
			t.Errorf("%+v", s.Spot)
		}
	}
}

func TestForeignRecordIsNotRead(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":                     `weight=20`,
		"another version":             `{"v":2,"fields":[]}`,
		"a field of another":          `{"v":1,"fields":[],"template":{}}`,
		"two records":                 `{"v":1,"fields":[]}{"v":1,"fields":[]}`,
		"a phase that does not exist": `{"v":1,"spot":{"phase":9},"fields":[]}`,
		"a freeze of another form":    `{"v":1,"freeze":{"begin":1},"fields":[]}`,
		"a field that is no lever":    `{"v":1,"fields":[{"path":"/spec/template/spec/requirements","on":true,"original":"[]"}]}`,
		"an original without end": `{"v":1,"fields":[{"path":"/spec/weight","on":true,"original":"` + strings.Repeat("9",
			maxOriginal+1) + `"}]}`,
		"too long": `{"v":1,"group":"` + strings.Repeat("x", maxRecord) + `","fields":[]}`,
	} {
		fs := newFields()
		s := fs.State
		if fs.load(0, text, everyField) {
			t.Errorf("%s was read", name)
		}
		for f := range nodepool.NumFields {
			if s.Pools[0].Overrides[f].On {
				t.Errorf("%s: %v is overridden", name, f)
			}
		}
	}
}

func TestStampsOfAnotherClockAreClipped(t *testing.T) {
	fs := newFields()
	for at, want := range map[int64]int64{
		0:            0,
		midnight:     midnight,
		2 * midnight: midnight + longYield.Milliseconds(),
		1:            midnight - maxStampAge.Milliseconds(),
	} {
		if got := fs.clip(at); got != want {
			t.Errorf("the time %d is read as %d, want %d", at, got, want)
		}
	}
}

// The record identifies each field by a JSON pointer.
func TestRecordNamesFieldsByJSONPointer(t *testing.T) {
	fs, want := newFields(), map[string]bool{"/spec/weight": true, "/spec/disruption/consolidateAfter": true,
		"/spec/disruption/consolidationPolicy": true, "/spec/disruption/budgets": true, "/spec/limits/nvidia.com~1gpu": true,
		"/spec/limits/a~0b~1c.d": true, "/spec/limits/limits": true, "/spec/limits/cpu": true}
	fs.State.Limits = Limits{"nvidia.com/gpu", "a~b/c.d", "limits", "cpu"}
	for f := range nodepool.NumFields {
		fs.State.Pools[0].Overrides[f] = Override{On: true, To: "4"}
	}
	var record struct {
		Fields []struct{ Path string } `json:"fields"`
	}
	if err := json.Unmarshal([]byte(fs.encode(0)), &record); err != nil {
		t.Fatal(err)
	}
	for _, f := range record.Fields {
		if !want[f.Path] {
			t.Errorf("the record has %q", f.Path)
		}
		delete(want, f.Path)
	}
	if len(want) > 0 {
		t.Errorf("the record does not have %v", want)
	}
}

// FuzzRecord reads arbitrary text as the record annotation of a NodePool. The encoded state must have a bounded size, and must not change
// when it is read and encoded again.
func FuzzRecord(f *testing.F) {
	f.Add("")
	f.Add(`{"v":1,"group":"chat","resource":"nvidia.com/gpu","revision":5,"spot":{"phase":3,"level":2,"since":1795392000000},` +
		`"freeze":{"start":1,"empty":2,"inUse":3},"fields":[{"path":"/spec/weight","on":true,"original":"20","owner":"kubectl","value":"81",` +
		`"rule":5,"since":1795392000000}]}`)
	f.Add(`{"v":1,"fields":[{"path":"/spec/limits/"},{"path":"/spec/limits/a","overwrites":255},{"path":"/spec/template"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		fs := newFields()
		fs.load(0, text, everyField)
		first := fs.encode(0)
		if len(text) < 4<<10 && len(first) > 64<<10 {
			t.Errorf("a record of %d bytes is encoded again with %d bytes", len(text), len(first))
		}
		if first == "" {
			return
		}
		again := newFields()
		if !again.load(0, first, everyField) {
			t.Fatalf("the encoded record %s cannot be read", first)
		}
		if second := again.encode(0); second != first {
			t.Errorf("the record changes when it is read and encoded again:\n%s\n%s", first, second)
		}
		GroupOf(text)
	})
}
