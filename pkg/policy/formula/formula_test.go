package formula

import (
	"math"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var formulaSignals = []scaling.Signal{{Name: "gateway"}, {Name: "gpu-busy"}}

func proposals(values ...float64) []scaling.Proposal {
	out := make([]scaling.Proposal, len(values))
	for i, v := range values {
		out[i] = scaling.Proposal{Value: v, Replicas: v / 10, Known: !math.IsNaN(v)}
	}
	return out
}

var missing = math.NaN()

func TestAFormulaIsAFunctionOfTheSignals(t *testing.T) {
	for _, c := range []struct {
		formula   string
		proposals []scaling.Proposal
		want      float64
		ok        bool
	}{
		{"max(gateway.replicas, gpu_busy.replicas)", proposals(40, 70), 7, true},
		{"min(gateway.replicas, gpu_busy.replicas, 5)", proposals(90, 70), 5, true},
		{"2 * gateway.replicas", proposals(40, 0), 8, true},
		{"gateway.value / 3", proposals(10, 0), 10.0 / 3, true},
		{"ceil(gateway.value / 3) + floor(1.5) - abs(-1)", proposals(10, 0), 4, true},
		{"replicas + ready", proposals(0, 0), 11, true},
		{"has(gateway.value) ? gateway.replicas : 3", proposals(40, 0), 4, true},
		{"has(gateway.value) ? gateway.replicas : 3", proposals(missing, 0), 3, true},
		{"has(gateway.value) ? gateway.replicas : gpu_busy.replicas", proposals(missing, missing), 0, false},
		{"gateway.replicas", proposals(missing, 0), 0, false},
		{"gateway.value > 5 && has(gpu_busy.value) ? gpu_busy.replicas : 1", proposals(missing, 20), 0, false},
		{"gateway.value > 5 ? 4 : 1", proposals(6, 0), 4, true},
		{"gateway.value >= 5 || gpu_busy.value < 1 ? 4 : 1", proposals(4, missing), 0, false},
		{"1 / gateway.value", proposals(0, 0), 0, false},
		{"gateway.value / gateway.value", proposals(0, 0), 0, false},
		{"0 - 1", proposals(0, 0), 0, false},
		{"-gateway.replicas", proposals(40, 0), 0, false},
		{"gateway.value == 40 ? 1e308 * 10.0 : 1", proposals(40, 0), 0, false},
	} {
		t.Run(c.formula, func(t *testing.T) {
			f, err := Compile(c.formula, formulaSignals)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := f(c.proposals, 6, 5)
			if ok != c.ok || ok && math.Abs(got-c.want) > 1e-12 {
				t.Errorf("= %v, %v; want %v, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestAFormulaWithoutANumericResultIsRejected(t *testing.T) {
	for text, says := range map[string]string{
		"gateway":                           "type Signal",
		"gateway.value > 5":                 "bool",
		"'five'":                            "string",
		"gateway.valeu":                     "undefined field 'valeu'",
		"gatway.value":                      `there is no "gatway", did you mean "gateway"?`,
		"gpu-busy.value":                    "there is no ",
		"max()":                             "no matching overload",
		"max(true, 1)":                      "no matching overload",
		"gateway.value +":                   "Syntax error",
		"[1, 2].all(x, x > 0) ? 1 : 2":      "there is no ",
		"has(gateway) ? 1 : 2":              "invalid argument to has()",
		strings.Repeat("1 + ", 300) + "1":   "longer than",
		strings.Repeat("(", 200) + "1":      "recursion",
		"":                                  "Syntax error",
		"dyn(1)":                            "dyn",
		"Signal{value: 1.0}":                "Signal",
		"duration('5m')":                    "not a number",
		"double(ready)":                     "double",
		"{'a': 2.0}.a":                      "a field of a value that is not a signal",
		"[gateway][0].value":                "no matching overload for '_[_]'",
		"[1.0, 2.0][0]":                     "_[_]",
		"gateway.value.value":               "does not support field selection",
		"has(gateway.value, gateway.value)": "",
	} {
		if f, err := Compile(text, formulaSignals); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: formula %v, error %v; want %q", text, f != nil, err, says)
		}
	}
}

// An expression that evaluate.go cannot compile must be rejected at every position in a formula.
func TestAnUnfitPartOfAFormulaIsRejected(t *testing.T) {
	for _, unfit := range []string{"double(ready)", "[1.0, 2.0][0]", "{'a': 2.0}.a"} {
		for _, place := range []string{"%s", "-(%s)", "1.0 + %s", "%s * 2.0", "max(%s, 1.0)", "min(1.0, ready, %s)", "ceil(%s)",
			"ready > 1.0 ? %s : 1.0", "ready > 1.0 ? 1.0 : %s", "%s > 1.0 ? 1.0 : 2.0", "1.0 <= %s ? 1.0 : 2.0", "%s == 1.0 ? 1.0 : 2.0",
			"ready > 1.0 && %s > 2.0 ? 1.0 : 2.0", "%s > 2.0 || ready > 1.0 ? 1.0 : 2.0", "!(%s > 2.0) ? 1.0 : 2.0"} {
			text := strings.ReplaceAll(place, "%s", unfit)
			if f, err := Compile(text, formulaSignals); err == nil || f != nil {
				t.Errorf("%s: formula %v, error %v", text, f != nil, err)
			}
		}
	}
}

func TestASignalNamedLikeAReservedWordIsRejected(t *testing.T) {
	for _, name := range []string{"ready", "max", "in", "true"} {
		if _, err := Compile("1", []scaling.Signal{{Name: name}}); err == nil ||
			!strings.Contains(err.Error(), "is a reserved word of formulas") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If a formula receives fewer proposals than it has signals, it must return no result and must not panic. Only a defect in the caller can
// cause this, and that defect must not end the tick.
func TestAFormulaWithTooFewProposalsIsUnknown(t *testing.T) {
	f, err := Compile("gpu_busy.value", formulaSignals)
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range [][]scaling.Proposal{nil, proposals(1)} {
		if v, ok := f(given, 1, 1); ok {
			t.Errorf("%d proposals: %v", len(given), v)
		}
	}
}

func FuzzFormula(f *testing.F) {
	for _, seed := range []string{"max(gateway.replicas, 2 * gpu_busy.replicas)", "has(gateway.value) ? gateway.value : ready",
		"ceil(replicas / 0)", "[1][0]", "'a' + 'b'", "size('x')"} {
		f.Add(seed, 10.0, 20.0, int32(3), int32(2))
	}
	f.Fuzz(func(t *testing.T, text string, a, b float64, replicas, ready int32) {
		formula, err := Compile(text, formulaSignals)
		if err != nil {
			return
		}
		for _, given := range [][]scaling.Proposal{proposals(a, b), proposals(missing, b), proposals(missing, missing), nil} {
			got, ok := formula(given, replicas, ready)
			if ok && (math.IsNaN(got) || math.IsInf(got, 0) || got < 0) {
				t.Fatalf("%q of %+v is %v", text, given, got)
			}
			if again, same := formula(given, replicas, ready); ok != same || ok && again != got {
				t.Fatalf("%q of %+v is %v, then %v", text, given, got, again)
			}
		}
	})
}

func BenchmarkFormula(b *testing.B) {
	f, err := Compile("has(gateway.value) ? max(gateway.replicas, gpu_busy.replicas) : replicas", formulaSignals)
	if err != nil {
		b.Fatal(err)
	}
	given := proposals(40, 70)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := f(given, 6, 5); !ok {
			b.Fatal("not known")
		}
	}
}
