package promquery

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

func TestEverySelectorThatPackagePolicyCompilesHasAShape(t *testing.T) {
	for query, want := range map[string]string{
		`sum by (namespace) (jobs{namespace="a"})`:                                                                    "namespace",
		`avg by (namespace) (rate(jobs{namespace="a",queue="x"}[5m]))`:                                                "namespace queue",
		`max by (namespace) (jobs{cluster="c",namespace="a",queue="x"})`:                                              "cluster namespace queue",
		`histogram_quantile(0.95, sum by (le, namespace) (rate(t_bucket{namespace="a"}[2m])))`:                        "namespace",
		`sum by (namespace) (rate(t_sum{namespace="a"}[2m])) / sum by (namespace) (rate(t_count{namespace="a"}[2m]))`: "namespace",
		`jobs{namespace="a"}`:                                                           "", // without an aggregation, no labels can be added
		`sum without (pod) (jobs{namespace="a"})`:                                       "",
		`sum by (namespace) (jobs{namespace=~"a|b"})`:                                   "",
		`topk by (namespace) (3, jobs{namespace="a"})`:                                  "",
		`sum by (namespace) (a{namespace="a"}) / sum by (namespace) (b{namespace="b"})`: "",
		`sum by (namespace) (jobs)`:                                                     "",
		`sum by (`:                                                                      "",
	} {
		got := ""
		if s, _ := ParseShape(query); s != nil {
			got = strings.Join(s.labels, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestMatchersOfTheDataSourceAreAddedToEverySelector(t *testing.T) {
	matchers := map[string]string{"cluster": `p"rod\`, "tenant": "x"}
	for _, query := range []string{
		`up`, `sum(rate(a[5m])) / sum(b offset 1h)`, `max_over_time(rate(a{cluster="other"}[1m])[1h:])`, `{__name__=~"a.*"} unless on (x) b @ 5`,
		`a or (b and absent(c))`, `histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))`, `label_replace(a, "x", "$1", "y", "(.*)")`,
	} {
		expr, err := addMatchers(query, matchers)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		again, err := promql.ParseExpr(expr.String())
		if err != nil {
			t.Errorf("%s became %s: %v", query, expr, err)
			continue
		}
		for _, s := range selectors(again) {
			for name, value := range matchers {
				same := func(m *labels.Matcher) bool { return m.Name == name && m.Value == value && m.Type == labels.MatchEqual }
				if !slices.ContainsFunc(s.LabelMatchers, same) {
					t.Errorf("%s became %s: a selector has no matcher for %s", query, expr, name)
				}
			}
		}
	}
	if expr, err := addMatchers(`a{cluster="x"}`, map[string]string{"cluster": "x"}); err != nil || expr.String() != `a{cluster="x"}` {
		t.Errorf("a matcher that the selector has already is added again: %v %v", expr, err)
	}
}

func TestQueryIsSeparableWhereEachNamespaceHasItsOwnSeries(t *testing.T) {
	for query, want := range map[string]bool{
		`sum by (namespace, pool) (queue_size)`:                                true,
		`sum by (pool) (queue_size)`:                                           false,
		`sum without (pod) (queue_size)`:                                       true,
		`sum without (namespace) (queue_size)`:                                 false,
		`queue_size`:                                                           true,
		`sum by (namespace) (a) / sum by (namespace) (b)`:                      true,
		`sum by (namespace) (a) / on (namespace) b`:                            true,
		`sum by (namespace) (a) / ignoring (namespace) b`:                      false,
		`sum by (namespace) (a) / on () group_left sum(b)`:                     false,
		`sum by (namespace) (a) / scalar(sum(b))`:                              false,
		`sum by (namespace) (a) / scalar(vector(2))`:                           true,
		`sum by (namespace) (a) or vector(0)`:                                  true,
		`a and absent(b)`:                                                      false,
		`label_replace(a, "pool", "$1", "p", "(.*)")`:                          true,
		`label_replace(sum by (ns) (a), "namespace", "$1", "ns", "(.*)")`:      false,
		`histogram_quantile(0.9, sum by (le, namespace) (rate(x_bucket[5m])))`: true,
		`max_over_time(sum by (namespace) (rate(a[1m]))[1h:])`:                 true,
		`-topk by (namespace) (3, a) * (sum by (namespace) (b) > bool 2)`:      true,
		`topk(3, a)`: false,
	} {
		expr, err := promql.ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := separable(expr, "namespace"); got != want {
			t.Errorf("%s: separable %t, want %t", query, got, want)
		}
	}
}
