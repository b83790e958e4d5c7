package promquery

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

var promql = parser.NewParser(parser.Options{})

// addMatchers parses a query and adds the matchers to each of its selectors.
func addMatchers(query string, matchers map[string]string) (parser.Expr, error) {
	expr, err := promql.ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", source.ErrInvalid, err)
	}
	for _, s := range selectors(expr) {
		s.LabelMatchers = withMatchers(s.LabelMatchers, matchers)
	}
	return expr, nil
}

// withMatchers returns the matchers in the parameter have, plus an equality matcher for each name and value in the parameter matchers. It
// does not add a matcher twice. If the two parameters have different matchers for the same label, both are kept, and a series must match
// both.
func withMatchers(have []*labels.Matcher, matchers map[string]string) []*labels.Matcher {
	for _, name := range slices.Sorted(maps.Keys(matchers)) {
		m := labels.MustNewMatcher(labels.MatchEqual, name, matchers[name])
		same := func(o *labels.Matcher) bool { return o.Type == m.Type && o.Name == m.Name && o.Value == m.Value }
		if !slices.ContainsFunc(have, same) {
			have = append(have, m)
		}
	}
	return have
}

// selectors returns the vector selectors of an expression.
func selectors(expr parser.Expr) []*parser.VectorSelector {
	var out []*parser.VectorSelector
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			out = append(out, s)
		}
		return nil
	})
	return out
}

// newestSamples returns a query for the newest samples of the series with one of the names. The query is a range selector, because only
// the result of a range selector contains the time at which each sample was scraped. The query also has the matchers in the parameter
// only.
func newestSamples(names []string, matchers map[string]string, lookback time.Duration, only []*labels.Matcher) string {
	ms := append(withMatchers([]*labels.Matcher{nameMatcher(names)}, matchers), only...)
	selector := &parser.VectorSelector{LabelMatchers: ms}
	return (&parser.MatrixSelector{VectorSelector: selector, Range: lookback}).String()
}

// nameMatcher returns a matcher for series with one of the metric names. A regular expression that is a list of names is efficient, because
// Prometheus looks up each name in its index and does not scan all series.
func nameMatcher(names []string) *labels.Matcher {
	if len(names) == 1 {
		return labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, names[0])
	}
	return labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(names, "|"))
}

// valueMatcher returns a matcher for series whose label has one of the values.
func valueMatcher(label string, values []string) *labels.Matcher {
	if len(values) == 1 {
		return labels.MustNewMatcher(labels.MatchEqual, label, values[0])
	}
	return labels.MustNewMatcher(labels.MatchRegexp, label, alternatives(values))
}

func alternatives(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	return strings.Join(quoted, "|")
}

// lookback returns the range for newestSamples: one minute more than the longest MaxAge of the signals, and at most 15 minutes. The
// response then still contains samples that are stale, with their times.
func lookback(requests []source.Request) time.Duration {
	longest := time.Minute
	for i := range requests {
		longest = max(longest, requests[i].Signal.MaxAge)
	}
	return min(longest+time.Minute, 15*time.Minute).Round(time.Second)
}

func call(name string, of parser.Expr) parser.Expr {
	return &parser.Call{Func: parser.Functions[name], Args: parser.Expressions{of}}
}

func aggregate(op parser.ItemType, of parser.Expr, by []string) parser.Expr {
	return &parser.AggregateExpr{Op: op, Expr: of, Grouping: by}
}
