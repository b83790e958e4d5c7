package promquery

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Shape is the common form of selectors that differ only in the values of their labels. Tenants write selectors in their policies (metric,
// matchLabels). If each selector needed a separate query, ten thousand policies would cause ten thousand queries in each poll. Selectors of
// one shape are therefore combined into one query:
//
//	sum by (namespace) (jobs{namespace="a", queue="x"})  \
//	                                                      > sum by (namespace, queue) (jobs{namespace=~"a|b", queue=~"x|y"})
//	sum by (namespace) (jobs{namespace="b", queue="y"})  /
//
// The response may contain combinations of values that no selector requests, such as namespace a with queue y. These combinations are
// ignored.
type Shape struct {
	// Text is the query without the values of its labels. Selectors with the same text have the same shape.
	Text   string
	labels []string // names of the labels whose values were removed, sorted
}

// maxValues and maxValueBytes are the limits of one query: the number of workloads that it reads, and the bytes of their label values.
// Prometheus rejects a request body of more than 10 MB. A label value can occur eight times in a query, and each of its bytes can need two
// escape characters.
const (
	maxValues     = 1000
	maxValueBytes = 64 << 10
)

// ParseShape returns the shape of a selector's query and the values of its labels, in the form of Request.LabelValues. The shape is nil if
// the query cannot be combined with others.
func ParseShape(query string) (shape *Shape, values string) {
	expr, err := promql.ParseExpr(query)
	if err != nil || !shapeable(expr) {
		return nil, ""
	}
	s := &Shape{}
	for i, v := range selectors(expr) {
		names, key, ok := equalities(v)
		if !ok || (i > 0 && (key != values || !slices.Equal(names, s.labels))) {
			return nil, ""
		}
		s.labels, values = names, key
	}
	s.Text = s.with(expr, func(string) *labels.Matcher { return nil })
	if len(s.labels) == 0 {
		return nil, ""
	}
	return s, values
}

// shapeable reports whether every series in the response is the result of an aggregation. Labels can be added only to an aggregation.
func shapeable(expr parser.Expr) bool {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		return !e.Without && e.Param == nil && slices.Contains([]parser.ItemType{parser.SUM, parser.AVG, parser.MAX, parser.MIN}, e.Op)
	case *parser.BinaryExpr:
		return e.Op == parser.DIV && shapeable(e.LHS) && shapeable(e.RHS)
	case *parser.Call:
		return e.Func.Name == "histogram_quantile" && len(e.Args) == 2 && shapeable(e.Args[1])
	case *parser.ParenExpr:
		return shapeable(e.Expr)
	}
	return false
}

// equalities returns the labels for which a selector has an equality matcher, and their values as a key. ok is false if the selector has
// any other matcher.
func equalities(v *parser.VectorSelector) (names []string, values string, ok bool) {
	byName := map[string]string{}
	for _, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if have, twice := byName[m.Name]; m.Type != labels.MatchEqual || (twice && have != m.Value) {
			return nil, "", false
		}
		byName[m.Name] = m.Value
	}
	names = slices.Sorted(maps.Keys(byName))
	var key []byte
	for _, n := range names {
		key = appendKey(key, byName[n])
	}
	return names, string(key), true
}

// with changes an expression and returns its text. For each label of the shape, it replaces the matcher in every selector with the result
// of the function matcher (nil: no matcher), and adds the label to every aggregation.
func (s *Shape) with(expr parser.Expr, matcher func(label string) *labels.Matcher) string {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			n.Grouping = slices.Compact(slices.Sorted(slices.Values(append(n.Grouping, s.labels...))))
		case *parser.VectorSelector:
			n.LabelMatchers = slices.DeleteFunc(n.LabelMatchers, func(m *labels.Matcher) bool { return m.Name != model.MetricNameLabel })
			for _, name := range s.labels {
				if m := matcher(name); m != nil {
					n.LabelMatchers = append(n.LabelMatchers, m)
				}
			}
		}
		return nil
	})
	return expr.String()
}

// selectorQuery reads all selectors of one shape.
type selectorQuery struct {
	api   *promapi.Client
	shape *Shape
	joins []join // one for each query of a round
}

// divisible returns true: each selector contains its namespace, so a query for some of the selectors reads only their namespaces.
func (q *selectorQuery) divisible() bool { return true }

func (q *selectorQuery) run(ctx context.Context, p *part) (bytes int64, err error) {
	joins := &q.joins
	if p.namespaces != nil {
		joins = new([]join)
	}
	for i, start := 0, 0; start < len(p.requests); i++ {
		if i == len(*joins) {
			*joins = append(*joins, join{labels: q.shape.labels})
		}
		end := start + batch(p.requests[start:])
		n, err := q.runBatch(ctx, &(*joins)[i], p, start, end)
		bytes += n
		if err != nil {
			return bytes, err
		}
		start = end
	}
	return bytes, nil
}

// batch returns how many of the requests fit into one query, beginning with the first. The result is at least one.
func batch(requests []source.Request) int {
	size := 0
	for i := range requests {
		size += len(requests[i].LabelValues)
		if i > 0 && (i == maxValues || size > maxValueBytes) {
			return i
		}
	}
	return len(requests)
}

func (q *selectorQuery) runBatch(ctx context.Context, j *join, p *part, start, end int) (int64, error) {
	requests := p.requests[start:end]
	j.prepare(requests, func(b []byte, r *source.Request) []byte { return append(b, r.LabelValues...) })
	text, a, err := q.text(requests)
	if err != nil {
		return 0, err
	}
	j.expect(a)
	n, err := q.api.With(p.limits).Query(ctx, text, j.counted(p, requests[0].Source.NamespaceLabel))
	if err != nil {
		return n, err
	}
	j.readings(p.out[start:end])
	j.release()
	return n, nil
}

// text returns the query that reads the requests.
func (q *selectorQuery) text(requests []source.Request) (string, ages, error) {
	values := make([]map[string]bool, len(q.shape.labels))
	for i := range values {
		values[i] = map[string]bool{}
	}
	for i := range requests {
		rest := requests[i].LabelValues
		for k := range values {
			var v string
			v, rest, _ = strings.Cut(rest, "\xff")
			values[k][v] = true
		}
	}
	expr, err := promql.ParseExpr(q.shape.Text)
	if err != nil {
		return "", ages{}, err // not expected: the parser itself produced this text
	}
	q.shape.with(expr, func(label string) *labels.Matcher {
		return valueMatcher(label, slices.Sorted(maps.Keys(values[slices.Index(q.shape.labels, label)])))
	})
	return withAges(expr, q.shape.labels)
}
