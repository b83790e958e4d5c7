package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// promParser speaks the language without experimental functions: a query must work on any server.
var promParser = parser.NewParser(parser.Options{})

// maxQuery bounds the text of a query; the longest in public rule sets has about 2,000 characters.
const maxQuery = 8192

// parsePromQL parses a query whose answer is an instant vector.
func parsePromQL(query string) (parser.Expr, error) {
	if len(query) > maxQuery {
		return nil, fmt.Errorf("the query is longer than %d characters", maxQuery)
	}
	expr, err := promParser.ParseExpr(query)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "1:"))
	}
	if t := expr.Type(); t != parser.ValueTypeVector {
		return nil, fmt.Errorf("the answer is a %s, not an instant vector with one series per workload", parser.DocumentedType(t))
	}
	return expr, nil
}

// inject puts label matchers into every selector of a query, by the parser and never as text: a value cannot end the selector and
// begin something else.
func inject(expr parser.Expr, matchers map[string]string) {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			for _, name := range sortedKeys(matchers) {
				v.LabelMatchers = append(v.LabelMatchers, promlabels.MustNewMatcher(promlabels.MatchEqual, name, matchers[name]))
			}
		}
		return nil
	})
}

// metricNames lists the names of the metrics that a query selects; "" stands for a selector without one.
func metricNames(expr parser.Expr) (names []string) {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			name := v.Name
			for _, m := range v.LabelMatchers {
				if m.Name == promlabels.MetricName && m.Type == promlabels.MatchEqual {
					name = m.Value
				}
			}
			names = append(names, name)
		}
		return nil
	})
	return names
}

// podMetrics are the beginnings of metrics that come from a workload's own pods, and are gone with the last of them.
var podMetrics = []string{"vllm:", "vllm_", "sglang:", "sglang_", "DCGM_", "dcgm_", "nv_", "ray_vllm", "trtllm_", "tgi_", "kube_pod_", "container_"}

// comesFromPods tells that every metric of a query vanishes with the workload's last pod.
func comesFromPods(expr parser.Expr) bool {
	names := metricNames(expr)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(podMetrics, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

// missingLabel returns the first of the labels that cannot be in the query's answer, or "". It looks at the outermost
// aggregation only: what that drops is gone.
func missingLabel(expr parser.Expr, labels ...string) string {
	for {
		switch e := expr.(type) {
		case *parser.ParenExpr:
			expr = e.Expr
			continue
		case *parser.AggregateExpr:
			for _, l := range labels {
				if slices.Contains(e.Grouping, l) == e.Without && e.Op != parser.TOPK && e.Op != parser.BOTTOMK {
					return l
				}
			}
		}
		return ""
	}
}

// selection is a tenant's own metric, before it becomes PromQL.
type selection struct {
	metric                    string
	labels                    map[string]string
	aggregate                 string // sum, avg, max, min
	rate                      time.Duration
	latency                   bool
	quantile                  float64 // 0: the mean
	window                    time.Duration
	namespaceLabel, namespace string
	matchers                  map[string]string // of the data source
}

// promQL builds the query; the expression is a value of the parser's, printed by it.
func (s selection) promQL() (string, error) {
	if !model.LegacyValidation.IsValidMetricName(s.metric) {
		return "", fmt.Errorf("%s is not a metric's name", quote(s.metric))
	}
	for name := range s.labels {
		if !model.LegacyValidation.IsValidLabelName(name) {
			return "", fmt.Errorf("%s is not a label's name", quote(name))
		}
	}
	over := func(suffix string, window time.Duration) parser.Expr {
		return &parser.Call{Func: parser.Functions["rate"], Args: parser.Expressions{
			&parser.MatrixSelector{VectorSelector: s.vector(suffix), Range: window}}}
	}
	// The answer carries the namespace and nothing else, so that it is matched back as every other query's.
	sum := func(of parser.Expr, by ...string) parser.Expr {
		return &parser.AggregateExpr{Op: parser.SUM, Expr: of, Grouping: append(by, s.namespaceLabel)}
	}
	var expr parser.Expr
	switch {
	case s.latency && s.quantile > 0:
		expr = &parser.Call{Func: parser.Functions["histogram_quantile"], Args: parser.Expressions{
			&parser.NumberLiteral{Val: s.quantile}, sum(over("_bucket", s.window), "le")}}
	case s.latency:
		expr = &parser.BinaryExpr{Op: parser.DIV, LHS: sum(over("_sum", s.window)), RHS: sum(over("_count", s.window))}
	default:
		expr = s.vector("")
		if s.rate > 0 {
			expr = over("", s.rate)
		}
		op := map[string]parser.ItemType{"sum": parser.SUM, "avg": parser.AVG, "max": parser.MAX, "min": parser.MIN}[s.aggregate]
		expr = &parser.AggregateExpr{Op: op, Expr: expr, Grouping: []string{s.namespaceLabel}}
	}
	text := expr.String()
	_, err := parsePromQL(text)
	return text, err
}

func (s selection) vector(suffix string) *parser.VectorSelector {
	v := &parser.VectorSelector{Name: s.metric + suffix}
	v.LabelMatchers = append(v.LabelMatchers, promlabels.MustNewMatcher(promlabels.MatchEqual, promlabels.MetricName, v.Name))
	add := func(name, value string) {
		v.LabelMatchers = append(v.LabelMatchers, promlabels.MustNewMatcher(promlabels.MatchEqual, name, value))
	}
	for _, name := range sortedKeys(s.labels) {
		add(name, s.labels[name])
	}
	for _, name := range sortedKeys(s.matchers) {
		add(name, s.matchers[name])
	}
	add(s.namespaceLabel, s.namespace)
	return v
}
