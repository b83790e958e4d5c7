package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
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

// isActivity tells what says how busy a GPU is.
func isActivity(name string) bool {
	for _, n := range exposition.DCGMNames(exposition.Activity) {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return strings.EqualFold(name, "nv_gpu_utilization")
}

// fromPods tells the metrics that end with the last pod.
func fromPods(name string) bool {
	low := strings.ToLower(name)
	if strings.HasPrefix(low, "dcgm_") {
		return true
	}
	for _, e := range engines {
		if strings.HasPrefix(low, e) {
			return true
		}
	}
	return false
}

// engines are the prefixes of what model servers serve about themselves.
var engines = []string{"vllm:", "vllm_", "ray_vllm", "sglang:", "sglang_", "tgi_", "nv_inference_", "nv_trt_llm_", "trtllm_", "num_requests_", "gpu_cache_usage_perc", "kv_cache_usage_perc"}

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

// pods judges what is read pod by pod.
func (s *survey) pods(ctx context.Context, of *Subject, g *Signal) error {
	if len(g.Names) == 0 {
		return nil
	}
	about := of.about(g)
	if g.GPU {
		return s.gpuPods(ctx, of, g)
	}
	if there, err := s.present(ctx, about, g.Names); err != nil || !there {
		return err
	}
	sets, err := s.look(ctx, s.selector(labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(g.Names, "|"))))
	if err != nil {
		return err
	}
	owned, here := 0, 0
	for _, set := range sets {
		if o, ok := exposition.EngineOwner(labelsOf(set), ""); ok {
			owned++
			if o.Namespace == of.Namespace {
				here++
			}
		}
	}
	switch {
	case owned == 0:
		s.add(Finding{Error, NoPodOnSeries, about, fmt.Sprintf("no series of %s says which pod it is of", g.Names[0]), "it cannot be matched to the workload's pods: the signal has no reading", "scrape by PodMonitor or keep the pod and namespace labels; labels of one series: " + example(sets)})
	case here == 0:
		s.add(Finding{Warning, NotInNamespace, about, fmt.Sprintf("%s is served by other namespaces' pods, and by none in %s", g.Names[0], of.Namespace), "there is no reading as long as none of its pods is scraped", "nothing, if the workload is at zero; else scrape its pods, and see that they allow it (NetworkPolicy)"})
	}
	return nil
}

// gpuPods judges a dcgm signal: does any pod of the namespace hold a GPU that reports. What is wrong for all is said once, by gpus.
func (s *survey) gpuPods(ctx context.Context, of *Subject, g *Signal) error {
	sets, err := s.look(ctx, s.selector(labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(g.Names, "|"))))
	if err != nil {
		return err
	}
	owned, here := false, false
	for _, set := range sets {
		o, ok := exposition.GPUOwner(labelsOf(set))
		if ok = ok && !isExporter(set); ok {
			owned, here = true, here || o.Namespace == of.Namespace
		}
	}
	if owned && !here {
		s.add(Finding{Warning, NotInNamespace, of.about(g), fmt.Sprintf("no pod of %s holds a GPU that reports", of.Namespace), "there is no reading as long as that is so", "nothing, if the workload is at zero; else see whether the exporter runs on its nodes"})
	}
	return nil
}
