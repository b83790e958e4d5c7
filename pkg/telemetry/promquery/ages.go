package promquery

import (
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// partLabel is a label that gpuscaler adds to each part of a combined query: to the value, and to the sample times of each selector. The
// label shows to which part a series of the response belongs.
const partLabel = "gpuscaler_part"

const (
	partValue = "value"
	partAge   = "age" // followed by the index of the selector, for example age0
)

// maxAges is the greatest number of selectors in one query whose sample times are read together with the value.
const maxAges = 8

// ages describes the sample times that a query returns in addition to its value.
type ages struct {
	selectors int // number of selectors whose sample times are returned
	// all is true if the query has a value only if every selector has samples. The age of a value is then unknown if a selector has no sample
	// time. all is false for a query with "or", because one operand of "or" may have no samples.
	all bool
}

// withAges returns a query with two kinds of results: the value of an expression for each combination of the labels in by, and the sample
// times of each selector of the expression. A sample time is the time of the oldest sample from which the value is computed. The sample
// times are necessary because an instant query returns its evaluation time and not the time of the samples. Prometheus uses samples that
// are up to five minutes old, and for a range selector it uses all samples in the range. An exporter that stopped four minutes ago
// therefore still seems to run, but timestamp() of the selectors shows the true age. Both results are in one query so that they are
// evaluated at the same time, and so that a poll sends only one query.
func withAges(expr parser.Expr, by []string) (string, ages, error) {
	a := ages{all: true}
	if expr.Type() != parser.ValueTypeVector {
		return "", a, fmt.Errorf("%w: query returns a %s, not a vector with one series per workload", source.ErrInvalid, expr.Type())
	}
	parts := []string{mark(expr.String(), partValue)}
	seen := map[string]bool{}
	for _, s := range selectors(expr) {
		// Skip a selector with an offset or an @ modifier, because its samples are intentionally old.
		if s.OriginalOffset != 0 || s.OriginalOffsetExpr != nil || s.Timestamp != nil || s.StartOrEnd != 0 {
			continue
		}
		byName := splitNames(s)
		a.all = a.all && len(byName) == 1
		for _, n := range byName {
			bare := n.String()
			if seen[bare] || len(seen) == maxAges {
				continue
			}
			age := aggregate(parser.MIN, call("timestamp", n), by)
			parts = append(parts, mark(age.String(), fmt.Sprintf("%s%d", partAge, len(seen))))
			seen[bare] = true
		}
	}
	a.selectors, a.all = len(seen), a.all && needsAll(expr)
	query := strings.Join(parts, " or ")
	if _, err := promql.ParseExpr(query); err != nil {
		return "", a, fmt.Errorf("%w: %w", source.ErrInvalid, err)
	}
	return query, a, nil
}

// splitNames splits a selector into one selector for each metric name, so that timestamp() can be applied to each of them. timestamp()
// removes the metric name, so it fails if two series differ only in this name. splitNames returns nil for a selector without a name, or
// with a regular expression that is not a list of names.
func splitNames(s *parser.VectorSelector) (out []*parser.VectorSelector) {
	var names []string
	for _, m := range s.LabelMatchers {
		if m.Name != model.MetricNameLabel {
			continue
		}
		if m.Type == labels.MatchEqual {
			return []*parser.VectorSelector{{Name: s.Name, LabelMatchers: s.LabelMatchers}}
		}
		if m.Type == labels.MatchRegexp {
			names = m.SetMatches()
		}
	}
	for _, name := range names {
		ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)}
		for _, m := range s.LabelMatchers {
			if m.Name != model.MetricNameLabel {
				ms = append(ms, m)
			}
		}
		out = append(out, &parser.VectorSelector{LabelMatchers: ms})
	}
	return out
}

// needsAll reports whether an expression has a value only if each of its selectors has a sample.
func needsAll(expr parser.Expr) bool {
	all := true
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			all = all && n.Op != parser.LOR && n.Op != parser.LUNLESS
		case *parser.Call:
			all = all && !strings.HasPrefix(n.Func.Name, "absent")
		}
		return nil
	})
	return all
}

// mark returns an expression with the same result, in which each series also has the label partLabel. The parameter part is the value of
// this label.
func mark(expr, part string) string {
	return fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, expr, partLabel, part)
}
