package migrate

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// knownSeries describes a signal that reads a metric of a model server or of DCGM. The signal's type is the model server or dcgm, so it
// needs no query (type prometheus) and no KEDA (type keda).
type knownSeries struct {
	source, metric string  // type and metric of the signal; an empty metric is the default of the type
	percent        float64 // factor that converts a value of the series to percent; 0 if the value is a count
}

// seriesTypes maps the names of metrics of model servers and of the DCGM exporter to signals. The names contain underscores instead of
// colons, because Prometheus adapters replace colons with underscores.
var seriesTypes = map[string]knownSeries{
	"vllm_num_requests_waiting":            {"vllm", "requestsWaiting", 0},
	"vllm_num_requests_running":            {"vllm", "requestsRunning", 0},
	"vllm_kv_cache_usage_perc":             {"vllm", "kvCacheUsage", 100},
	"vllm_gpu_cache_usage_perc":            {"vllm", "kvCacheUsage", 100},
	"sglang_num_queue_reqs":                {"sglang", "requestsWaiting", 0},
	"sglang_num_running_reqs":              {"sglang", "requestsRunning", 0},
	"sglang_token_usage":                   {"sglang", "kvCacheUsage", 100},
	"nv_inference_pending_request_count":   {"triton", "requestsWaiting", 0},
	"nv_gpu_utilization":                   {"triton", "gpuUtilization", 100},
	"tgi_queue_size":                       {"tgi", "requestsWaiting", 0},
	"tgi_batch_current_size":               {"tgi", "requestsRunning", 0},
	"trtllm_num_requests_waiting":          {"trtllm", "requestsWaiting", 0},
	"trtllm_num_requests_running":          {"trtllm", "requestsRunning", 0},
	"trtllm_kv_cache_utilization":          {"trtllm", "kvCacheUsage", 100},
	"dynamo_component_inflight_requests":   {"dynamo", "requestsRunning", 0},
	"ray_serve_deployment_queued_queries":  {"ray", "queuedQueries", 0},
	"ray_serve_replica_processing_queries": {"ray", "processingQueries", 0},
	"DCGM_FI_DEV_GPU_UTIL":                 {"dcgm", "activity", 1},
	"DCGM_FI_PROF_GR_ENGINE_ACTIVE":        {"dcgm", "activity", 100},
	"DCGM_FI_PROF_SM_ACTIVE":               {"dcgm", "activity", 100},
	"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE":      {"dcgm", "tensorActivity", 100},
	"DCGM_FI_PROF_DRAM_ACTIVE":             {"dcgm", "dramActivity", 100},
}

var seriesName = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_:]*`)

// knownIn returns the first metric name in a text that is in seriesTypes. The text is a metric name or a query.
func knownIn(text string) (name string, series knownSeries, found bool) {
	for _, name := range seriesName.FindAllString(text, -1) {
		if s, ok := seriesTypes[strings.ReplaceAll(name, ":", "_")]; ok {
			return name, s, true
		}
	}
	return "", knownSeries{}, false
}

// signal returns a signal that reads the metric. target is the target per replica in the unit of the metric. The result is nil if the
// target is not above 0, or if it is a percentage above 100%.
func (k knownSeries) signal(target float64) *spec.Signal {
	amount, err := spec.NewAmount(k.target(target))
	if err != nil || target <= 0 || k.percent > 0 && target*k.percent > 100 {
		return nil
	}
	return &spec.Signal{Type: k.source, Metric: k.metric, Target: amount}
}

// target converts a value in the unit of the metric to the text of a signal's target: a percentage or a number.
func (k knownSeries) target(v float64) string {
	if k.percent > 0 {
		return number(v*k.percent) + "%"
	}
	return number(v)
}

// draft is a signal that the user must complete. It replaces a metric that Import cannot convert.
type draft struct {
	from      string   // the metric that the draft replaces
	lines     []string // the signal in YAML
	questions []question
}

// question asks for a fact that the user must know to complete a draft. The output of the command helps to find the answer. In the command,
// {target} is replaced with the scale target and {namespace} with its namespace.
type question struct{ text, command string }

func (p *Plan) draft(from string, lines ...string) {
	p.drafts = append(p.drafts, draft{from: from, lines: lines})
}

// addDrafts appends the drafts to the policy as YAML comments.
func (p *Plan) addDrafts() {
	if len(p.drafts) == 0 {
		return
	}
	out := &strings.Builder{}
	out.WriteString("# Drafts of signals for metrics that could not be converted. Complete them and add them to spec.signals.\n")
	for _, d := range p.drafts {
		fmt.Fprintf(out, "#\n# From %s:\n", d.from)
		for _, q := range d.questions {
			fmt.Fprintf(out, "# Question: %s\n", q.text)
			if q.command != "" {
				fmt.Fprintf(out, "#   %s\n", strings.NewReplacer("{target}", p.scales, "{namespace}", p.key.Namespace).Replace(q.command))
			}
		}
		for i, line := range d.lines {
			fmt.Fprintf(out, "#%s%s\n", map[bool]string{true: "    - ", false: "      "}[i == 0], line)
		}
	}
	p.Policy += out.String()
}

// draftResource adds two drafts for an HPA or a trigger on CPU or memory: a signal for the queue of a model server, which is the better
// signal, and a signal for GPU activity.
func (p *Plan) draftResource(from string) {
	if p.resources++; p.resources > 1 { // the same two drafts replace CPU and memory
		for i := range p.drafts {
			if len(p.drafts[i].questions) > 0 {
				p.drafts[i].from += " and " + from
			}
		}
		return
	}
	p.drafts = append(p.drafts, draft{from: from,
		questions: []question{
			{"Which model server do the pods run? It is the type of the signal. Without a model server, use the next draft.",
				"kubectl -n {namespace} get {target} -o jsonpath='{.spec.template.spec.containers[*].image}'"},
			{"How many requests may wait for each replica? It is the target.", ""},
		},
		lines: []string{"name: waiting", "type: vllm   # or sglang, triton, nim, ray, tgi, trtllm", "metric: requestsWaiting",
			"target: 10   # requests per replica"}})
	p.drafts = append(p.drafts, draft{from: from,
		questions: []question{
			{"Does Prometheus have the GPU activity of the pods, with their names? The command prints a problem if not.",
				"gpuscaler lint --prometheus URL"},
			{"Is there a data source for the type dcgm in the PlatformConfig? Without it, the policy is refused.",
				"gpuscaler validate " + p.key.Name + ".policy.yaml platform.yaml"},
		},
		lines: []string{"name: gpu", "type: dcgm", "target: 70%   # activity of the GPUs; high with a single request"}})
}

// draftSeries adds the draft of a prometheus signal for a metric of type Pods or Object. A draft is necessary because gpuscaler does not
// read the API custom.metrics.k8s.io. target is the target of the original metric.
func (p *Plan) draftSeries(from, metric, target string) {
	p.draft(from, "name: "+strings.ToLower(identifierOf(metric)), "type: prometheus",
		"query: TODO   # PromQL for the same series, for example avg("+strings.ReplaceAll(metric, "\n", " ")+")",
		"metricType: Value   # the query returns a mean over the pods", "target: "+target)
}
