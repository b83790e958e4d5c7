package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// present reports whether at least one of the names had series within recentWindow. The names are alternative names of one metric. If there
// were no series, present adds a finding.
func (c *check) present(ctx context.Context, about string, names []string) (bool, error) {
	inWeek := false
	for _, name := range names {
		w, err := c.served(ctx, name)
		if err != nil {
			return false, err
		}
		if w == atPresent {
			return true, nil
		}
		inWeek = inWeek || w == thisWeek
	}
	for _, name := range names {
		for _, other := range spellings(name) {
			w, err := c.served(ctx, other)
			if err != nil {
				return false, err
			}
			if w == atPresent && !slices.Contains(names, other) {
				c.add(Finding{Error, Renamed, about, fmt.Sprintf("%s does not exist, and %s does", name, other),
					"the engine or a relabeling renamed it: the signal has no value", "read " + other})
				return false, nil
			}
		}
	}
	if inWeek {
		c.add(Finding{Warning, MetricGone, about, fmt.Sprintf("%s currently has no series; it had series within the last week", names[0]),
			"a metric of pods ends with the last pod: the signal has no value while none runs",
			"none if the workload has no replica; otherwise check that its pods are scraped"})
		return false, nil
	}
	c.add(Finding{Error, MetricMissing, about, fmt.Sprintf("%s has no series, and had none within the last week", names[0]),
		missingWhy(names[0]), missingFix(names[0])})
	return false, nil
}

// noValue is the text about the effect of a signal that has no value.
const noValue = "the signal has no value: it never raises the target, and the target cannot decrease"

func missingWhy(name string) string {
	if strings.EqualFold(name, smActive) {
		return "SM_ACTIVE is commented out in the exporter's default counters: the signal has no value"
	}
	return noValue
}

func missingFix(name string) string {
	switch {
	case strings.EqualFold(name, smActive):
		return "add DCGM_FI_PROF_SM_ACTIVE to the exporter's counters, or read DCGM_FI_PROF_GR_ENGINE_ACTIVE, which is in the default ones"
	case strings.HasPrefix(name, "sglang"):
		return "start SGLang with --enable-metrics, and scrape it"
	case fromPods(name):
		return "scrape the pods (a PodMonitor), and check the name on the pod's own /metrics"
	}
	return "check the name, and that its exporter is scraped by this server"
}

// unmatched adds a finding for a metric that exists, but of which no series matches the selector v. The finding contains the matchers that
// no series satisfies.
func (c *check) unmatched(ctx context.Context, about, name string, v *parser.VectorSelector) error {
	sets, err := c.recent(ctx, c.selector(named(name)))
	if err != nil {
		return err
	}
	var wrong []string
	for _, m := range v.LabelMatchers {
		has := func(label model.LabelName) func(set model.LabelSet) bool {
			return func(set model.LabelSet) bool { return m.Matches(string(set[label])) }
		}
		if m.Name == model.MetricNameLabel || slices.ContainsFunc(sets, has(model.LabelName(m.Name))) {
			continue
		}
		exported := model.LabelName("exported_" + m.Name)
		if slices.ContainsFunc(sets, func(set model.LabelSet) bool { return set[exported] != "" && has(exported)(set) }) {
			c.add(Finding{Error, ExportedLabel, about, fmt.Sprintf("no series of %s has %s, and some have it in exported_%s", name, m, m.Name),
				fmt.Sprintf("without honorLabels the label %s is the exporter's own; the workload's is exported_%s", m.Name, m.Name),
				fmt.Sprintf("match exported_%s, or set honorLabels: true on the exporter's ServiceMonitor", m.Name)})
			return nil
		}
		wrong = append(wrong, m.String())
	}
	what := fmt.Sprintf("%s has %s, and none has %s", name, plural(len(sets), "series"), strings.Join(wrong, ", "))
	if len(wrong) == 0 {
		what = fmt.Sprintf("%s has %s, and none matches all of %s", name, plural(len(sets), "series"), v)
	}
	c.add(Finding{Error, NothingMatches, about, what, noValue, "correct the matcher; labels of one series: " + example(sets)})
	return nil
}

// example returns the labels of one series as an example for a finding. It selects the series that is first in lexical order.
func example(sets []model.LabelSet) string {
	texts := make([]string, len(sets))
	for i, set := range sets {
		one := set.Clone()
		delete(one, model.MetricNameLabel)
		texts[i] = one.String()
	}
	slices.Sort(texts)
	return short(texts[0])
}

func short(s string) string {
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "..."
	}
	return s
}
