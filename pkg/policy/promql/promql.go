package promql

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// promParser speaks the language without experimental functions: a query must work on any server.
var promParser = parser.NewParser(parser.Options{})

// maxQuery bounds the text of a query; the longest in public rule sets has about 2,000 characters.
const maxQuery = 8192

// parsePromQL parses a query whose answer is an instant vector.
func Parse(query string) (parser.Expr, error) {
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
func AddMatchers(expr parser.Expr, matchers map[string]string) {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			for _, name := range slices.Sorted(maps.Keys(matchers)) {
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
func OnlyFromPods(expr parser.Expr) bool {
	names := metricNames(expr)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(podMetrics, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

// missingLabel returns the first of the labels that cannot be in the query's answer, or "". It looks at the outermost
// aggregation only: what that drops is gone.
func MissingLabel(expr parser.Expr, labels ...string) string {
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
