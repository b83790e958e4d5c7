package policy

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// maxFormula bounds the text; a formula over eight signals that somebody can still read has about 300 characters.
	maxFormula = 1000
	// maxFormulaCost bounds one evaluation in CEL's units; the longest text allowed costs less than a thousand.
	maxFormulaCost = 2000

	signalTypeName = "Signal"
)

// reserved are the words of a formula that no signal can have as its name.
var reserved = []string{"replicas", "ready", "max", "min", "ceil", "floor", "abs", "has", "true", "false", "null", "in", "as", "break", "const", "continue", "else",
	"for", "function", "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while", "double", "int", "uint",
	"string", "bytes", "bool", "list", "map", "type", "dyn", "size", "duration", "timestamp", "matches", "contains"}

// identifier is what a formula calls a signal.
func identifier(name string) string { return strings.ReplaceAll(name, "-", "_") }

// asking is one signal of one evaluation, as a formula sees it.
type asking struct{ ask scaling.Ask }

var signalType = cel.ObjectType(signalTypeName)

func (a asking) ConvertToNative(reflectType) (any, error) { return nil, errNoConversion }
func (a asking) ConvertToType(ref.Type) ref.Val {
	return types.NewErr("a signal is not a value: write .value or .replicas")
}
func (a asking) Equal(other ref.Val) ref.Val { return types.Bool(a == other) }
func (a asking) Type() ref.Type              { return signalType }
func (a asking) Value() any                  { return a }

// signalFields are what stands behind the dot. Both are there together: a signal that is missing has neither.
type signalFields struct{ *types.Registry }

func (signalFields) FindStructType(name string) (*types.Type, bool) {
	return types.NewTypeTypeWithParam(signalType), name == signalTypeName
}

func (signalFields) FindStructFieldNames(name string) ([]string, bool) {
	return []string{"value", "replicas"}, name == signalTypeName
}

func (signalFields) FindStructFieldType(typeName, fieldName string) (*types.FieldType, bool) {
	if typeName != signalTypeName || fieldName != "value" && fieldName != "replicas" {
		return nil, false
	}
	return &types.FieldType{
		Type: types.DoubleType,
		IsSet: func(target any) bool {
			a, ok := target.(asking)
			return ok && a.ask.Known
		},
		GetFrom: func(target any) (any, error) {
			a, ok := target.(asking)
			if !ok || !a.ask.Known {
				return nil, errMissing
			}
			if fieldName == "value" {
				return a.ask.Value, nil
			}
			return a.ask.Replicas, nil
		},
	}, true
}

// formulaEnv declares everything that a formula may say about the signals of these names.
func formulaEnv(names []string) (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(signalFields{registry}), cel.CustomTypeAdapter(registry),
		cel.ClearMacros(), cel.Macros(cel.HasMacro), // no macro but has: nothing loops
		cel.ParserExpressionSizeLimit(maxFormula), cel.ParserRecursionLimit(64),
		cel.Variable("replicas", cel.DoubleType), cel.Variable("ready", cel.DoubleType),
		numbers("max", math.Max), numbers("min", math.Min),
		number("ceil", math.Ceil), number("floor", math.Floor), number("abs", math.Abs),
	}
	for _, name := range names {
		options = append(options, cel.Variable(name, signalType))
	}
	return cel.NewEnv(options...)
}

// numbers declares a function of one to MaxSignals+2 numbers, folded from left to right.
func numbers(name string, fold func(a, b float64) float64) cel.EnvOption {
	var overloads []cel.FunctionOpt
	for n := 1; n <= scaling.MaxSignals+2; n++ {
		overloads = append(overloads, cel.Overload(fmt.Sprintf("%s_%d", name, n), slices.Repeat([]*cel.Type{cel.DoubleType}, n), cel.DoubleType,
			cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				out := float64(args[0].(types.Double))
				for _, v := range args[1:] {
					out = fold(out, float64(v.(types.Double)))
				}
				return types.Double(out)
			})))
	}
	return cel.Function(name, overloads...)
}

func number(name string, of func(float64) float64) cel.EnvOption {
	return cel.Function(name, cel.Overload(name+"_double", []*cel.Type{cel.DoubleType}, cel.DoubleType,
		cel.UnaryBinding(func(v ref.Val) ref.Val { return types.Double(of(float64(v.(types.Double)))) })))
}

// compileFormula turns CEL into a function of the asks. Every number in a formula is a double: "2 * gateway.value" is what people
// write, and CEL by itself would refuse to multiply an int by a double.
func compileFormula(text string, signals []scaling.Signal) (scaling.Formula, error) {
	if len(text) > maxFormula {
		return nil, fmt.Errorf("the formula is longer than %d characters", maxFormula)
	}
	names := make([]string, len(signals))
	for i := range signals {
		if names[i] = identifier(signals[i].Name); slices.Contains(reserved, names[i]) {
			return nil, fmt.Errorf("a formula cannot speak of a signal named %s, which is a word of its own: rename it", signals[i].Name)
		}
	}
	env, err := formulaEnv(names)
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, celError(issues)
	}
	makeDoubles(parsed)
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, celError(issues)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.DoubleType) {
		return nil, fmt.Errorf("the result is of type %s, not a number", t)
	}
	program, err := env.Program(checked, cel.CostLimit(maxFormulaCost))
	if err != nil {
		return nil, err
	}
	return evaluate(program, names), nil
}

// makeDoubles rewrites whole numbers as doubles.
func makeDoubles(parsed *cel.Ast) {
	celast.PostOrderVisit(parsed.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.LiteralKind {
			return
		}
		switch v := e.AsLiteral().(type) {
		case types.Int:
			e.SetKindCase(celast.NewExprFactory().NewLiteral(e.ID(), types.Double(v)))
		case types.Uint:
			e.SetKindCase(celast.NewExprFactory().NewLiteral(e.ID(), types.Double(v)))
		}
	}))
}

var celPlace = regexp.MustCompile(`^ERROR: <input>:\d+:(\d+): `)

// celError makes one line of CEL's picture.
func celError(issues *cel.Issues) error {
	line, _, _ := strings.Cut(issues.Err().Error(), "\n")
	line = celPlace.ReplaceAllString(line, "at character $1: ")
	return fmt.Errorf("%s", strings.Replace(line, "(in container '')", "", 1))
}

// variables are the values of one evaluation.
type variables struct {
	names           []string
	asks            []scaling.Ask
	replicas, ready float64
}

func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case "replicas":
		return types.Double(v.replicas), true
	case "ready":
		return types.Double(v.ready), true
	}
	for i, known := range v.names {
		if known == name && i < len(v.asks) {
			return asking{v.asks[i]}, true
		}
	}
	return nil, false
}

func (v *variables) Parent() cel.Activation { return nil }

// evaluate wraps a program so that nothing it does can harm a tick: any error, NaN, infinity or negative is "not known", and so is
// a panic inside the library.
func evaluate(program cel.Program, names []string) scaling.Formula {
	return func(asks []scaling.Ask, replicas, ready int32) (wanted float64, ok bool) {
		defer func() {
			if recover() != nil {
				wanted, ok = 0, false
			}
		}()
		out, _, err := program.Eval(&variables{names, asks, float64(replicas), float64(ready)})
		if err != nil {
			return 0, false
		}
		v, is := out.(types.Double)
		if wanted = float64(v); !is || math.IsNaN(wanted) || math.IsInf(wanted, 0) || wanted < 0 {
			return 0, false
		}
		return wanted, true
	}
}
