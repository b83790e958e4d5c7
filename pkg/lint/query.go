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

// subject judges everything that one policy, ScaledObject or HPA reads.
func (s *survey) subject(ctx context.Context, of *Subject) error {
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
				s.add(Finding{Error, NotPromQL, of.about(g), "its query cannot be read: " + err.Error(), "the signal never has a reading", "mend the query: " + short(g.Query)})
				continue
			}
			if names, err = s.query(ctx, of.about(g), expr); err != nil {
				return err
			}
			if err := s.joined(ctx, of.about(g), g); err != nil {
				return err
			}
			// What does not come from pods outlives the last one.
			if !slices.ContainsFunc(names, fromPods) {
				wakes = true
			}
		} else if !g.Direct {
			if err := s.pods(ctx, of, g); err != nil {
				return err
			}
		}
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !isActivity(n) }) {
			util++
		} else {
			others++
		}
	}
	if util > 0 && others == 0 {
		s.add(Finding{Warning, UtilAlone, of.About, "how busy the GPU is decides alone", "a model server that is full and one that has room both read near 100%, and requests that wait do not show: GPU_UTIL says for how much of the time any kernel ran",
			"read the queue or the concurrency of the model server as well, and let the GPU only hold a fall back"})
	}
	if len(of.Signals) > 0 && !wakes && of.MinReplicas == 0 {
		s.add(Finding{Error, EmptyAtZero, of.About, "every signal comes from the workload's own pods, and minReplicas is 0", "at zero replicas there are no pods to read: it never wakes again", "add a signal that outlives the pods (a gateway's queue, Redis, Kueue, a KEDA trigger), or a schedule, or set minReplicas: 1"})
	}
	return nil
}

// joined judges whether the answer of a query for many workloads says which workload each series is of. An answer that is empty says
// nothing of its labels.
func (s *survey) joined(ctx context.Context, about string, g *Signal) error {
	if g.Join == nil {
		return nil
	}
	answer, err := s.server.Instant(ctx, g.Query, s.now)
	if err != nil || len(answer) == 0 {
		return err
	}
	j, have := g.Join, answer[0].Metric
	for _, name := range []string{j.NamespaceLabel, j.WorkloadLabel} {
		if name == "" || slices.ContainsFunc(answer, func(x *model.Sample) bool { return x.Metric[model.LabelName(name)] != "" }) {
			continue
		}
		s.add(Finding{Error, AnswerNotJoined, about, fmt.Sprintf("no series of its answer has the label %s, by which the workload is found; one has %s", name, have), "no workload finds its number in it: the signal has no reading",
			fmt.Sprintf("keep the label: sum by (%s) (...), or name another with namespaceLabel and workloadLabel", strings.Trim(j.NamespaceLabel+", "+j.WorkloadLabel, ", "))})
		return nil
	}
	matches := func(name, value string, x *model.Sample) bool {
		return name == "" || value == "" || string(x.Metric[model.LabelName(name)]) == value
	}
	if !slices.ContainsFunc(answer, func(x *model.Sample) bool {
		return matches(j.NamespaceLabel, j.Namespace, x) && matches(j.WorkloadLabel, j.Value, x)
	}) {
		s.add(Finding{Warning, NotInAnswer, about, fmt.Sprintf("none of the %d series of its answer is of %s; one has %s", len(answer), strings.Trim(j.Namespace+"/"+j.Value, "/"), have), "the signal has no reading as long as that is so",
			"nothing, if there is no series without traffic; else check the signal's labelValue, and what the query groups by"})
	}
	return nil
}

// query judges the selectors of a query, and returns the metrics in it. Of alternatives (`new_name or old_name`) one must be there, and
// what is asked whether it is absent, or taken away, need not be.
func (s *survey) query(ctx context.Context, about string, expr parser.Expr) (names []string, err error) {
	var missing []Finding // of alternatives
	answered := false
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok || err != nil {
			return nil
		}
		name := nameOf(v)
		if name == "" {
			return nil // many names: what it means is its author's
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		one := &survey{server: s.server, now: s.now, matchers: s.matchers, about: s.about, series: s.series, seen: s.seen}
		var there bool
		if there, err = one.vector(ctx, about, name, v, path); err != nil {
			return nil
		}
		if optional(path) && !there {
			missing = append(missing, one.all...)
			return nil
		}
		answered = answered || there
		for _, f := range one.all {
			s.add(f)
		}
		return nil
	})
	if !answered {
		for _, f := range missing {
			s.add(f)
		}
	}
	return names, err
}

// optional tells a selector without which a query still has an answer.
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

// vector judges one selector: is it there, does it match, is it what it is used as.
func (s *survey) vector(ctx context.Context, about, name string, v *parser.VectorSelector, path []parser.Node) (there bool, err error) {
	if there, err = s.present(ctx, about, []string{name}); err != nil || !there {
		return false, err
	}
	sets, err := s.look(ctx, s.selector(v.LabelMatchers...))
	if err != nil {
		return false, err
	}
	if len(sets) == 0 {
		return false, s.unmatched(ctx, about, name, v)
	}
	if strings.HasPrefix(strings.ToUpper(name), strings.ToUpper(fbUsed)) {
		s.add(Finding{Warning, MemoryAsLoad, about, name + " is read as a load", "model servers allocate their memory ahead and never give it back: the number rises and never falls", "read the queue, the concurrency or the cache use of the model server"})
	}
	kind, err := s.server.Kind(ctx, name)
	if err != nil {
		return true, err
	}
	s.shape(about, name, kind, path)
	return true, nil
}

// Functions that make a level of a counter. resets and changes count.
var overCounters = []string{"rate", "irate", "increase", "resets", "changes", "absent", "absent_over_time", "count_over_time", "present_over_time", "timestamp"}

// shape judges whether a counter is read as a level, or a level as a counter.
func (s *survey) shape(about, name, kind string, path []parser.Node) {
	var around []string
	for _, n := range path {
		if c, ok := n.(*parser.Call); ok {
			around = append(around, c.Func.Name)
		}
		if a, ok := n.(*parser.AggregateExpr); ok && (a.Op == parser.COUNT || a.Op == parser.GROUP) {
			around = append(around, "absent") // how many there are, not how much they say
		}
	}
	counter := kind == "counter" || kind == "histogram" || kind == "" && (strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_bucket"))
	used := slices.ContainsFunc(around, func(f string) bool { return slices.Contains(overCounters, f) })
	rated := slices.ContainsFunc(around, func(f string) bool { return f == "rate" || f == "irate" || f == "increase" })
	switch {
	case counter && !used:
		severity := Error
		if kind == "" {
			severity = Warning // by its name alone
		}
		s.add(Finding{severity, CounterAsGauge, about, fmt.Sprintf("%s is a counter, and is read as a level", name), "it only ever rises: the workload grows to its maximum and stays there", fmt.Sprintf("read rate(%s[2m])", name)})
	case kind == "gauge" && rated:
		s.add(Finding{Warning, GaugeAsCounter, about, fmt.Sprintf("%s is a level, and rate() or increase() is taken of it", name), "each fall of a level looks like a restart of a counter: the result means nothing", "read it as it is, or deriv() for its slope"})
	}
}
