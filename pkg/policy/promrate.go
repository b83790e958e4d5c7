package policy

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser"
)

// PerSecond tells a prometheus query that asks how fast a counter grows, rate(), irate() or increase() under nothing but
// aggregations and constant factors, and how many of its answer's units are one a second: 1 for sum(rate(x[1m])), 60 for
// sum(increase(x[1m])) and for 60 * sum(rate(x[1m])). A ratio of two rates is none, and neither is what counts series or picks some.
// What grows the query does not tell: requests, most often.
func (s *Source) PerSecond() (units float64, is bool) {
	if s.Type != SourcePrometheus || s.Query == "" {
		return 0, false
	}
	expr, err := parsePromQL(s.Query)
	if err != nil {
		return 0, false
	}
	if units = growth(expr); units > 0 && !math.IsInf(units, 1) {
		return units, true
	}
	return 0, false
}

// growth is PerSecond of an expression; 0 where it is no such query.
func growth(expr parser.Expr) float64 {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return growth(e.Expr)
	case *parser.StepInvariantExpr:
		return growth(e.Expr)
	case *parser.AggregateExpr:
		switch e.Op {
		case parser.SUM, parser.AVG, parser.MAX, parser.MIN:
			return growth(e.Expr)
		}
	case *parser.Call:
		return growthOfCall(e)
	case *parser.BinaryExpr:
		return growthOfBinary(e)
	}
	return 0
}

func growthOfCall(e *parser.Call) float64 {
	switch e.Func.Name {
	case "rate", "irate":
		return 1
	case "increase":
		if window, is := e.Args[0].(*parser.MatrixSelector); is {
			return window.Range.Seconds()
		}
		if window, is := e.Args[0].(*parser.SubqueryExpr); is {
			return window.Range.Seconds()
		}
	case "label_replace", "label_join", "clamp_min", "clamp_max", "ceil", "floor", "round":
		return growth(e.Args[0])
	}
	return 0
}

// growthOfBinary knows a constant factor, and "or vector(0)", which speaks where there is nothing.
func growthOfBinary(e *parser.BinaryExpr) float64 {
	if e.Op == parser.LOR {
		if other, is := e.RHS.(*parser.Call); is && other.Func.Name == "vector" {
			return growth(e.LHS)
		}
		return 0
	}
	left, leftIs := constant(e.LHS)
	right, rightIs := constant(e.RHS)
	switch {
	case e.Op == parser.MUL && leftIs && left > 0:
		return left * growth(e.RHS)
	case e.Op == parser.MUL && rightIs && right > 0:
		return growth(e.LHS) * right
	case e.Op == parser.DIV && rightIs && right > 0:
		return growth(e.LHS) / right
	}
	return 0
}

func constant(expr parser.Expr) (float64, bool) {
	for {
		p, is := expr.(*parser.ParenExpr)
		if !is {
			break
		}
		expr = p.Expr
	}
	n, is := expr.(*parser.NumberLiteral)
	if !is {
		return 0, false
	}
	return n.Val, true
}
