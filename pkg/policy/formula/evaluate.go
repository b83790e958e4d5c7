package formula

import (
	"fmt"
	"math"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// CEL parses and checks a formula. This file compiles the checked syntax tree to Go functions over float64, because CEL's interpreter would
// be too slow: it needs microseconds and 20 allocations for one evaluation, and a tick evaluates up to ten thousand formulas. A test
// compares the results with the results of CEL's interpreter. This file rejects expressions with values other than numbers and booleans,
// such as text, lists and times.

// inputs contains the values for one evaluation. It is passed by value, because a pointer would cause a heap allocation in every tick.
type inputs struct {
	proposals       []scaling.Proposal
	replicas, ready float64
}

// number is a compiled expression whose result is a number. ok is false if the result depends on a signal without a value.
type number func(in inputs) (v float64, ok bool)

// truth is a compiled expression whose result is a boolean. ok is false if the result depends on a signal without a value.
type truth func(in inputs) (v, ok bool)

var folds = map[string]func(a, b float64) float64{"max": math.Max, "min": math.Min}

var roundings = map[string]func(float64) float64{"ceil": math.Ceil, "floor": math.Floor, "abs": math.Abs}

var arithmetic = map[string]func(a, b float64) float64{
	operators.Add:      func(a, b float64) float64 { return a + b },
	operators.Subtract: func(a, b float64) float64 { return a - b },
	operators.Multiply: func(a, b float64) float64 { return a * b },
	operators.Divide:   func(a, b float64) float64 { return a / b },
}

var comparisons = map[string]func(a, b float64) bool{
	operators.Less:          func(a, b float64) bool { return a < b },
	operators.LessEquals:    func(a, b float64) bool { return a <= b },
	operators.Greater:       func(a, b float64) bool { return a > b },
	operators.GreaterEquals: func(a, b float64) bool { return a >= b },
	operators.Equals:        func(a, b float64) bool { return a == b },
	operators.NotEquals:     func(a, b float64) bool { return a != b },
}

// expression compiles a checked syntax tree.
type expression struct {
	names []string
	types *celast.AST
}

func unfit(what string) error {
	return fmt.Errorf("%s is not supported in a formula: use numbers, signals and conditions", what)
}

func (x *expression) number(e celast.Expr) (number, error) {
	if t := x.types.GetType(e.ID()); !t.IsExactType(types.DoubleType) {
		return nil, unfit("a " + t.String())
	}
	switch e.Kind() {
	case celast.LiteralKind:
		v := float64(e.AsLiteral().(types.Double))
		return func(inputs) (float64, bool) { return v, true }, nil
	case celast.IdentKind:
		if e.AsIdent() == "ready" {
			return func(in inputs) (float64, bool) { return in.ready, true }, nil
		}
		return func(in inputs) (float64, bool) { return in.replicas, true }, nil
	case celast.SelectKind:
		return x.field(e.AsSelect())
	case celast.CallKind:
		return x.numberCall(e.AsCall())
	}
	return nil, unfit("this")
}

// field returns a function that reads the value or the replicas of a signal.
func (x *expression) field(s celast.SelectExpr) (number, error) {
	i, err := x.signal(s)
	if err != nil {
		return nil, err
	}
	if s.FieldName() == "value" {
		return func(in inputs) (float64, bool) {
			if i >= len(in.proposals) || !in.proposals[i].Known {
				return 0, false
			}
			return in.proposals[i].Value, true
		}, nil
	}
	return func(in inputs) (float64, bool) {
		if i >= len(in.proposals) || !in.proposals[i].Known {
			return 0, false
		}
		return in.proposals[i].Replicas, true
	}, nil
}

func (x *expression) signal(s celast.SelectExpr) (int, error) {
	if s.Operand().Kind() == celast.IdentKind {
		for i, name := range x.names {
			if name == s.Operand().AsIdent() {
				return i, nil
			}
		}
	}
	return 0, unfit("a field of a value that is not a signal")
}

func (x *expression) numberCall(c celast.CallExpr) (number, error) {
	name := c.FunctionName()
	if name == operators.Conditional {
		return x.choose(c)
	}
	args := make([]number, len(c.Args()))
	for i, a := range c.Args() {
		var err error
		if args[i], err = x.number(a); err != nil {
			return nil, err
		}
	}
	if f, ok := arithmetic[name]; ok {
		return fold(f, args), nil
	}
	if f, ok := folds[name]; ok {
		return fold(f, args), nil
	}
	f, ok := roundings[name]
	if name == operators.Negate {
		f, ok = func(v float64) float64 { return -v }, true
	}
	if !ok || len(args) != 1 {
		return nil, unfit(name)
	}
	return func(in inputs) (float64, bool) {
		v, ok := args[0](in)
		return f(v), ok
	}, nil
}

func fold(f func(a, b float64) float64, args []number) number {
	return func(in inputs) (float64, bool) {
		out, ok := args[0](in)
		for _, arg := range args[1:] {
			v, known := arg(in)
			out, ok = f(out, v), ok && known
		}
		return out, ok
	}
}

// choose compiles the conditional operator. Only the selected branch is evaluated, so `has(x.value) ? x.value : 3` is 3 if the signal x has
// no value.
func (x *expression) choose(c celast.CallExpr) (number, error) {
	condition, err := x.truth(c.Args()[0])
	if err != nil {
		return nil, err
	}
	yes, err := x.number(c.Args()[1])
	if err != nil {
		return nil, err
	}
	no, err := x.number(c.Args()[2])
	if err != nil {
		return nil, err
	}
	return func(in inputs) (float64, bool) {
		v, ok := condition(in)
		switch {
		case !ok:
			return 0, false
		case v:
			return yes(in)
		}
		return no(in)
	}, nil
}

func (x *expression) truth(e celast.Expr) (truth, error) {
	if t := x.types.GetType(e.ID()); !t.IsExactType(types.BoolType) {
		return nil, unfit("a " + t.String())
	}
	switch e.Kind() {
	case celast.LiteralKind:
		v := bool(e.AsLiteral().(types.Bool))
		return func(inputs) (bool, bool) { return v, true }, nil
	case celast.SelectKind: // has(x.value)
		i, err := x.signal(e.AsSelect())
		return func(in inputs) (bool, bool) { return i < len(in.proposals) && in.proposals[i].Known, true }, err
	case celast.CallKind:
		return x.truthCall(e.AsCall())
	}
	return nil, unfit("this")
}

func (x *expression) truthCall(c celast.CallExpr) (truth, error) {
	name, args := c.FunctionName(), c.Args()
	switch name {
	case operators.LogicalAnd, operators.LogicalOr:
		return x.both(args, name == operators.LogicalOr)
	case operators.LogicalNot:
		v, err := x.truth(args[0])
		return func(in inputs) (bool, bool) {
			value, ok := v(in)
			return !value, ok
		}, err
	}
	compare, ok := comparisons[name]
	if !ok {
		return nil, unfit(name)
	}
	a, err := x.number(args[0])
	if err != nil {
		return nil, err
	}
	b, err := x.number(args[1])
	if err != nil {
		return nil, err
	}
	return func(in inputs) (bool, bool) {
		left, ok1 := a(in)
		right, ok2 := b(in)
		// In CEL, as in Go, a comparison with NaN is false: 0/0 < 1 and 0/0 >= 1 are both false.
		return compare(left, right), ok1 && ok2
	}, nil
}

// both compiles && and || with the semantics of CEL: if the value of one operand determines the result, the other operand may have no
// value. settles is the value of an operand that determines the result: false for &&, true for ||.
func (x *expression) both(args []celast.Expr, settles bool) (truth, error) {
	sides := make([]truth, len(args))
	for i := range args {
		var err error
		if sides[i], err = x.truth(args[i]); err != nil {
			return nil, err
		}
	}
	return func(in inputs) (bool, bool) {
		known := true
		for _, side := range sides {
			v, ok := side(in)
			if ok && v == settles {
				return settles, true
			}
			known = known && ok
		}
		return !settles, known
	}, nil
}
