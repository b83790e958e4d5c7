package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// PromQL is taken apart and put together by Prometheus' own parser; text is never pasted into text.
var promql = parser.NewParser(parser.Options{})

// partLabel tells the parts of a combined answer apart.
const partLabel = "gpuscaler_part"

const (
	partValue = "value"
	partAge   = "age" // followed by the selector's number
)

// maxAges bounds how many selectors of one query are asked for their sample times.
const maxAges = 8

// restrict parses a query and puts the matchers into every selector of it.
func restrict(query string, matchers map[string]string) (parser.Expr, error) {
	expr, err := promql.ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	for _, s := range selectors(expr) {
		s.LabelMatchers = withMatchers(s.LabelMatchers, matchers)
	}
	return expr, nil
}

// withMatchers adds those that are not there yet. A matcher that the query has already on the same label stays: both must hold.
func withMatchers(have []*labels.Matcher, matchers map[string]string) []*labels.Matcher {
	for _, name := range slices.Sorted(keys(matchers)) {
		m := labels.MustNewMatcher(labels.MatchEqual, name, matchers[name])
		same := func(o *labels.Matcher) bool { return o.Type == m.Type && o.Name == m.Name && o.Value == m.Value }
		if !slices.ContainsFunc(have, same) {
			have = append(have, m)
		}
	}
	return have
}

func keys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

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

// witness is what a timed query asks beside the value.
type witness struct {
	ages int // selectors whose sample times are asked for
	// all says that there is no value without samples of every selector, so that one without any makes the value's age unknown. Where a
	// query has "or", one of its sides may well be empty.
	all bool
}

// timed returns one query that answers the value per combination of the labels and, beside it, for each of its selectors the time of
// the oldest sample that went into it. An instant query stamps its answer with the time of evaluation, and Prometheus looks back five
// minutes for a sample, and a range looks back for as long as it is: the answer alone makes an exporter that died four minutes ago
// look alive. timestamp() of the query's own selectors does not. All parts stand in one query so that they speak of the same instant,
// and so that a template costs one query a round and not two.
func timed(expr parser.Expr, by []string) (string, witness, error) {
	w := witness{all: true}
	if expr.Type() != parser.ValueTypeVector {
		return "", w, fmt.Errorf("%w: query gives a %s, not a vector with one series per workload", errInvalid, expr.Type())
	}
	parts := []string{mark(expr.String(), partValue)}
	seen := map[string]bool{}
	for _, s := range selectors(expr) {
		// A selector of the past is meant to be old.
		if s.OriginalOffset != 0 || s.OriginalOffsetExpr != nil || s.Timestamp != nil || s.StartOrEnd != 0 {
			continue
		}
		named := oneName(s)
		w.all = w.all && len(named) == 1
		for _, n := range named {
			bare := n.String()
			if seen[bare] || len(seen) == maxAges {
				continue
			}
			age := aggregate(parser.MIN, call("timestamp", n), by)
			parts = append(parts, mark(age.String(), fmt.Sprintf("%s%d", partAge, len(seen))))
			seen[bare] = true
		}
	}
	w.ages, w.all = len(seen), w.all && needsAll(expr)
	query := strings.Join(parts, " or ")
	if _, err := promql.ParseExpr(query); err != nil {
		return "", w, fmt.Errorf("%w: %w", errInvalid, err)
	}
	return query, w, nil
}

// oneName returns a selector as it is asked for its sample times: one for each metric name that it lists. timestamp() drops the name,
// and fails where two series then look the same; of a selector that matches any name, or names by a pattern, nothing can be asked.
func oneName(s *parser.VectorSelector) (out []*parser.VectorSelector) {
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

// needsAll tells whether an expression has no value where one of its selectors has no sample.
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

func mark(expr, part string) string {
	return fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, expr, partLabel, part)
}

// newest returns a query for the newest sample of each series of any of the names, with its own time: a range, because only the
// samples of a range carry the time at which they were scraped. only restricts it further.
func newest(names []string, matchers map[string]string, lookback time.Duration, only []*labels.Matcher) string {
	ms := append(withMatchers([]*labels.Matcher{anyOf(names)}, matchers), only...)
	selector := &parser.VectorSelector{LabelMatchers: ms}
	return (&parser.MatrixSelector{VectorSelector: selector, Range: lookback}).String()
}

// anyOf matches any of the names. An alternation of plain names is looked up in the index, without a scan over all names.
func anyOf(names []string) *labels.Matcher {
	if len(names) == 1 {
		return labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, names[0])
	}
	return labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(names, "|"))
}

// lookback is how old a sample is asked for: somewhat beyond the age at which it is stale, so that a stale one can say so.
func lookback(slots []slot) time.Duration {
	longest := time.Minute
	for i := range slots {
		longest = max(longest, slots[i].signal.MaxAge)
	}
	return min(longest+time.Minute, 15*time.Minute).Round(time.Second)
}
