package promquery

import (
	"fmt"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// partLabel is the label that identifies the parts of a combined answer.
const partLabel = "gpuscaler_part"

const (
	partValue = "value"
	partAge   = "age" // followed by the selector's number
)

// maxAges is the greatest number of selectors of one query whose sample times are queried.
const maxAges = 8

// ages describes the sample times that a query returns beside its value.
type ages struct {
	selectors int // whose sample times are returned
	// all reports that the query has no value without samples of every selector, so that a selector without samples makes the age of the
	// value unknown. It is false for a query with "or", where one side may have no samples.
	all bool
}

// withAges returns one query for the value of an expression by labels and, for each of its selectors, the time of the oldest sample
// behind the value. An instant query stamps its answer with the time of evaluation, although Prometheus looks back five minutes for a
// sample and a range covers its whole length. By the answer alone, an exporter that stopped four minutes ago looks as if it still ran;
// timestamp() of the selectors shows the true age. All parts are in one query so that they are evaluated at the same time, and so that a
// template costs one query in each poll instead of two.
func withAges(expr parser.Expr, by []string) (string, ages, error) {
	a := ages{all: true}
	if expr.Type() != parser.ValueTypeVector {
		return "", a, fmt.Errorf("%w: query returns a %s, not a vector with one series per workload", source.ErrInvalid, expr.Type())
	}
	parts := []string{mark(expr.String(), partValue)}
	seen := map[string]bool{}
	for _, s := range selectors(expr) {
		// Samples of a selector with an offset or @ are old on purpose.
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

// splitNames returns a selector as timestamp() can use it: one selector for each metric name that it lists. timestamp() removes the
// name, and fails where two series are then equal. A selector without a name, or with a pattern for it, returns none.
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

// needsAll reports whether an expression has no value where one of its selectors has no sample.
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

// mark adds partLabel to the series of an expression.
func mark(expr, part string) string {
	return fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, expr, partLabel, part)
}
