package capacity

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// fill sets every number, flag and string in v to a different non-zero value. The parameter n is the number of values that were set
// before. fill returns the new number.
func fill(v reflect.Value, n int) int {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !strings.HasSuffix(v.Type().Field(i).PkgPath, "/override") { // in package override, an unexported field is a cache
				n = fill(v.Field(i), n)
			}
		}
		return n
	case reflect.Array:
		for i := range v.Len() {
			n = fill(v.Index(i), n)
		}
		return n
	case reflect.Pointer:
		return n
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("\"text\" " + string(rune('a'+n%26)))
	case reflect.Uint64:
		v.SetUint(math.MaxUint64 - uint64(n))
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(1 + n%250))
	default:
		v.SetInt(int64(n + 1))
	}
	return n + 1
}

// TestSnapshotContainsTheWholeState fails if a snapshot does not contain a field of the state.
func TestSnapshotContainsTheWholeState(t *testing.T) {
	g, err := NewGroup(Group{Name: "gpu", Resource: "nvidia.com/gpu", Pools: []Pool{{Name: "spot", Type: Spot}}})
	if err != nil {
		t.Fatal(err)
	}
	state := State{group: g}
	n := fill(reflect.ValueOf(&state).Elem(), 0)
	if n < 200 {
		t.Errorf("%d values in a state", n)
	}
	text, err := state.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := DecodeState(g, text); err != nil || again != state {
		t.Errorf("%v\nbefore the snapshot %+v\nafter it %+v", err, state, again)
	}
}

func TestOtherJSONIsNoState(t *testing.T) {
	for _, text := range []string{"", "{}", "[]", "[1]", "null"} {
		if _, err := DecodeState(nil, json.RawMessage(text)); err == nil {
			t.Errorf("%q was decoded as a state", text)
		}
	}
}

func TestOverridesAreListedUntilRestored(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	var s State
	if overrides := s.Overrides(nil); len(overrides) != 0 {
		t.Errorf("before the first tick: %+v", overrides)
	}
	c.run(10 * time.Minute)
	overrides := c.s.Overrides(nil)
	if len(overrides) != 2 {
		t.Fatalf("with a zero limit: %+v", overrides)
	}
	n := overrides[0]
	if n.Pool != "l40s-spot" || n.Name() != "limits[nvidia.com/gpu]" || n.Value != `"0"` || n.Original != "16" || n.Owner != "kubectl" ||
		n.Rule != explain.RuleZeroLimit || n.Releasing || n.Since.IsZero() || !n.Until.IsZero() {
		t.Errorf("the zero limit is shown as %+v", n)
	}
	c.ahead = []Span{{From: c.now.Add(30 * time.Second), Until: c.now.Add(time.Hour), GPUs: 2}}
	c.run(time.Minute)
	overrides = c.s.Overrides(nil)
	if len(overrides) != 2 || overrides[0].Field != nodepool.FieldBudgets || overrides[0].Until.Before(c.now) {
		t.Errorf("zero limits before known demand: %+v", overrides)
	}
}
