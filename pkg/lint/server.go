package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// Server answers what is asked of a Prometheus server; *history.Server is one.
type Server interface {
	Catalog
	Instant(ctx context.Context, expr string, at time.Time) (model.Vector, error)
}

// Catalog is what a server has.
type Catalog interface {
	Series(ctx context.Context, match string, from, to time.Time) ([]model.LabelSet, error)
	Names(ctx context.Context, match string, from, to time.Time) ([]string, error)
	Kind(ctx context.Context, metric string) (string, error)
}

const (
	// recent is what counts as there: three scrapes at the slowest pace that people use.
	recent = 10 * time.Minute
	// past is how far back a metric that is not there is looked for: a workload at zero over a weekend has one by then.
	past = 7 * 24 * time.Hour
)

// survey is one look at one server.
type survey struct {
	list
	server   Server
	now      time.Time
	matchers map[string]string
	about    string                      // the server, for people
	series   map[string][]model.LabelSet // by the selector that was asked
	seen     map[string]int              // how long names were looked for: 1 recently, 2 within the week, 0 never
}

// Prometheus judges a server, and what the subjects ask of it, as of now. The error is the server's; it becomes a finding where nothing
// at all is answered.
func Prometheus(ctx context.Context, server Server, about string, matchers map[string]string, subjects []Subject, now time.Time) ([]Finding, error) {
	s := &survey{server: server, now: now, matchers: matchers, about: about, series: map[string][]model.LabelSet{}, seen: map[string]int{}}
	if err := s.gpus(ctx); err != nil {
		return nil, err
	}
	if err := s.companions(ctx); err != nil {
		return nil, err
	}
	for i := range subjects {
		if err := s.subject(ctx, &subjects[i]); err != nil {
			return nil, err
		}
	}
	Sort(s.all)
	return s.all, nil
}

// selector renders matchers with the ones that belong into every question.
func (s *survey) selector(ms ...*labels.Matcher) string {
	names := make([]string, 0, len(s.matchers))
	for name := range s.matchers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, name, s.matchers[name]))
	}
	return (&parser.VectorSelector{LabelMatchers: ms}).String()
}

func named(name string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)
}

// look returns the series that match recently.
func (s *survey) look(ctx context.Context, selector string) ([]model.LabelSet, error) {
	if have, ok := s.series[selector]; ok {
		return have, nil
	}
	sets, err := s.server.Series(ctx, selector, s.now.Add(-recent), s.now)
	s.series[selector] = sets
	return sets, err
}

// when a metric was served last.
type when int

const (
	never when = iota
	thisWeek
	atPresent
)

func (s *survey) served(ctx context.Context, name string) (when, error) {
	if have, ok := s.seen[name]; ok {
		return when(have), nil
	}
	found := never
	for _, look := range []struct {
		back time.Duration
		then when
	}{{recent, atPresent}, {past, thisWeek}} {
		names, err := s.server.Names(ctx, s.selector(named(name)), s.now.Add(-look.back), s.now)
		if err != nil {
			return never, err
		}
		if len(names) > 0 {
			found = look.then
			break
		}
	}
	s.seen[name] = int(found)
	return found, nil
}

const (
	smActive = "DCGM_FI_PROF_SM_ACTIVE"
	grActive = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
	gpuUtil  = "DCGM_FI_DEV_GPU_UTIL"
	fbUsed   = "DCGM_FI_DEV_FB_USED"
)

// gpus judges what DCGM's exporters serve.
func (s *survey) gpus(ctx context.Context) error {
	all := exposition.DCGMNames(exposition.Activity, exposition.Memory)
	sets, err := s.look(ctx, s.selector(labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, strings.Join(all, "|"))))
	if err != nil {
		return err
	}
	if len(sets) == 0 {
		s.add(Finding{Error, NoGPUMetrics, s.about, "no GPU metric of the DCGM exporter in the last 10 minutes", "signals of type dcgm have no reading, and nobody can tell an idle GPU from a busy one",
			"scrape the DCGM exporter with this server (its chart: serviceMonitor.enabled=true), or narrow less (--matcher)"})
		return nil
	}
	// Where no pod holds a GPU nothing can say which: it is a mistake for sure only while one does.
	asking, err := s.look(ctx, s.selector(named("kube_pod_container_resource_requests"), labels.MustNewMatcher(labels.MatchRegexp, "resource", "nvidia_com_.+")))
	if err != nil {
		return err
	}
	severity := Warning
	if len(asking) > 0 {
		severity = Error
	}
	s.owners(sets, severity)
	s.activity(sets)
	return nil
}

// owners judges whether the series say which pod holds a GPU.
func (s *survey) owners(sets []model.LabelSet, severity Severity) {
	var held, exporters, empty, none int
	for _, set := range sets {
		_, owned := exposition.GPUOwner(labelsOf(set))
		exported := set["exported_pod"] != "" || set["pod_name"] != "" || set["exported_pod_name"] != ""
		_, key := set["pod"]
		switch {
		case owned && (exported || !isExporter(set)):
			held++
		case isExporter(set):
			exporters++
		case key:
			empty++
		default:
			none++
		}
	}
	const why = "no GPU can be matched to the pod that holds it: signals of type dcgm have no reading, and costs have no owner"
	switch {
	case held > 0:
	case exporters > 0:
		s.add(Finding{severity, ExporterIsPod, s.about, "on all GPU series the pod label names the exporter, and there is no exported_pod", why,
			"let the exporter tell pods (DCGM_EXPORTER_KUBERNETES=true, /var/lib/kubelet/pod-resources mounted), and keep exported_pod in relabelings; if no pod holds a GPU at present, look again when one does"})
	case empty > 0:
		s.add(Finding{severity, FreeGPUs, s.about, "the GPU series have a pod label, and it is empty on all of them", "either no pod holds a GPU at present, or the exporter cannot read the kubelet's pod-resources socket",
			"look again while a GPU pod runs; then mount /var/lib/kubelet/pod-resources into the exporter"})
	default:
		s.add(Finding{severity, NoPodLabels, s.about, "no GPU series has a pod label of any kind", why,
			"set DCGM_EXPORTER_KUBERNETES=true on the exporter and mount /var/lib/kubelet/pod-resources (the chart does both); look again while a GPU pod runs"})
	}
}

// activity judges which measure of activity there is.
func (s *survey) activity(sets []model.LabelSet) {
	has := func(name string, instance bool) bool {
		return slices.ContainsFunc(sets, func(set model.LabelSet) bool {
			return strings.EqualFold(string(set[model.MetricNameLabel]), name) && (!instance || set["GPU_I_ID"] != "")
		})
	}
	prof := has(smActive, false) || has(grActive, false)
	sliced := slices.ContainsFunc(sets, func(set model.LabelSet) bool { return set["GPU_I_ID"] != "" })
	switch {
	case sliced && !has(grActive, true) && !has(smActive, true):
		s.add(Finding{Error, UtilOnMIG, s.about, "there are MIG instances, and no profiling metric of them", "GPU_UTIL is not supported on MIG: it is absent, or a false zero that would look idle",
			"add DCGM_FI_PROF_GR_ENGINE_ACTIVE to the exporter's counters (it is in the default ones)"})
	case !prof && has(gpuUtil, false):
		s.add(Finding{Warning, UtilOnly, s.about, "of the measures of activity only GPU_UTIL is served", "GPU_UTIL says for how much of the time any kernel ran, and nothing of how much work it was: it reads near 100% on a GPU that has room",
			"add DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_PROF_SM_ACTIVE to the exporter's counters (Volta or newer, DCGM's profiling module)"})
	}
}

// companions tells what a report will miss.
func (s *survey) companions(ctx context.Context) error {
	for _, c := range []struct{ metric, check, what, why, fix string }{
		{"kube_pod_info", NoStateMetrics, "kube-state-metrics is not scraped by this server", "`gpuscaler report` guesses workloads from the names of pods", "scrape kube-state-metrics"},
		{"karpenter_nodes_allocatable", NoNodeMetrics, "Karpenter's metrics are not scraped by this server", "`gpuscaler report` knows neither prices nor nodes that boot; with no Karpenter this is as it should be", "scrape Karpenter's metrics port, or give a price book"},
	} {
		w, err := s.served(ctx, c.metric)
		if err != nil {
			return err
		}
		if w != atPresent {
			s.add(Finding{Info, c.check, s.about, c.what, c.why, c.fix})
		}
	}
	return nil
}

func labelsOf(set model.LabelSet) exposition.Labels {
	out := make(exposition.Labels, 0, len(set))
	for name, value := range set {
		out = append(out, exposition.Label{Name: string(name), Value: string(value)})
	}
	return out
}

func isExporter(set model.LabelSet) bool {
	return set["exported_pod"] == "" && set["pod_name"] == "" &&
		(strings.Contains(string(set["pod"]), "dcgm-exporter") || strings.Contains(string(set["container"]), "dcgm-exporter"))
}

// plural: 1 series, 2 series; 1 pod, 2 pods.
func plural(n int, what string) string {
	if n == 1 || strings.HasSuffix(what, "series") {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
