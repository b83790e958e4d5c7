package promql

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// Growth is what a query says of how fast a counter grows.
type CounterRate struct {
	PerSecond   float64 // of its answer that are one a second: above 0
	Aggregation Aggregation
}

// Share is how much of a growth a query's answer holds.
type Aggregation uint8

const (
	Unaggregated Aggregation = iota // one series as it is: nothing is aggregated
	Total                           // a sum over series
	PerSeries                       // of one series among several, those of pods most often: their mean, or the most or the least of them
)

// PerSecond tells a prometheus query that asks how fast a counter grows, rate(), irate() or increase() under nothing but
// aggregations and constant factors, and how many of its answer's units are one a second: 1 for sum(rate(x[1m])), 60 for
// sum(increase(x[1m])) and for 60 * sum(rate(x[1m])). Only a sum is a total: avg(rate(x[1m])) is what one pod has of it.
// A ratio of two rates is none, and neither is what counts series or picks some.
// What grows the query does not tell: requests, most often.
func PerSecond(query string) (g CounterRate, is bool) {
	if query == "" {
		return CounterRate{}, false
	}
	expr, err := Parse(query)
	if err != nil {
		return CounterRate{}, false
	}
	if g = growth(expr); g.PerSecond > 0 && !math.IsInf(g.PerSecond, 1) {
		return g, true
	}
	return CounterRate{}, false
}

// times is a growth whose answer is multiplied by a factor.
func (g CounterRate) times(factor float64) CounterRate {
	g.PerSecond *= factor
	return g
}

// growth is PerSecond of an expression; of no units where it is no such query.
func growth(expr parser.Expr) CounterRate {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return growth(e.Expr)
	case *parser.StepInvariantExpr:
		return growth(e.Expr)
	case *parser.AggregateExpr:
		return growthOfAggregate(e)
	case *parser.Call:
		return growthOfCall(e)
	case *parser.BinaryExpr:
		return growthOfBinary(e)
	}
	return CounterRate{}
}

// growthOfAggregate goes by the outermost aggregation, but for one that has no more than one series to look at: each group of the
// aggregation within is alone in a group of its own.
func growthOfAggregate(e *parser.AggregateExpr) CounterRate {
	if !slices.Contains([]parser.ItemType{parser.SUM, parser.AVG, parser.MAX, parser.MIN}, e.Op) {
		return CounterRate{}
	}
	g := growth(e.Expr)
	if of, is := bare(e.Expr).(*parser.AggregateExpr); is && !of.Without && !e.Without &&
		!slices.ContainsFunc(of.Grouping, func(l string) bool { return !slices.Contains(e.Grouping, l) }) {
		return g
	}
	g.Aggregation = PerSeries
	if e.Op == parser.SUM {
		g.Aggregation = Total
	}
	return g
}

func growthOfCall(e *parser.Call) CounterRate {
	switch e.Func.Name {
	case "rate", "irate":
		return CounterRate{PerSecond: 1}
	case "increase":
		if window, is := e.Args[0].(*parser.MatrixSelector); is {
			return CounterRate{PerSecond: window.Range.Seconds()}
		}
		if window, is := e.Args[0].(*parser.SubqueryExpr); is {
			return CounterRate{PerSecond: window.Range.Seconds()}
		}
	case "label_replace", "label_join", "clamp_min", "clamp_max", "ceil", "floor", "round":
		return growth(e.Args[0])
	}
	return CounterRate{}
}

// growthOfBinary knows a constant factor, and "or vector(0)", which speaks where there is nothing.
func growthOfBinary(e *parser.BinaryExpr) CounterRate {
	if e.Op == parser.LOR {
		if other, is := e.RHS.(*parser.Call); is && other.Func.Name == "vector" {
			return growth(e.LHS)
		}
		return CounterRate{}
	}
	left, leftIs := constant(e.LHS)
	right, rightIs := constant(e.RHS)
	switch {
	case e.Op == parser.MUL && leftIs && left > 0:
		return growth(e.RHS).times(left)
	case e.Op == parser.MUL && rightIs && right > 0:
		return growth(e.LHS).times(right)
	case e.Op == parser.DIV && rightIs && right > 0:
		g := growth(e.LHS)
		g.PerSecond /= right
		return g
	}
	return CounterRate{}
}

func constant(expr parser.Expr) (float64, bool) {
	n, is := bare(expr).(*parser.NumberLiteral)
	if !is {
		return 0, false
	}
	return n.Val, true
}

// bare is an expression without the parentheses around it.
func bare(expr parser.Expr) parser.Expr {
	for {
		p, is := expr.(*parser.ParenExpr)
		if !is {
			return expr
		}
		expr = p.Expr
	}
}
