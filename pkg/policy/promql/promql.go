// Package promql checks the queries of a PlatformConfig, builds queries from a metric and labels, and determines whether a query computes
// the rate of a counter.
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

// promParser parses PromQL. It does not accept experimental functions, because a query must work on every server.
var promParser = parser.NewParser(parser.Options{})

// maxQuery is the maximum length of a query. The longest queries of public rule sets have about 2,000 characters.
const maxQuery = 8192

// Parse parses a query and checks that its result is an instant vector.
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

// AddMatchers adds label matchers to every selector of a query. It changes the syntax tree instead of the text, so that a value cannot end
// a selector and add other PromQL.
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

// metricNames returns the name of the metric for each selector of a query. The name is "" if a selector has no metric name.
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

// podMetrics contains prefixes of the names of metrics about a workload's own pods. Their series disappear when the last pod is removed.
var podMetrics = []string{"vllm:", "vllm_", "sglang:", "sglang_", "DCGM_", "dcgm_", "nv_", "ray_vllm", "trtllm_", "trtllm:", "tgi_",
	"dynamo_component_", "kube_pod_",
	"container_"}

// OnlyFromPods reports whether every metric of a query disappears with the workload's last pod.
func OnlyFromPods(expr parser.Expr) bool {
	names := metricNames(expr)
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(podMetrics, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
}

// MissingLabel returns the first of the given labels that no series in the result of the query can have. It returns "" if every label is
// possible. It checks only the outermost aggregation.
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
