// Package formula compiles a formula in CEL into a function of the signals of a policy.
//
// Compile checks the text against the names of the signals. The caller stores the returned function in scaling.Policy.Formula.
package formula

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// maxFormula is the maximum length of the text. A readable formula over eight signals has about 300 characters.
	maxFormula     = 1000
	signalTypeName = "Signal"
)

// reserved lists the words of the formula language, which cannot be signal names.
var reserved = []string{"replicas", "ready", "max", "min", "ceil", "floor", "abs", "has", "true", "false", "null", "in", "as", "break",
	"const", "continue", "else",
	"for", "function", "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while", "double", "int", "uint",
	"string", "bytes", "bool", "list", "map", "type", "dyn", "size", "duration", "timestamp", "matches", "contains"}

// Identifier returns the name of a signal in formulas, in which '-' is replaced with '_'.
func Identifier(name string) string { return strings.ReplaceAll(name, "-", "_") }

var signalType = cel.ObjectType(signalTypeName)

// signalFields declares the fields of a signal to CEL's type checker.
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
	return &types.FieldType{Type: types.DoubleType}, true
}

// environment returns the CEL environment for formulas that use signals with these names.
func environment(names []string) (*cel.Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(signalFields{registry}), cel.CustomTypeAdapter(registry),
		cel.ClearMacros(), cel.Macros(cel.HasMacro), // has is the only permitted macro, because other macros can create loops
		cel.ParserExpressionSizeLimit(maxFormula), cel.ParserRecursionLimit(64),
		cel.Variable("replicas", cel.DoubleType), cel.Variable("ready", cel.DoubleType),
	}
	for _, name := range slices.Sorted(maps.Keys(folds)) {
		options = append(options, numbers(name, scaling.MaxSignals+2))
	}
	for _, name := range slices.Sorted(maps.Keys(roundings)) {
		options = append(options, numbers(name, 1))
	}
	for _, name := range names {
		options = append(options, cel.Variable(name, signalType))
	}
	return cel.NewEnv(options...)
}

// numbers declares a CEL function that accepts 1 to `most` numbers as arguments.
func numbers(name string, most int) cel.EnvOption {
	var overloads []cel.FunctionOpt
	for n := 1; n <= most; n++ {
		overloads = append(overloads, cel.Overload(fmt.Sprintf("%s_%d", name, n), slices.Repeat([]*cel.Type{cel.DoubleType}, n), cel.DoubleType))
	}
	return cel.Function(name, overloads...)
}

// Compile compiles a CEL expression to a function of the signals' proposals. It converts all numbers in the formula to doubles. Otherwise
// "2 * gateway.value" would be an error, because CEL cannot multiply an int by a double.
func Compile(text string, signals []scaling.Signal) (scaling.Formula, error) {
	if len(text) > maxFormula {
		return nil, fmt.Errorf("the formula is longer than %d characters", maxFormula)
	}
	names := make([]string, len(signals))
	for i := range signals {
		if names[i] = Identifier(signals[i].Name); slices.Contains(reserved, names[i]) {
			return nil, fmt.Errorf("the signal name %s is a reserved word of formulas: rename the signal", signals[i].Name)
		}
	}
	env, err := environment(names)
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, celError(issues, names)
	}
	makeDoubles(parsed)
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, celError(issues, names)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.DoubleType) {
		return nil, fmt.Errorf("the result is of type %s, not a number", t)
	}
	compiled := expression{names: names, types: checked.NativeRep()}
	result, err := compiled.number(checked.NativeRep().Expr())
	if err != nil {
		return nil, err
	}
	return func(proposals []scaling.Proposal, replicas, ready int32) (float64, bool) {
		target, ok := result(inputs{proposals, float64(replicas), float64(ready)})
		if !ok || math.IsNaN(target) || math.IsInf(target, 0) || target < 0 {
			return 0, false
		}
		return target, true
	}, nil
}

// makeDoubles replaces integer literals by double literals.
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

var (
	celPlace   = regexp.MustCompile(`^ERROR: <input>:\d+:(\d+): `)
	celUnknown = regexp.MustCompile(`undeclared reference to '([^']*)'.*`)
)

// celError returns an error with one line of CEL's report. If a line is about an unknown name, celError selects this line, because the
// other errors are consequences of the unknown name. Otherwise celError selects the first line.
func celError(issues *cel.Issues, names []string) error {
	lines := strings.Split(issues.Err().Error(), "\n")
	line := lines[max(0, slices.IndexFunc(lines, celUnknown.MatchString))]
	line = celPlace.ReplaceAllString(line, "at character $1: ")
	if m := celUnknown.FindStringSubmatch(line); m != nil {
		known := slices.Concat(names, []string{"replicas", "ready"}, slices.Sorted(maps.Keys(folds)), slices.Sorted(maps.Keys(roundings)))
		line = strings.Replace(line, m[0], fmt.Sprintf("there is no %q%s; there are %s", m[1], wording.DidYouMean(m[1], known),
			wording.List(known)), 1)
	} else if strings.Contains(line, "no matching overload") && strings.Contains(line, "Signal") {
		line += "; a signal is not a number: use its .replicas or .value"
	}
	return errors.New(line)
}
