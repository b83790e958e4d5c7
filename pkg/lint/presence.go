package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// present tells whether one of the spellings of a metric is served at present, and why not.
func (s *survey) present(ctx context.Context, about string, names []string) (bool, error) {
	week := false
	for _, name := range names {
		w, err := s.served(ctx, name)
		if err != nil {
			return false, err
		}
		if w == atPresent {
			return true, nil
		}
		week = week || w == thisWeek
	}
	for _, name := range names {
		for _, other := range spellings(name) {
			w, err := s.served(ctx, other)
			if err != nil {
				return false, err
			}
			if w == atPresent && !slices.Contains(names, other) {
				s.add(Finding{Error, Renamed, about, fmt.Sprintf("%s is not served; %s is", name, other), "the engine renamed it, or a relabeling did: the signal has no reading", "read " + other})
				return false, nil
			}
		}
	}
	if week {
		s.add(Finding{Warning, MetricGone, about, fmt.Sprintf("%s is not served at present; it was within the last week", names[0]), "what comes from pods ends with the last one: as long as none runs there is no reading", "nothing, if the workload is at zero; else see whether its pods are scraped"})
		return false, nil
	}
	s.add(Finding{Error, MetricMissing, about, fmt.Sprintf("nobody serves %s, nor did within the last week", names[0]), missingWhy(names[0]), missingFix(names[0])})
	return false, nil
}

func missingWhy(name string) string {
	if strings.EqualFold(name, smActive) {
		return "SM_ACTIVE is commented out in the exporter's default counters: the signal has no reading"
	}
	return "the signal has no reading: it never raises, and it holds every fall"
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

// unmatched says why no series of a metric that is served has the labels.
func (s *survey) unmatched(ctx context.Context, about, name string, v *parser.VectorSelector) error {
	sets, err := s.look(ctx, s.selector(named(name)))
	if err != nil {
		return err
	}
	var wrong []string
	for _, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel || slices.ContainsFunc(sets, func(set model.LabelSet) bool { return m.Matches(string(set[model.LabelName(m.Name)])) }) {
			continue
		}
		exported := model.LabelName("exported_" + m.Name)
		if slices.ContainsFunc(sets, func(set model.LabelSet) bool { return set[exported] != "" && m.Matches(string(set[exported])) }) {
			s.add(Finding{Error, ExportedLabel, about, fmt.Sprintf("no series of %s has %s, and some have it in exported_%s", name, m, m.Name),
				fmt.Sprintf("without honorLabels the label %s is the exporter's own; the workload's is exported_%s", m.Name, m.Name), fmt.Sprintf("match exported_%s, or set honorLabels: true on the exporter's ServiceMonitor", m.Name)})
			return nil
		}
		wrong = append(wrong, m.String())
	}
	what := fmt.Sprintf("%s is served (%s), and none has %s", name, plural(len(sets), "series"), strings.Join(wrong, ", "))
	if len(wrong) == 0 {
		what = fmt.Sprintf("%s is served (%s), and none matches all of %s", name, plural(len(sets), "series"), v)
	}
	s.add(Finding{Error, NothingMatches, about, what, "the signal has no reading: it never raises, and it holds every fall", "correct the matcher; labels of one series: " + example(sets)})
	return nil
}

// example is one series' labels, the first in order.
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
