package promql

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// CounterRate describes the result of a query that computes the rate of a counter.
type CounterRate struct {
	PerSecond   float64 // value of the query's result for a rate of one event per second; above 0
	Aggregation Aggregation
	Window      time.Duration // range over which the rate is computed; 0 means the time between the two newest samples (irate)
}

// Aggregation is the way in which a query combines the rates of several series into its result.
type Aggregation uint8

// Possible values of Aggregation.
const (
	Unaggregated Aggregation = iota // the rate of one series, without aggregation
	Total                           // the sum over several series
	PerSeries                       // the mean, maximum or minimum over several series, usually of pods
)

// PerSecond reports whether a query computes the rate of a counter by rate(), irate() or increase(). The rate may be aggregated, and
// multiplied or divided by constants. A ratio of two rates, a count, and a selection of series such as topk are not rates.
//
// g.PerSecond is the value of the query's result if one event occurs per second. It is 1 for sum(rate(x[1m])). It is 60 for
// sum(increase(x[1m])) and for 60 * sum(rate(x[1m])). g.Aggregation is Total for a sum. For avg(rate(x[1m])) it is PerSeries, because the
// result is usually the rate of one pod.
//
// The query does not show which events the counter counts. Usually the events are requests.
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

// times returns g for a query whose result is multiplied by a factor.
func (g CounterRate) times(factor float64) CounterRate {
	g.PerSecond *= factor
	return g
}

// growth returns the rate that an expression computes. It returns the zero value if the expression does not compute a rate.
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

// growthOfAggregate returns the rate of an aggregation. The outermost aggregation determines Aggregation, with one exception: if all labels
// of the inner aggregation are also labels of the outer aggregation, each group of the outer aggregation has only one series, so the inner
// aggregation determines the result.
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
	case "irate":
		return CounterRate{PerSecond: 1}
	case "rate":
		return CounterRate{PerSecond: 1, Window: rangeOf(e.Args[0])}
	case "increase":
		window := rangeOf(e.Args[0])
		return CounterRate{PerSecond: window.Seconds(), Window: window}
	case "label_replace", "label_join", "clamp_min", "clamp_max", "ceil", "floor", "round":
		return growth(e.Args[0])
	}
	return CounterRate{}
}

// rangeOf returns the range of a range selector or of a subquery, or 0 for other expressions.
func rangeOf(expr parser.Expr) time.Duration {
	switch e := bare(expr).(type) {
	case *parser.MatrixSelector:
		return e.Range
	case *parser.SubqueryExpr:
		return e.Range
	}
	return 0
}

// growthOfBinary returns the rate of a binary expression: a rate that is multiplied or divided by a constant, or a rate with "or
// vector(0)". "or vector(0)" does not change a rate. It only adds a value if there is no series.
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

// bare returns an expression without its enclosing parentheses.
func bare(expr parser.Expr) parser.Expr {
	for {
		p, is := expr.(*parser.ParenExpr)
		if !is {
			return expr
		}
		expr = p.Expr
	}
}
