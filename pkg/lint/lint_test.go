package lint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/shareddata"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promtest"
)

var (
	begin = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	now   = begin.Add(30 * time.Minute)
)

// findingsOf starts a Prometheus test server with the given series. It returns the findings of the function Prometheus for this server and
// the subjects. Each line of the parameter series is one series in the notation of Prometheus' own tests. The parameter kinds contains the
// type of each metric.
func findingsOf(t *testing.T, series string, kinds map[string]string, subjects ...Subject) []Finding {
	t.Helper()
	web := promtest.Serve(t, begin, series)
	web.Kinds = kinds
	server, err := history.Open(web.URL, config.DefaultHTTPClientConfig, history.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := Prometheus(t.Context(), Source{Server: server, Name: "Prometheus"}, subjects, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.What == "" || f.Why == "" || f.Fix == "" || f.About == "" || f.Check == "" {
			t.Errorf("incomplete: %+v", f)
		}
	}
	return found
}

// checks returns the names of the checks in the findings, without duplicates. It leaves out findings with the severity Info.
func checks(found []Finding) (out []string) {
	for _, f := range found {
		if f.Severity != Info && !slices.Contains(out, f.Check) {
			out = append(out, f.Check)
		}
	}
	return out
}

// healthy contains the series of a correct installation: a default DCGM exporter without honorLabels with one GPU in use and one free GPU,
// a vLLM pod, a gateway queue, kube-state-metrics and Karpenter.
const healthy = `
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",namespace="gpu",pod="nvidia-dcgm-exporter-1",exported_namespace="chat",exported_pod="llama-0"} 0.5x40
DCGM_FI_DEV_GPU_UTIL{UUID="a",namespace="gpu",pod="nvidia-dcgm-exporter-1",exported_namespace="chat",exported_pod="llama-0"} 90x40
DCGM_FI_DEV_FB_USED{UUID="a",namespace="gpu",pod="nvidia-dcgm-exporter-1",exported_namespace="chat",exported_pod="llama-0"} 40000x40
DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="b",namespace="gpu",pod="nvidia-dcgm-exporter-1"} 0x40
vllm:num_requests_waiting{namespace="chat",pod="llama-0",model_name="m"} 3x40
vllm:kv_cache_usage_perc{namespace="chat",pod="llama-0",model_name="m"} 0.3x40
vllm:generation_tokens_total{namespace="chat",pod="llama-0",model_name="m"} 0+100x40
gateway_queue{inference_pool="llama"} 4x40
llm_d_epp_flow_control_queue_size{inference_pool="llama"} 4x40
sglang:num_decode_prealloc_queue_reqs{namespace="chat",pod="llama-1"} 0x40
kube_pod_info{namespace="chat",pod="llama-0"} 1x40
karpenter_nodes_allocatable{node_name="n"} 1x40
`

func query(q string) Subject {
	signals := []Signal{{Name: "q", Query: q}, {Name: "other", Wakes: true}}
	return Subject{About: "ScaledObject chat/llama", Namespace: "chat", MinReplicas: 1, Signals: signals}
}

func TestCorrectServerAndPoliciesHaveNoFinding(t *testing.T) {
	found := findingsOf(t, healthy, nil, query(`sum(gateway_queue{inference_pool="llama"})`),
		query(`sum(rate(vllm:generation_tokens_total{namespace="chat"}[2m]))`),
		Subject{About: "p", Namespace: "chat", Signals: []Signal{{Name: "queue", Names: []string{"vllm:num_requests_waiting"}},
			{Name: "gpu", GPU: true, Names: []string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE"}}, {Name: "gw", Query: "gateway_queue"}}})
	if len(found) > 0 {
		t.Errorf("found %+v", found)
	}
}

func TestChecksOfQueries(t *testing.T) {
	gauge := map[string]string{"vllm:num_requests_waiting": "gauge", "vllm:generation_tokens_total": "counter"}
	for name, c := range map[string]struct {
		query string
		want  []string
		text  string // text that the finding contains
	}{
		"a metric that does not exist": {`sum(http_queue_depth)`, []string{MetricMissing}, "check the name"},
		"an engine's old name": {
			`max(vllm:gpu_cache_usage_perc{namespace="chat"})`, []string{Renamed}, "read vllm:kv_cache_usage_perc",
		},
		"an underscore for a colon":       {`max(vllm_num_requests_waiting)`, []string{Renamed}, "read vllm:num_requests_waiting"},
		"Ray's prefix without Ray":        {`max(ray_vllm:num_requests_waiting)`, []string{Renamed}, "read vllm:num_requests_waiting"},
		"the lower case of old exporters": {`avg(dcgm_fi_prof_gr_engine_active)`, []string{Renamed}, "read DCGM_FI_PROF_GR_ENGINE_ACTIVE"},
		"the name that llm-d no longer serves": {
			`sum(inference_extension_flow_control_queue_size)`, []string{Renamed}, "read llm_d_epp_flow_control_queue_size",
		},
		"another queue of a server is no other name": {`sum(sglang:num_queue_reqs)`, []string{MetricMissing}, "start SGLang"},
		"SM_ACTIVE on a stock exporter": {
			`avg(DCGM_FI_PROF_SM_ACTIVE)`, []string{MetricMissing}, "add DCGM_FI_PROF_SM_ACTIVE to the exporter's counters",
		},
		"pod where exported_pod is meant": {
			`avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE{pod=~"llama-.*"})`, []string{ExportedLabel}, "match exported_pod",
		},
		"namespace where exported_namespace is": {
			`avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE{namespace="chat"})`, []string{ExportedLabel}, "match exported_namespace",
		},
		"a matcher that matches nothing": {
			`sum(vllm:num_requests_waiting{model_name="llama-4"})`, []string{NothingMatches}, `model_name="m"`,
		},
		"matchers that match nothing together": {
			`sum(DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="b",exported_pod="llama-0"})`, []string{NothingMatches}, "none matches all of",
		},
		"a counter as a gauge": {
			`sum(vllm:generation_tokens_total)`, []string{CounterAsGauge}, "read rate(vllm:generation_tokens_total[2m])",
		},
		"a counter as a gauge in a larger query": {
			`sum(vllm:generation_tokens_total) / on() count(vllm:generation_tokens_total)`, []string{CounterAsGauge}, "it only increases",
		},
		"the number of counters is a gauge": {`count(vllm:generation_tokens_total)`, nil, ""},
		"a gauge as a counter": {
			`sum(rate(vllm:num_requests_waiting[5m]))`, []string{GaugeAsCounter}, "read it without rate()",
		},
		"memory as a load": {
			`avg(DCGM_FI_DEV_FB_USED{exported_namespace="chat"})`, []string{MemoryAsLoad}, "never release it",
		},
		"a new name or the old one":      {`max(vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc)`, nil, ""},
		"neither of two names":           {`max(http_queue or http_backlog)`, []string{MetricMissing}, "http_backlog"},
		"the operand of absent()":        {`sum(gateway_queue) * on() absent(maintenance)`, nil, ""},
		"the operand of unless":          {`sum by (inference_pool) (gateway_queue unless on() drained)`, nil, ""},
		"no PromQL":                      {`sum(gateway_queue{`, []string{NotPromQL}, "correct the query"},
		"two metrics, one of them wrong": {`sum(gateway_queue) + sum(gateway_inflight)`, []string{MetricMissing}, "gateway_inflight"},
	} {
		t.Run(name, func(t *testing.T) {
			found := findingsOf(t, healthy, gauge, query(c.query))
			text := fmt.Sprintf("%+v", found)
			if got := checks(found); !slices.Equal(got, c.want) || !strings.Contains(text, c.text) {
				t.Errorf("found %s, want %v and %q", text, c.want, c.text)
			}
		})
	}
}

func TestSignalsOfPodsCannotActivateAWorkloadFromZero(t *testing.T) {
	subject := func(min int32, signals ...Signal) Subject {
		return Subject{About: "p", Namespace: "chat", MinReplicas: min, Signals: signals}
	}
	queue, gateway := Signal{Name: "queue", Names: []string{"vllm:num_requests_waiting"}}, Signal{Name: "gw", Query: "sum(gateway_queue)"}
	running := Signal{Name: "running", Query: `sum(vllm:num_requests_waiting{namespace="chat"})`}
	for name, c := range map[string]struct {
		of   Subject
		want []string
	}{
		"an engine's queue":     {subject(0, queue), []string{EmptyAtZero}},
		"a query over pods":     {subject(0, running), []string{EmptyAtZero}},
		"with a gateway's":      {subject(0, queue, gateway), nil},
		"with a schedule":       {subject(0, queue, Signal{Name: "schedule", Schedule: true}), nil},
		"with minReplicas 1":    {subject(1, queue), nil},
		"GPU utilization alone": {subject(1, Signal{Name: "gpu", Query: "avg(DCGM_FI_DEV_GPU_UTIL)"}), []string{UtilAlone}},
		"the type dcgm alone and a schedule": {
			subject(0, Signal{Name: "gpu", GPU: true, Names: []string{"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"}},
				Signal{Name: "schedule", Schedule: true}), []string{UtilAlone},
		},
		"GPU utilization and a queue": {subject(1, Signal{Name: "gpu", Query: "avg(DCGM_FI_DEV_GPU_UTIL)"}, gateway), nil},
		"a namespace without pods": {
			Subject{About: "p", Namespace: "embed", MinReplicas: 1, Signals: []Signal{queue}}, []string{NotInNamespace},
		},
		"a namespace without a GPU's pod": {
			Subject{About: "p", Namespace: "embed", MinReplicas: 1,
				Signals: []Signal{{Name: "gpu", GPU: true, Names: []string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE"}}, gateway}}, []string{NotInNamespace},
		},
		"an engine's metric under old names": {
			subject(1, Signal{Name: "kv", Names: []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}}), nil,
		},
		"an engine that is read directly": {subject(1, Signal{Name: "q", Direct: true, Names: []string{"sglang:num_queue_reqs"}}), nil},
		"read directly, and zero": {
			subject(0, Signal{Name: "q", Direct: true, Names: []string{"vllm:num_requests_waiting"}}), []string{EmptyAtZero},
		},
		"an engine without series": {
			subject(1, Signal{Name: "q", Names: []string{"sglang:num_queue_reqs", "sglang_num_queue_reqs"}}), []string{MetricMissing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if found := findingsOf(t, healthy, nil, c.of); !slices.Equal(checks(found), c.want) {
				t.Errorf("found %+v, want %v", found, c.want)
			}
		})
	}
}

// The query of a signal with a Join returns series of many workloads. The check must require that the result has the namespace and workload
// labels that identify the series of the workload.
func TestQueryForManyWorkloadsNeedsTheLabelsOfTheWorkload(t *testing.T) {
	join := func(namespace, workload, value string) *Join {
		return &Join{NamespaceLabel: namespace, Namespace: "chat", WorkloadLabel: workload, Value: value}
	}
	series := healthy + `queue{namespace="chat",inference_pool="llama"} 1x40`
	for name, c := range map[string]struct {
		query string
		join  *Join
		want  []string
	}{
		"correct": {"sum by (namespace, inference_pool) (queue)", join("namespace", "inference_pool", "llama"), nil},
		"a query that drops a label": {
			"sum by (inference_pool) (queue)", join("namespace", "inference_pool", "llama"), []string{AnswerNotJoined},
		},
		"a signal with another label": {
			"sum by (namespace, inference_pool) (queue)", join("namespace", "model", "llama"), []string{AnswerNotJoined},
		},
		"no series of the target": {
			"sum by (namespace, inference_pool) (queue)", join("namespace", "inference_pool", "mistral"), []string{NotInAnswer},
		},
		"an empty result": {"sum by (inference_pool) (queue > 5)", join("namespace", "inference_pool", "llama"), nil},
		"for the PlatformConfig": {
			"sum by (namespace, inference_pool) (queue)", &Join{NamespaceLabel: "namespace", WorkloadLabel: "inference_pool"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := query(c.query)
			of.Signals[0].Join = c.join
			if found := findingsOf(t, series, nil, of); !slices.Equal(checks(found), c.want) {
				t.Errorf("found %+v, want %v", found, c.want)
			}
		})
	}
}

// If a metric had series earlier but has none now, for example after a scale-down to zero, the finding must be a warning and not an error.
func TestMetricThatEndedWithItsPodsIsNotMissing(t *testing.T) {
	found := findingsOf(t, healthy+"vllm:num_requests_running{namespace=\"chat\",pod=\"llama-0\"} 1x5 _x35\n", nil,
		query(`sum(vllm:num_requests_running)`))
	if got := checks(found); !slices.Equal(got, []string{MetricGone}) || found[0].Severity != Warning {
		t.Errorf("found %+v", found)
	}
}

func TestSeriesWithoutAPodLabelIsFound(t *testing.T) {
	found := findingsOf(t, healthy+"tgi_queue_size{instance=\"10.0.0.1:80\"} 1x40\n", nil,
		Subject{About: "p", Namespace: "chat", MinReplicas: 1, Signals: []Signal{{Name: "q", Names: []string{"tgi_queue_size"}}}})
	if got := checks(found); !slices.Equal(got, []string{NoPodOnSeries}) {
		t.Errorf("found %+v", found)
	}
}

// The labels in these cases are from recordings of real exporters.
func TestRecordedLabelSets(t *testing.T) {
	held := `,namespace="chat",pod="llama-0"}`
	for name, c := range map[string]struct {
		series string
		want   []string
	}{
		"no GPU metric":       {`up 1x40`, []string{NoGPUMetrics}},
		"honorLabels, in use": {`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a"` + held + ` 0.5x40`, nil},
		"only the exporter's pod": {
			`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a",namespace="gpu",pod="nvidia-dcgm-exporter-x",container="nvidia-dcgm-exporter"} 0.5x40`,
			[]string{ExporterIsPod},
		},
		"no pod label":           {`DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a"} 0.5x40`, []string{NoPodLabels}},
		"only GPU_UTIL":          {`DCGM_FI_DEV_GPU_UTIL{UUID="a"` + held + ` 50x40`, []string{UtilOnly}},
		"MIG with GPU_UTIL only": {`DCGM_FI_DEV_GPU_UTIL{UUID="a",GPU_I_ID="1"` + held + ` 0x40`, []string{UtilOnMIG}},
		"old namespace": {
			`dcgm_fi_prof_gr_engine_active{uuid="a",pod_namespace="chat",pod_name="llama-0",namespace="gpu",pod="exp"} 0.5x40`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if found := findingsOf(t, c.series, nil); !slices.Equal(checks(found), c.want) {
				t.Errorf("found %+v, want %v", found, c.want)
			}
		})
	}
}

// If GPU series have no pod label, there are two possible causes: no pod uses a GPU, or the exporter cannot report pods. The finding must
// be a warning if no pod requests GPUs, and an error if a pod requests GPUs.
func TestMissingPodLabelIsAnErrorOnlyWhileAPodRequestsGPUs(t *testing.T) {
	const (
		free     = `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="a"} 0x40`
		requests = "\n" + `kube_pod_container_resource_requests{namespace="chat",pod="llama-0",resource="nvidia_com_gpu"} 1x40`
	)
	if found := findingsOf(t, free, nil); found[0].Check != NoPodLabels || found[0].Severity != Warning {
		t.Errorf("free GPUs: %+v", found)
	}
	if found := findingsOf(t, free+requests, nil); found[0].Check != NoPodLabels || found[0].Severity != Error {
		t.Errorf("a pod requests one: %+v", found)
	}
}

func TestRealExpositionSamples(t *testing.T) {
	folder := shareddata.Path(t, "metrics")
	for file, want := range map[string][]string{
		"dcgm_l40s_multigpu_pod_issueDCGM226.prom": nil,
		"dcgm_mig_h100_issue512.prom":              nil,
		"dcgm_mig_a100_oldnamespace_issue272.prom": {NoPodLabels}, // Prometheus treats empty labels like missing labels
		"dcgm_t4_nolabels_datadog.prom":            {UtilOnly, NoPodLabels},
		"dcgm_v100_emptylabels_gmt138.prom":        {UtilOnly, NoPodLabels},
		"vllm_v1_docs.prom":                        {NoGPUMetrics},
	} {
		t.Run(file, func(t *testing.T) {
			if found := findingsOf(t, scraped(t, filepath.Join(folder, file)), nil); !slices.Equal(checks(found), want) {
				t.Errorf("found %+v, want %v", found, want)
			}
		})
	}
	vllm := scraped(t, filepath.Join(folder, "vllm_v1_docs.prom"))
	found := findingsOf(t, vllm, nil, query("sum(vllm:num_requests_running)"), query("sum(vllm:generation_tokens_total)"))
	if got := checks(found); !slices.Equal(got, []string{NoGPUMetrics, CounterAsGauge}) {
		t.Errorf("vLLM V1: %+v", found)
	}
}

var sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})?) (\S+)`)

// scraped converts a page of metrics to series that have the same value for half an hour.
func scraped(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if m := sampleLine.FindStringSubmatch(lines.Text()); m != nil {
			one := m[1] + strings.Repeat(" "+m[2], 31)
			if _, _, err := promtest.Parser.ParseSeriesDesc(one); err == nil {
				out = append(out, one)
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no series", file)
	}
	return strings.Join(out, "\n")
}

// Policies and Queries must return a query or metric names for each signal of config/examples that is read from Prometheus or from pods.
func TestSubjectsOfPolicies(t *testing.T) {
	store := store.New(store.Options{})
	store.Load("../../config/examples")
	all := append(Policies(store.Compiled(), store.Platform()), Queries(store.Platform())...)
	if len(all) < 3 {
		t.Fatalf("%d policies", len(all))
	}
	for _, s := range all {
		for _, g := range s.Signals {
			if !g.Wakes && !g.Schedule && g.Query == "" && len(g.Names) == 0 {
				t.Errorf("%s has neither a query nor metrics", s.about(&g))
			}
			if slices.ContainsFunc(g.Names, func(n string) bool { return strings.HasSuffix(n, "_seconds") }) {
				t.Errorf("a histogram has no series of its own name: %v", g.Names)
			}
		}
	}
}

func TestSortPutsErrorsFirst(t *testing.T) {
	all := []Finding{{Severity: Info, Check: "c"}, {Severity: Error, Check: "b", About: "y"}, {Severity: Warning, Check: "a"},
		{Severity: Error, Check: "a", About: "z"}}
	Sort(all)
	var got []string
	for _, f := range all {
		got = append(got, string(f.Severity)+f.About)
	}
	if text := strings.Join(got, " "); text != "errory errorz warning info" || Errors(all) != 2 {
		t.Errorf("%s, %d errors", text, Errors(all))
	}
}

// The check must find a GPU for which two pods have a series at the time of the check. It must ignore series of a deleted pod.
func TestSharedGPUIsFound(t *testing.T) {
	gpu := func(uuid, namespace, pod, values string) string {
		return `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="` + uuid + `",namespace="gpu",pod="nvidia-dcgm-exporter-1",exported_namespace="` +
			namespace + `",exported_pod="` + pod + `"} ` + values + "\n"
	}
	signal := Subject{About: "ScalingPolicy chat/llama", Namespace: "chat", MinReplicas: 1,
		Signals: []Signal{{Name: "gpu", GPU: true, Names: []string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE"}}, {Name: "other", Wakes: true}}}
	for name, c := range map[string]struct {
		series string
		shared bool
	}{
		"two pods of two workloads": {gpu("a", "chat", "llama-0", "0.5x40") + gpu("a", "batch", "job-0", "0.5x40"), true},
		"a virtual GPU":             {strings.Replace(gpu("a", "chat", "llama-0", "0.5x40"), `UUID`, `vgpu="2",UUID`, 1), true},
		"a GPU for each":            {gpu("a", "chat", "llama-0", "0.5x40") + gpu("b", "chat", "llama-1", "0.5x40"), false},
		"a GPU of a deleted pod":    {gpu("a", "chat", "llama-0", "0.5x25 stale") + gpu("a", "chat", "llama-1", "_x26 0.5x13"), false},
		"other pods share a GPU": {
			gpu("a", "chat", "llama-0", "0.5x40") + gpu("b", "batch", "job-0", "0.5x40") + gpu("b", "batch", "job-1", "0.5x40"), false,
		},
	} {
		found := findingsOf(t, c.series+"DCGM_FI_DEV_GPU_UTIL{UUID=\"a\"} 1x40\n", nil, signal)
		if got := slices.Contains(checks(found), SharedGPU); got != c.shared {
			t.Errorf("%s: %v, want shared %t", name, checks(found), c.shared)
		}
	}
}
