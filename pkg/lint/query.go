package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

var promql = parser.NewParser(parser.Options{})

// subject checks all signals of one policy, ScaledObject or HPA.
func (c *check) subject(ctx context.Context, of *Subject) error {
	wakes, util, others := false, 0, 0
	for i := range of.Signals {
		g := &of.Signals[i]
		if g.Wakes || g.Schedule {
			if wakes = true; g.Wakes {
				others++
			}
			continue
		}
		names := g.Names
		if g.Query != "" {
			expr, err := promql.ParseExpr(g.Query)
			if err != nil {
				c.add(Finding{Error, NotPromQL, of.about(g), "its query cannot be parsed: " + err.Error(), "the signal never has a value",
					"correct the query: " + short(g.Query)})
				continue
			}
			if names, err = c.query(ctx, of.about(g), expr); err != nil {
				return err
			}
			if err := c.joined(ctx, of.about(g), g); err != nil {
				return err
			}
			// A metric that the workload's pods do not export also has series at zero replicas, so this signal can activate the workload.
			if !slices.ContainsFunc(names, fromPods) {
				wakes = true
			}
		} else if !g.Direct {
			if err := c.pods(ctx, of, g); err != nil {
				return err
			}
		}
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !isActivity(n) }) {
			util++
		} else {
			others++
		}
	}
	if err := c.gracePeriod(ctx, of); err != nil {
		return err
	}
	if util > 0 && others == 0 {
		c.add(Finding{Warning, UtilAlone, of.About, "GPU utilization is the only signal",
			"a model server at its limit and one with spare capacity both report about 100%, and waiting requests are not visible: " +
				"GPU_UTIL is the share of the time in which any kernel ran",
			"also read the queue or the concurrency of the model server, and use the GPU only to delay a scale-down"})
	}
	if len(of.Signals) > 0 && !wakes && of.MinReplicas == 0 {
		c.add(Finding{Error, EmptyAtZero, of.About, "every signal is a metric of the workload's own pods, and minReplicas is 0",
			"at zero replicas no pod has metrics: the workload is never activated again",
			"add a signal that does not need pods (a gateway's queue, Redis, Kueue, a KEDA trigger), or a schedule, or set minReplicas: 1"})
	}
	return nil
}

// joined checks a query whose result contains series of many workloads. It checks that the series have the labels in g.Join, and that at
// least one series belongs to the workload. If the result of the query is empty, joined adds no finding.
func (c *check) joined(ctx context.Context, about string, g *Signal) error {
	if g.Join == nil {
		return nil
	}
	answer, err := c.server.Instant(ctx, g.Query, c.now)
	if err != nil || len(answer) == 0 {
		return err
	}
	j, have := g.Join, answer[0].Metric
	for _, name := range []string{j.NamespaceLabel, j.WorkloadLabel} {
		has := func(x *model.Sample) bool { return x.Metric[model.LabelName(name)] != "" }
		if name == "" || slices.ContainsFunc(answer, has) {
			continue
		}
		c.add(Finding{Error, AnswerNotJoined, about,
			fmt.Sprintf("no series of its result has the label %s, which identifies the workload; one series has %s", name, have),
			"no workload finds its value in the result: the signal has no value",
			fmt.Sprintf("keep the label: sum by (%s) (...), or name another with namespaceLabel and workloadLabel",
				strings.Trim(j.NamespaceLabel+", "+j.WorkloadLabel, ", "))})
		return nil
	}
	matches := func(name, value string, x *model.Sample) bool {
		return name == "" || value == "" || string(x.Metric[model.LabelName(name)]) == value
	}
	if !slices.ContainsFunc(answer, func(x *model.Sample) bool {
		return matches(j.NamespaceLabel, j.Namespace, x) && matches(j.WorkloadLabel, j.Value, x)
	}) {
		c.add(Finding{Warning, NotInAnswer, about, fmt.Sprintf("none of the %d series of its result is of %s; one series has %s", len(answer),
			strings.Trim(j.Namespace+"/"+j.Value, "/"), have), "the signal has no value until there is one",
			"none if there is no series without traffic; otherwise check the signal's labelValue and the labels by which the query groups"})
	}
	return nil
}

// query checks the selectors of a query and returns the names of its metrics. If the query contains alternative metrics such as `new_name
// or old_name`, at least one of these metrics must exist. Metrics in the operands of absent() and of `unless` need not exist.
func (c *check) query(ctx context.Context, about string, expr parser.Expr) (names []string, err error) {
	var missing []Finding // findings about metrics that have no series but are alternatives to other metrics
	answered := false
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok || err != nil {
			return nil
		}
		name := nameOf(v)
		if name == "" {
			return nil // the selector matches several metrics and is not checked
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		one := &check{server: c.server, now: c.now, matchers: c.matchers, about: c.about, series: c.series, lastSeen: c.lastSeen}
		var exists bool
		if exists, err = one.vector(ctx, about, name, v, path); err != nil {
			return nil
		}
		if optional(path) && !exists {
			missing = append(missing, one.all...)
			return nil
		}
		answered = answered || exists
		for _, f := range one.all {
			c.add(f)
		}
		return nil
	})
	if !answered {
		for _, f := range missing {
			c.add(f)
		}
	}
	return names, err
}

// optional reports whether a query can have a result even if a selector matches no series. This is the case if the selector is an operand
// of `or`, `unless` or absent(). path contains the nodes of the expression that enclose the selector.
func optional(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			return n.Op == parser.LOR || n.Op == parser.LUNLESS
		case *parser.Call:
			return strings.HasPrefix(n.Func.Name, "absent")
		}
		return false
	})
}

func nameOf(v *parser.VectorSelector) string {
	for _, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return v.Name
}

// vector checks one selector: whether its metric exists, whether a series matches it, and whether the query uses the metric as its type
// (counter or gauge) requires. exists is true if a series matches.
func (c *check) vector(ctx context.Context, about, name string, v *parser.VectorSelector, path []parser.Node) (exists bool, err error) {
	if exists, err = c.present(ctx, about, []string{name}); err != nil || !exists {
		return false, err
	}
	sets, err := c.recent(ctx, c.selector(v.LabelMatchers...))
	if err != nil {
		return false, err
	}
	if len(sets) == 0 {
		return false, c.unmatched(ctx, about, name, v)
	}
	if strings.HasPrefix(strings.ToUpper(name), strings.ToUpper(fbUsed)) {
		c.add(Finding{Warning, MemoryAsLoad, about, name + " is used as the load",
			"model servers allocate memory in advance and never release it: the value increases and never decreases",
			"read the queue, the concurrency or the cache use of the model server"})
	}
	kind, err := c.server.Kind(ctx, name)
	if err != nil {
		return true, err
	}
	c.counterUse(about, name, kind, path)
	return true, nil
}

// overCounters contains the functions that make a counter usable in a query. The value of a counter only increases, but the results of
// these functions can also decrease.
var overCounters = []string{
	"rate", "irate", "increase", "resets", "changes", "absent", "absent_over_time", "count_over_time", "present_over_time", "timestamp",
}

// counterUse adds a finding if the query uses a counter like a gauge, or a gauge like a counter.
func (c *check) counterUse(about, name, kind string, path []parser.Node) {
	var around []string
	for _, n := range path {
		if call, ok := n.(*parser.Call); ok {
			around = append(around, call.Func.Name)
		}
		if a, ok := n.(*parser.AggregateExpr); ok && (a.Op == parser.COUNT || a.Op == parser.GROUP) {
			around = append(around, "absent") // count and group use the number of series and not their values
		}
	}
	counterName := strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket")
	counter := kind == "counter" || kind == "histogram" || kind == "" && counterName
	used := slices.ContainsFunc(around, func(f string) bool { return slices.Contains(overCounters, f) })
	rated := slices.ContainsFunc(around, func(f string) bool { return f == "rate" || f == "irate" || f == "increase" })
	switch {
	case counter && !used:
		severity := Error
		if kind == "" {
			severity = Warning // only the name of the metric shows that it is a counter
		}
		c.add(Finding{severity, CounterAsGauge, about, fmt.Sprintf("%s is a counter, and is used as a gauge", name),
			"it only increases: the workload is scaled to its maximum and stays there", fmt.Sprintf("read rate(%s[2m])", name)})
	case kind == "gauge" && rated:
		c.add(Finding{Warning, GaugeAsCounter, about, fmt.Sprintf("%s is a gauge, and the query applies rate() or increase() to it", name),
			"each decrease of a gauge counts as a restart of a counter: the result has no meaning",
			"read it without rate(), or use deriv() for its slope"})
	}
}
