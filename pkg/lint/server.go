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

// Server is a Prometheus server that can be queried. *history.Server implements it.
type Server interface {
	Catalog
	Instant(ctx context.Context, expr string, at time.Time) (model.Vector, error)
}

// Catalog lists the series of a server.
type Catalog interface {
	Series(ctx context.Context, match string, from, to time.Time) ([]model.LabelSet, error)
	Names(ctx context.Context, match string, from, to time.Time) ([]string, error)
	Kind(ctx context.Context, metric string) (string, error)
}

const (
	// recentWindow is the length of the time before now in which a series must have a sample to be regarded as present. It contains at least
	// three scrapes at the longest usual scrape interval.
	recentWindow = 10 * time.Minute
	// pastWindow is the length of the time before now in which the checks search for a metric that has no series within recentWindow. It is
	// longer than a weekend, because a workload can be scaled to zero for a weekend.
	pastWindow = 7 * 24 * time.Hour
)

// Source is a Prometheus server to check.
type Source struct {
	Server   Server
	Name     string            // name of the server in findings
	Matchers map[string]string // matchers that every selector of the checks must contain
}

// check contains the state of the checks of one server: the findings, and the series that were already read.
type check struct {
	list
	server   Server
	now      time.Time
	matchers map[string]string
	about    string                      // name of the server in findings (Source.Name)
	series   map[string][]model.LabelSet // series that were read, by selector
	lastSeen map[string]when             // the window in which each metric last had series
}

// Prometheus checks a Prometheus server, and the metrics and queries that the subjects read from it, at the time now. If a request fails,
// Prometheus returns the error and no findings.
func Prometheus(ctx context.Context, source Source, subjects []Subject, now time.Time) ([]Finding, error) {
	c := &check{
		server: source.Server, now: now, matchers: source.Matchers, about: source.Name,
		series: map[string][]model.LabelSet{}, lastSeen: map[string]when{},
	}
	if err := c.gpus(ctx); err != nil {
		return nil, err
	}
	if err := c.companions(ctx); err != nil {
		return nil, err
	}
	for i := range subjects {
		if err := c.subject(ctx, &subjects[i]); err != nil {
			return nil, err
		}
	}
	Sort(c.all)
	return c.all, nil
}

// Unreachable returns the finding for a server that did not respond to a request of the function Prometheus.
func Unreachable(about string, err error) Finding {
	return Finding{Severity: Error, Check: ServerSilent, About: about,
		What: "it does not respond: " + strings.ReplaceAll(err.Error(), "\n", "; "),
		Why:  "no signal of this server has a reading", Fix: "check the address and --http-config; kubectl port-forward reaches one in the " +
			"cluster"}
}

// selector returns a PromQL selector with the given matchers and c.matchers.
func (c *check) selector(ms ...*labels.Matcher) string {
	names := make([]string, 0, len(c.matchers))
	for name := range c.matchers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, name, c.matchers[name]))
	}
	return (&parser.VectorSelector{LabelMatchers: ms}).String()
}

func named(name string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)
}

// recent returns the series that a selector matches within recentWindow. It caches the result.
func (c *check) recent(ctx context.Context, selector string) ([]model.LabelSet, error) {
	if have, ok := c.series[selector]; ok {
		return have, nil
	}
	sets, err := c.server.Series(ctx, selector, c.now.Add(-recentWindow), c.now)
	c.series[selector] = sets
	return sets, err
}

// when is the shortest window before now in which a metric has series: recentWindow (atPresent), pastWindow (thisWeek), or no window
// (never).
type when int

const (
	never when = iota
	thisWeek
	atPresent
)

func (c *check) served(ctx context.Context, name string) (when, error) {
	if known, ok := c.lastSeen[name]; ok {
		return known, nil
	}
	found := never
	for _, window := range []struct {
		length time.Duration
		result when
	}{{recentWindow, atPresent}, {pastWindow, thisWeek}} {
		names, err := c.server.Names(ctx, c.selector(named(name)), c.now.Add(-window.length), c.now)
		if err != nil {
			return never, err
		}
		if len(names) > 0 {
			found = window.result
			break
		}
	}
	c.lastSeen[name] = found
	return found, nil
}

const (
	smActive = "DCGM_FI_PROF_SM_ACTIVE"
	grActive = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
	gpuUtil  = "DCGM_FI_DEV_GPU_UTIL"
	fbUsed   = "DCGM_FI_DEV_FB_USED"
)

// gpus checks the metrics of the DCGM exporters.
func (c *check) gpus(ctx context.Context) error {
	sets, err := c.recent(ctx, c.selector(anyOf(exposition.DCGMNames(exposition.Activity, exposition.Memory))))
	if err != nil {
		return err
	}
	if len(sets) == 0 {
		c.add(Finding{Error, NoGPUMetrics, c.about, "no GPU metric of the DCGM exporter in the last 10 minutes",
			"signals of type dcgm have no value, and an idle GPU cannot be distinguished from a busy one",
			"scrape the DCGM exporter with this server (its chart: serviceMonitor.enabled=true), or use fewer matchers (--matcher)"})
		return nil
	}
	// GPU series have a pod label only while a pod uses the GPU. Therefore, a missing label is an error only if a pod requests GPUs. Otherwise
	// it is a warning.
	requests, err := c.recent(ctx, c.selector(named("kube_pod_container_resource_requests"),
		labels.MustNewMatcher(labels.MatchRegexp, "resource", "nvidia_com_.+")))
	if err != nil {
		return err
	}
	severity := Warning
	if len(requests) > 0 {
		severity = Error
	}
	c.owners(sets, severity)
	c.activity(sets)
	return nil
}

// owners checks whether the GPU series have a label with the pod that uses the GPU.
func (c *check) owners(sets []model.LabelSet, severity Severity) {
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
	const why = "no GPU can be matched to the pod that uses it: signals of type dcgm have no value, and costs have no owner"
	switch {
	case held > 0:
	case exporters > 0:
		c.add(Finding{severity, ExporterIsPod, c.about, "on all GPU series the pod label is the exporter's, and there is no exported_pod", why,
			"let the exporter report pods (DCGM_EXPORTER_KUBERNETES=true, /var/lib/kubelet/pod-resources mounted), and keep exported_pod in " +
				"relabelings; if currently no pod uses a GPU, run lint again when one does"})
	case empty > 0:
		c.add(Finding{severity, FreeGPUs, c.about, "the pod label of all GPU series is empty",
			"either currently no pod uses a GPU, or the exporter cannot read the kubelet's pod-resources socket",
			"run lint again while a GPU pod runs; if the label is still empty, mount /var/lib/kubelet/pod-resources into the exporter"})
	default:
		c.add(Finding{severity, NoPodLabels, c.about, "no GPU series has a pod label", why,
			"set DCGM_EXPORTER_KUBERNETES=true on the exporter and mount /var/lib/kubelet/pod-resources (the chart does both); " +
				"run lint again while a GPU pod runs"})
	}
}

// activity adds a finding if GPU_UTIL is the only metric of GPU activity, or if MIG instances have no profiling metric.
func (c *check) activity(sets []model.LabelSet) {
	has := func(name string, instance bool) bool {
		return slices.ContainsFunc(sets, func(set model.LabelSet) bool {
			return strings.EqualFold(string(set[model.MetricNameLabel]), name) && (!instance || set["GPU_I_ID"] != "")
		})
	}
	prof := has(smActive, false) || has(grActive, false)
	sliced := slices.ContainsFunc(sets, func(set model.LabelSet) bool { return set["GPU_I_ID"] != "" })
	switch {
	case sliced && !has(grActive, true) && !has(smActive, true):
		c.add(Finding{Error, UtilOnMIG, c.about, "there are MIG instances without a profiling metric",
			"GPU_UTIL is not supported on MIG: it is absent, or a wrong zero that looks idle",
			"add DCGM_FI_PROF_GR_ENGINE_ACTIVE to the exporter's counters (it is in the default ones)"})
	case !prof && has(gpuUtil, false):
		c.add(Finding{Warning, UtilOnly, c.about, "GPU_UTIL is the only metric of the activity",
			"GPU_UTIL is the share of the time in which any kernel ran: it is about 100% also on a GPU with spare capacity",
			"add DCGM_FI_PROF_GR_ENGINE_ACTIVE or DCGM_FI_PROF_SM_ACTIVE to the exporter's counters (Volta or newer, DCGM's profiling module)"})
	}
}

// companions checks whether the server has the metrics of kube-state-metrics and Karpenter that `gpuscaler report` needs.
func (c *check) companions(ctx context.Context) error {
	for _, m := range []struct{ metric, check, what, why, fix string }{
		{"kube_pod_info", NoStateMetrics, "this server does not scrape kube-state-metrics",
			"`gpuscaler report` derives workloads from the names of pods", "scrape kube-state-metrics"},
		{"karpenter_nodes_allocatable", NoNodeMetrics, "this server does not scrape Karpenter's metrics",
			"`gpuscaler report` has neither prices nor starting nodes; without Karpenter this is expected",
			"scrape Karpenter's metrics port, or use a price book"},
	} {
		w, err := c.served(ctx, m.metric)
		if err != nil {
			return err
		}
		if w != atPresent {
			c.add(Finding{Info, m.check, c.about, m.what, m.why, m.fix})
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

// plural returns a number with its noun, such as "1 pod", "2 pods" or "2 series".
func plural(n int, what string) string {
	if n == 1 || strings.HasSuffix(what, "series") {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
