package promql

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/prometheus/common/model"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Selection contains the metric, the labels and the aggregation in a signal of a policy. Build creates a query from them.
type Selection struct {
	Metric                    string
	Labels                    map[string]string
	Aggregate                 string // sum, avg, max or min
	Rate                      time.Duration
	Latency                   bool
	Quantile                  float64 // quantile of a histogram; 0: the mean
	Window                    time.Duration
	NamespaceLabel, Namespace string
	Matchers                  map[string]string // matchers of the data source
}

// Build returns the query as PromQL. It builds a syntax tree and converts the tree to text, so that no value is interpreted as PromQL.
func (s Selection) Build() (string, error) {
	if !model.LegacyValidation.IsValidMetricName(s.Metric) {
		return "", fmt.Errorf("%s is not a metric name", wording.Quote(s.Metric))
	}
	for name := range s.Labels {
		if !model.LegacyValidation.IsValidLabelName(name) {
			return "", fmt.Errorf("%s is not a label name", wording.Quote(name))
		}
	}
	over := func(suffix string, window time.Duration) parser.Expr {
		return &parser.Call{Func: parser.Functions["rate"], Args: parser.Expressions{
			&parser.MatrixSelector{VectorSelector: s.vector(suffix), Range: window}}}
	}
	// Each series of the result has only the label with the namespace, because package telemetry finds the workloads of a series by this
	// label.
	sum := func(of parser.Expr, by ...string) parser.Expr {
		return &parser.AggregateExpr{Op: parser.SUM, Expr: of, Grouping: append(by, s.NamespaceLabel)}
	}
	var expr parser.Expr
	switch {
	case s.Latency && s.Quantile > 0:
		expr = &parser.Call{Func: parser.Functions["histogram_quantile"], Args: parser.Expressions{
			&parser.NumberLiteral{Val: s.Quantile}, sum(over("_bucket", s.Window), "le")}}
	case s.Latency:
		expr = &parser.BinaryExpr{Op: parser.DIV, LHS: sum(over("_sum", s.Window)), RHS: sum(over("_count", s.Window))}
	default:
		expr = s.vector("")
		if s.Rate > 0 {
			expr = over("", s.Rate)
		}
		op := map[string]parser.ItemType{"sum": parser.SUM, "avg": parser.AVG, "max": parser.MAX, "min": parser.MIN}[s.Aggregate]
		expr = &parser.AggregateExpr{Op: op, Expr: expr, Grouping: []string{s.NamespaceLabel}}
	}
	text := expr.String()
	_, err := Parse(text)
	return text, err
}

func (s Selection) vector(suffix string) *parser.VectorSelector {
	v := &parser.VectorSelector{Name: s.Metric + suffix}
	v.LabelMatchers = append(v.LabelMatchers, promlabels.MustNewMatcher(promlabels.MatchEqual, promlabels.MetricName, v.Name))
	add := func(name, value string) {
		v.LabelMatchers = append(v.LabelMatchers, promlabels.MustNewMatcher(promlabels.MatchEqual, name, value))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		add(name, s.Labels[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Matchers)) {
		add(name, s.Matchers[name])
	}
	add(s.NamespaceLabel, s.Namespace)
	return v
}
