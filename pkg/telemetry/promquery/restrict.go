package promquery

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// namespaceLabels contains the labels in which a series can have the namespace of its pod.
type namespaceLabels struct {
	scraped  []string // labels that the scrape sets; the first label that is present is used
	reported []string // labels that an exporter sets for another pod; the first label that matches is used
	trusted  []string // namespaces of the exporters whose series may refer to other pods
}

// restrictions returns sets of matchers, one set for each query. Together, the sets match the series of the given namespaces, and no series
// matches two sets. If namespaces is nil, restrictions returns one set without matchers. A pod of another namespace cannot add series to
// the responses, because its page cannot remove the labels that the scrape sets.
func (l namespaceLabels) restrictions(namespaces []string) [][]*labels.Matcher {
	if namespaces == nil {
		return [][]*labels.Matcher{nil}
	}
	var out [][]*labels.Matcher
	for i, name := range l.scraped {
		set := []*labels.Matcher{valueMatcher(name, namespaces)}
		for _, earlier := range l.scraped[:i] {
			set = append(set, labels.MustNewMatcher(labels.MatchEqual, earlier, ""))
		}
		for _, later := range l.scraped[i+1:] {
			set = append(set, absentOr(later, namespaces))
		}
		out = append(out, set)
	}
	for i := range l.reported {
		if len(l.trusted) == 0 {
			break
		}
		set := l.reportedBy(i, namespaces)
		for _, name := range l.scraped {
			set = append(set, not(valueMatcher(name, namespaces))) // excludes the series that a previous set selects
		}
		out = append(out, set)
	}
	return out
}

// reportedBy returns matchers for the series of trusted exporters in which the label reported[i], but no earlier label in reported, is one
// of the namespaces.
func (l namespaceLabels) reportedBy(i int, namespaces []string) []*labels.Matcher {
	set := append(l.exporters(), valueMatcher(l.reported[i], namespaces))
	for _, earlier := range l.reported[:i] {
		set = append(set, not(valueMatcher(earlier, namespaces)))
	}
	return set
}

// exporters returns matchers for the series that Prometheus scraped in the namespaces of the trusted exporters.
func (l namespaceLabels) exporters() (set []*labels.Matcher) {
	for _, name := range l.scraped {
		set = append(set, absentOr(name, l.trusted))
	}
	return set
}

// absentOr returns a matcher for a label that is absent or has one of the values.
func absentOr(label string, values []string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchRegexp, label, alternatives(values)+"|")
}

// not returns the inverse of a matcher.
func not(m *labels.Matcher) *labels.Matcher {
	inverse := map[labels.MatchType]labels.MatchType{labels.MatchEqual: labels.MatchNotEqual, labels.MatchRegexp: labels.MatchNotRegexp}
	return labels.MustNewMatcher(inverse[m.Type], m.Name, m.Value)
}

// separable reports whether an expression computes the value of each namespace from the series of that namespace alone. If the selectors of
// such an expression are restricted to a namespace, its value for this namespace does not change. The parameter label is the name of the
// label that contains the namespace.
func separable(expr parser.Expr, label string) bool {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		return slices.Contains(e.Grouping, label) != e.Without && separable(e.Expr, label)
	case *parser.BinaryExpr:
		if m := e.VectorMatching; m != nil && len(selectors(e.LHS)) > 0 && len(selectors(e.RHS)) > 0 &&
			slices.Contains(m.MatchingLabels, label) != m.On {
			return false
		}
		return separable(e.LHS, label) && separable(e.RHS, label)
	case *parser.Call:
		return separableCall(e, label)
	case *parser.ParenExpr:
		return separable(e.Expr, label)
	case *parser.UnaryExpr:
		return separable(e.Expr, label)
	case *parser.SubqueryExpr:
		return separable(e.Expr, label)
	case *parser.StepInvariantExpr:
		return separable(e.Expr, label)
	}
	return true // selectors and literals need no check
}

func separableCall(e *parser.Call, label string) bool {
	switch e.Func.Name {
	case "scalar", "absent", "absent_over_time", "info":
		return len(selectors(e)) == 0
	case "label_replace", "label_join":
		if written, ok := e.Args[1].(*parser.StringLiteral); !ok || written.Val == label {
			return false
		}
	}
	for _, arg := range e.Args {
		if !separable(arg, label) {
			return false
		}
	}
	return true
}

// restrictTo adds a matcher to every selector of an expression: the parameter label must have one of the given namespaces.
func restrictTo(expr parser.Expr, label string, namespaces []string) {
	for _, s := range selectors(expr) {
		s.LabelMatchers = append(s.LabelMatchers, valueMatcher(label, namespaces))
	}
}
