package telemetry

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// Tenants write selectors (metric, matchLabels), and each becomes a query of its own. Asked one by one, ten thousand policies would
// be ten thousand queries a round. Those that differ in nothing but the values of their labels have one shape, and are asked as one:
//
//	sum by (namespace) (jobs{namespace="a", queue="x"})  \
//	                                                      > sum by (namespace, queue) (jobs{namespace=~"a|b", queue=~"x|y"})
//	sum by (namespace) (jobs{namespace="b", queue="y"})  /
//
// The answer may hold pairs that nobody asked for (a with y); they match no workload.
type shape struct {
	text   string   // the query with its labels' values left out
	labels []string // whose values were left out, sorted
	values string   // the values as a join's key
}

// Bounds of one query: the workloads that it serves, and the bytes of their values. Prometheus refuses a form of more than 10 MB, and a
// value may be in it eight times, each byte escaped twice.
const (
	maxValues     = 1000
	maxValueBytes = 64 << 10
)

// shapeOf takes a selector's query apart; nil for one that cannot be asked together with others.
func shapeOf(query string) *shape {
	expr, err := promql.ParseExpr(query)
	if err != nil || !shapeable(expr) {
		return nil
	}
	s := &shape{}
	for i, v := range selectors(expr) {
		names, values, ok := equalities(v)
		if !ok || (i > 0 && (values != s.values || !slices.Equal(names, s.labels))) {
			return nil
		}
		s.labels, s.values = names, values
	}
	s.text = s.with(expr, func(string) *labels.Matcher { return nil })
	if len(s.labels) == 0 {
		return nil
	}
	return s
}

// shapeable tells whether every series of the answer comes from an aggregation, which the labels can be added to.
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

// equalities returns the labels that a selector demands values of; ok is false where it demands anything else.
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

// with puts matchers for the shape's labels into an expression and its labels into the aggregations, and prints it.
func (s *shape) with(expr parser.Expr, matcher func(label string) *labels.Matcher) string {
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

// shapeFetcher asks for all selectors of one shape.
type shapeFetcher struct {
	api   *promapi.Client
	shape *shape
	joins []join // one per query of a round
}

// divisible is always true: the values of a part's selectors restrict the query to it, and each selector names its namespace.
func (f *shapeFetcher) divisible() bool { return true }

func (f *shapeFetcher) ask(ctx context.Context, p *part) (bytes int64, err error) {
	joins := &f.joins
	if p.namespaces != nil {
		joins = new([]join)
	}
	for i, lo := 0, 0; lo < len(p.slots); i++ {
		if i == len(*joins) {
			*joins = append(*joins, join{labels: f.shape.labels})
		}
		hi := lo + some(p.slots[lo:])
		n, err := f.askSome(ctx, &(*joins)[i], p, lo, hi)
		bytes += n
		if err != nil {
			return bytes, err
		}
		lo = hi
	}
	return bytes, nil
}

// some returns how many of the slots one query serves: at least one.
func some(slots []slot) int {
	size := 0
	for i := range slots {
		size += len(slots[i].shape.values)
		if i > 0 && (i == maxValues || size > maxValueBytes) {
			return i
		}
	}
	return len(slots)
}

func (f *shapeFetcher) askSome(ctx context.Context, j *join, p *part, lo, hi int) (int64, error) {
	slots := p.slots[lo:hi]
	j.prepare(slots, func(b []byte, s *slot) []byte { return append(b, s.shape.values...) })
	text, w, err := f.query(slots)
	if err != nil {
		return 0, err
	}
	j.expect(w)
	n, err := f.api.With(p.limits).Query(ctx, text, j.counted(p, slots[0].source.NamespaceLabel))
	if err != nil {
		return n, err
	}
	j.readings(p.out[lo:hi])
	j.forget()
	return n, nil
}

func (f *shapeFetcher) query(slots []slot) (string, witness, error) {
	wanted := make([]map[string]bool, len(f.shape.labels))
	for i := range wanted {
		wanted[i] = map[string]bool{}
	}
	for i := range slots {
		rest := slots[i].shape.values
		for k := range wanted {
			var v string
			v, rest, _ = strings.Cut(rest, "\xff")
			wanted[k][v] = true
		}
	}
	expr, err := promql.ParseExpr(f.shape.text)
	if err != nil {
		return "", witness{}, err // it was printed by the parser itself
	}
	f.shape.with(expr, func(label string) *labels.Matcher {
		return oneOf(label, wanted[slices.Index(f.shape.labels, label)])
	})
	return timed(expr, f.shape.labels)
}

// oneOf matches any of the values.
func oneOf(label string, values map[string]bool) *labels.Matcher {
	sorted := slices.Sorted(maps.Keys(values))
	if len(sorted) == 1 {
		return labels.MustNewMatcher(labels.MatchEqual, label, sorted[0])
	}
	for i := range sorted {
		sorted[i] = regexp.QuoteMeta(sorted[i])
	}
	return labels.MustNewMatcher(labels.MatchRegexp, label, strings.Join(sorted, "|"))
}
