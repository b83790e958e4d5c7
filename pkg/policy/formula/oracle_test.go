package formula

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The oracle is CEL's interpreter. It evaluates the same formula with the same declarations, but without the code of evaluate.go.

// asking is a proposal whose fields CEL's interpreter can read.
type asking struct{ ask scaling.Proposal }

func (a asking) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("a signal has no Go value")
}
func (a asking) ConvertToType(ref.Type) ref.Val { return types.NewErr("a signal is not a value") }
func (a asking) Equal(other ref.Val) ref.Val    { return types.Bool(a == other) }
func (a asking) Type() ref.Type                 { return signalType }
func (a asking) Value() any                     { return a }

// oracleFields extends signalFields with the functions that CEL's interpreter needs to read the fields of a signal.
type oracleFields struct{ signalFields }

func (o oracleFields) FindStructFieldType(typeName, fieldName string) (*types.FieldType, bool) {
	t, ok := o.signalFields.FindStructFieldType(typeName, fieldName)
	if !ok {
		return nil, false
	}
	t.IsSet = func(target any) bool { return target.(asking).ask.Known }
	t.GetFrom = func(target any) (any, error) {
		a := target.(asking).ask
		switch {
		case !a.Known:
			return nil, errors.New("the signal is missing")
		case fieldName == "value":
			return a.Value, nil
		}
		return a.Replicas, nil
	}
	return t, true
}

func oracle(t interface{ Fatal(...any) }, text string) scaling.Formula {
	env, err := environment([]string{"gateway", "gpu_busy"})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := types.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	options := []cel.EnvOption{cel.CustomTypeProvider(oracleFields{signalFields{registry}})}
	bind := func(name string, n int, f func(args []float64) float64) {
		args := make([]*cel.Type, n)
		for i := range args {
			args[i] = cel.DoubleType
		}
		options = append(options, cel.Function(name, cel.Overload(fmt.Sprintf("%s_%d", name, n), args, cel.DoubleType,
			cel.FunctionBinding(func(vals ...ref.Val) ref.Val {
				given := make([]float64, n)
				for i, v := range vals {
					given[i] = float64(v.(types.Double))
				}
				return types.Double(f(given))
			}))))
	}
	for n := 1; n <= scaling.MaxSignals+2; n++ {
		bind("max", n, func(a []float64) float64 { return reduce(math.Max, a) })
		bind("min", n, func(a []float64) float64 { return reduce(math.Min, a) })
	}
	bind("ceil", 1, func(a []float64) float64 { return math.Ceil(a[0]) })
	bind("floor", 1, func(a []float64) float64 { return math.Floor(a[0]) })
	bind("abs", 1, func(a []float64) float64 { return math.Abs(a[0]) })
	if env, err = env.Extend(options...); err != nil {
		t.Fatal(err)
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	makeDoubles(parsed)
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		t.Fatal(text, issues.Err())
	}
	program, err := env.Program(checked)
	if err != nil {
		t.Fatal(err)
	}
	return func(proposals []scaling.Proposal, replicas, ready int32) (float64, bool) {
		out, _, err := program.Eval(map[string]any{"gateway": asking{proposals[0]}, "gpu_busy": asking{proposals[1]},
			"replicas": float64(replicas),
			"ready":    float64(ready)})
		if err != nil {
			return 0, false
		}
		v := float64(out.(types.Double))
		return v, !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0
	}
}

func reduce(f func(a, b float64) float64, all []float64) float64 {
	out := all[0]
	for _, v := range all[1:] {
		out = f(out, v)
	}
	return out
}

func drawNumber(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{"gateway.value", "gateway.replicas", "gpu_busy.value", "gpu_busy.replicas", "replicas", "ready", "0",
			"1", "2.5", "7"}).Draw(t, "leaf")
	}
	n := func() string { return drawNumber(t, depth-1) }
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		return "(" + n() + " + " + n() + ")"
	case 1:
		return "(" + n() + " - " + n() + ")"
	case 2:
		return "(" + n() + " * " + n() + ")"
	case 3:
		return "(" + n() + " / " + n() + ")"
	case 4:
		return rapid.SampledFrom([]string{"max", "min"}).Draw(t, "fold") + "(" + n() + ", " + n() + ")"
	case 5:
		return rapid.SampledFrom([]string{"ceil", "floor", "abs", "-"}).Draw(t, "rounding") + "(" + n() + ")"
	case 6, 7:
		return "(" + drawTruth(t, depth-1) + " ? " + n() + " : " + n() + ")"
	}
	return n()
}

func drawTruth(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{"has(gateway.value)", "has(gpu_busy.replicas)", "true", "false"}).Draw(t, "fact")
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return "(" + drawTruth(t, depth-1) + " && " + drawTruth(t, depth-1) + ")"
	case 1:
		return "(" + drawTruth(t, depth-1) + " || " + drawTruth(t, depth-1) + ")"
	case 2:
		return "!" + drawTruth(t, depth-1)
	}
	return "(" + drawNumber(t, depth-1) + rapid.SampledFrom([]string{" < ", " <= ", " > ", " >= ", " == ", " != "}).Draw(t, "comparison") +
		drawNumber(t, depth-1) + ")"
}

func TestAFormulaHasTheResultOfCELsInterpreter(t *testing.T) {
	known := 0
	rapid.Check(t, func(t *rapid.T) {
		text := drawNumber(t, rapid.IntRange(0, 4).Draw(t, "depth"))
		if len(text) > maxFormula {
			t.Skip("longer than maxFormula")
		}
		ours, err := Compile(text, formulaSignals)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		theirs := oracle(t, text)
		value := rapid.SampledFrom([]float64{0, 1, 7, 40.5, 1e9, missing})
		for range 5 {
			given := proposals(value.Draw(t, "gateway"), value.Draw(t, "gpu"))
			replicas, ready := rapid.Int32Range(0, 9).Draw(t, "replicas"), rapid.Int32Range(0, 9).Draw(t, "ready")
			want, wantOK := theirs(given, replicas, ready)
			got, ok := ours(given, replicas, ready)
			if ok != wantOK || ok && got != want {
				t.Fatalf("%s of %+v, %d, %d: ours %v %v, CEL's %v %v", text, given, replicas, ready, got, ok, want, wantOK)
			}
			if ok {
				known++
			}
		}
	})
	if known == 0 {
		t.Error("no formula had a result")
	}
}
