package migrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

func hpaOf(meta, metric string) string {
	return "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a, namespace: b" + meta + "}\n" +
		"spec:\n  scaleTargetRef: {kind: Deployment, name: a}\n  maxReplicas: 3\n  metrics: [" + metric + "]\n"
}

func podsMetric(name, target string) string {
	return fmt.Sprintf("{type: Pods, pods: {metric: {name: %q}, target: {type: AverageValue, averageValue: %q}}}", name, target)
}

const platform = `---
apiVersion: gpuscaler.io/v1alpha1
kind: PlatformConfig
metadata: {name: p}
spec: {dataSources: [{name: prom, type: prometheus, default: true, address: "http://prometheus:9090"}]}
`

func imported(t *testing.T, text string) *Plan {
	t.Helper()
	plan, err := Import(parse(t, text), Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return plan
}

// A Pods metric of a model server or of DCGM must become a signal of the type that reads the same series.
func TestKnownSeriesBecomeSignals(t *testing.T) {
	for _, c := range []struct {
		metric, target, kind, name string
		want                       float64
	}{
		{"vllm:num_requests_waiting", "10", "vllm", "requestsWaiting", 10},
		{"vllm_num_requests_waiting", "2500m", "vllm", "requestsWaiting", 2.5},
		{"vllm:gpu_cache_usage_perc", "800m", "vllm", "kvCacheUsage", 0.8},
		{"sglang:num_queue_reqs", "4", "sglang", "requestsWaiting", 4},
		{"tgi_queue_size", "4", "tgi", "requestsWaiting", 4},
		{"DCGM_FI_DEV_GPU_UTIL", "70", "dcgm", "activity", 0.7},
		{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "600m", "dcgm", "activity", 0.6},
	} {
		plan := imported(t, hpaOf("", podsMetric(c.metric, c.target)))
		policy := load(t, plan.Policy+platform)
		source, signal := policy.Sources[0], policy.Workload.Policy.Signals[0]
		if string(source.Type) != c.kind || source.Metric != c.name || signal.Target != c.want || plan.Incomplete {
			t.Errorf("%s: %+v, target %v, want %s %s %v", c.metric, source, signal.Target, c.kind, c.name, c.want)
		}
	}
}

// For every entry of seriesTypes, the policy format must permit the metric for the signal type. The exposition profile of this type must
// read the series.
func TestKnownSeriesAgreeWithTheProfiles(t *testing.T) {
	for name, k := range seriesTypes {
		if !slices.ContainsFunc(policy.Metrics(policy.SourceType(k.source)), func(m policy.Metric) bool { return m.Name == k.metric }) {
			t.Errorf("%s: the type %s has no metric %q", name, k.source, k.metric)
		}
		names := exposition.DCGMNames(k.metric)
		if k.source != "dcgm" {
			profile, _ := exposition.Engine(k.source)
			names = nil
			for _, m := range profile.Metrics {
				for _, s := range m.From {
					names = append(names, s.Name)
				}
			}
		}
		if !slices.ContainsFunc(names, func(s string) bool { return strings.ReplaceAll(s, ":", "_") == name }) {
			t.Errorf("%s: the profile %s has %q", name, k.source, names)
		}
	}
}

// An HPA or ScaledObject that scales only on CPU, or only on a metric that gpuscaler cannot read, must become an incomplete policy. For the
// original metric, the policy must contain the draft of a signal, and Lost must contain an entry.
func TestMetricsWithoutEquivalentBecomeDrafts(t *testing.T) {
	cpu := "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}"
	object := "{type: Object, object: {metric: {name: hits}, describedObject: {kind: Service, name: s}, target: {type: Value, value: '20'}}}"
	for name, c := range map[string]struct{ text, lost, draft string }{
		"an HPA on CPU": {hpaOf("", cpu), "metric cpu (60% utilization)", "#    - name: gpu\n#      type: dcgm\n"},
		"an HPA on a Pods metric": {hpaOf("", podsMetric("gpu_busy", "70")), "pods metric gpu_busy (average 70)",
			"#    - name: gpu_busy\n#      type: prometheus\n"},
		"an HPA on an Object":   {hpaOf("", object), "object metric hits of Service s", "#    - name: hits\n"},
		"a ScaledObject on CPU": {scaledObjectOf("  - {type: cpu, metadata: {value: '60'}}\n", ""), "trigger cpu", "#    - name: gpu\n"},
		"an unknown KEDA trigger": {scaledObjectOf("  - {type: solr, metadata: {x: y}}\n", ""), "trigger solr-0",
			"#      type: keda\n#      trigger: solr-0\n"},
		"an HPA without a metric": {hpaOf("", ""), "no metrics", "#    - name: gpu\n"},
	} {
		plan := imported(t, c.text)
		if !plan.Incomplete || !strings.Contains(strings.Join(plan.Lost, "\n"), c.lost) || !strings.Contains(plan.Policy, c.draft) {
			t.Errorf("%s: incomplete %t\n%s\n%s", name, plan.Incomplete, strings.Join(plan.Lost, "\n"), plan.Policy)
		}
		if plan.Rollback == "" || !strings.Contains(plan.Steps[0].Text, "spec.signals") {
			t.Errorf("%s: the first step does not ask for signals: %q", name, plan.Steps)
		}
	}
}

func commands(p *Plan) string {
	var all []string
	for _, s := range p.Steps {
		all = append(all, s.Command)
	}
	return strings.Join(all, "\n")
}

// An HPA on CPU and memory must become a policy with two drafts: a signal for a queue and a signal for GPU activity. The drafts contain the
// questions that the user must answer and commands that show the answers. A policy with a completed draft must be valid.
func TestHPAOnCPUAndMemoryBecomesASkeletonWithQuestions(t *testing.T) {
	resource := func(name, percent string) string {
		return "{type: Resource, resource: {name: " + name + ", target: {type: Utilization, averageUtilization: " + percent + "}}}"
	}
	plan := imported(t, hpaOf("", resource("cpu", "60")+", "+resource("memory", "80")))
	golden.Compare(t, "testdata/resource-hpa.import.policy.yaml", plan.Policy)
	var steps strings.Builder
	for _, s := range plan.Steps {
		fmt.Fprintf(&steps, "%s\n  %s\n", s.Text, s.Command)
		if s.Command == "" {
			t.Errorf("the step %q has no command", s.Text)
		}
	}
	golden.Compare(t, "testdata/resource-hpa.import.steps.txt", steps.String())
	if strings.Count(plan.Policy, "- name: waiting") != 1 || strings.Count(plan.Policy, "# Question: ") != 4 {
		t.Errorf("the skeleton has not one pair of drafts with four questions:\n%s", plan.Policy)
	}
	head, drafts, _ := strings.Cut(plan.Policy, "# Drafts of signals")
	text := head + "  signals:\n"
	for line := range strings.SplitSeq(drafts, "\n") {
		if draft, is := strings.CutPrefix(line, "#    "); is {
			text += "    " + draft + "\n"
		}
	}
	problems, documents := store.ValidatePolicies([]byte(text), store.Trusted("-")...)
	if policy.Errors(problems) > 0 || documents != 1 {
		t.Errorf("the completed skeleton is refused: %s\n%s", policy.Render(problems), text)
	}
}

// ReadExternalMetrics must contain the metric names of the original ScaledObject and of its replacement. The names differ if a cron trigger
// is removed, because KEDA includes the index of a trigger in the name of its metric.
func TestPlanNamesTheMetricsToRead(t *testing.T) {
	external := "{type: External, external: {metric: {name: queue-depth}, target: {type: AverageValue, averageValue: '3'}}}"
	cron := "  - {type: cron, metadata: {timezone: UTC, start: '0 8 * * *', end: '0 9 * * *', desiredReplicas: '2'}}\n"
	withStatus := scaledObjectOf(cron+redisTrigger, "") + "status: {externalMetricNames: [s0-cron-UTC-08xxx-09xxx, s1-redis-jobs]}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"an HPA": {hpaOf("", external), []string{"queue-depth"}},
		"a ScaledObject": {scaledObjectOf(redisTrigger, "") + "status: {externalMetricNames: [s0-redis-jobs]}\n",
			[]string{"s0-redis-jobs"}},
		"a ScaledObject without a cron": {withStatus, []string{"s0-redis-jobs", "s1-redis-jobs"}},
		"a Pods metric":                 {hpaOf("", podsMetric("vllm:num_requests_waiting", "5")), nil},
	} {
		plan := imported(t, c.text)
		if !slices.Equal(plan.ReadExternalMetrics, c.want) {
			t.Errorf("%s: %q, want %q", name, plan.ReadExternalMetrics, c.want)
		}
		step := "--set 'readExternalMetrics={" + strings.Join(c.want, ",") + "}'"
		if all := commands(plan); strings.Contains(all, step) != (len(c.want) > 0) {
			t.Errorf("%s: the steps are\n%s", name, all)
		}
	}
	if plan := imported(t, scaledObjectOf(redisTrigger, "")); !strings.Contains(strings.Join(plan.Lost, "\n"), "status.externalMetricNames") {
		t.Errorf("without a status: %q", plan.Lost)
	}
}

// The target of a trigger on a mean percentage must not be multiplied by four. The result could be above 100, and KEDA would then never
// scale up with this trigger.
func TestMirrorOfAMeanIsReachable(t *testing.T) {
	for _, c := range []struct{ trigger, want string }{
		{"{type: prometheus, metricType: Value, metadata: {serverAddress: 'http://p', query: 'avg(x)', threshold: '70'}}", `threshold: "85"`},
		{"{type: prometheus, metricType: Value, metadata: {serverAddress: 'http://p', query: 'avg(x)', threshold: '0.8'}}", `threshold: "0.9"`},
		{"{type: prometheus, metadata: {serverAddress: 'http://p', query: 'avg(DCGM_FI_DEV_GPU_UTIL)', threshold: '70'}}", `threshold: "85"`},
		{"{type: prometheus, metadata: {serverAddress: 'http://p', query: 'sum(x)', threshold: '70'}}", `threshold: "280"`},
		{"{type: prometheus, metricType: Value, metadata: {serverAddress: 'http://p', query: 'max(x)', threshold: '500'}}", `threshold: "2000"`},
	} {
		if plan := imported(t, scaledObjectOf("  - "+c.trigger+"\n", "")); !strings.Contains(plan.Replacement, c.want) {
			t.Errorf("%s: want %s\n%s", c.trigger, c.want, plan.Replacement)
		}
	}
}

// A trigger whose query contains a metric of vLLM must become a signal of type keda. The policy must also contain the draft of a signal of
// type vllm that reads the metric without KEDA.
func TestTriggerOnKnownSeriesHasADraft(t *testing.T) {
	const trigger = "  - {type: prometheus, name: q, metadata: {serverAddress: 'http://p', query: " +
		"'sum(vllm:num_requests_waiting)', threshold: '5'}}\n"
	plan := imported(t, scaledObjectOf(trigger, ""))
	if plan.Incomplete || !strings.Contains(plan.Policy, "type: keda") ||
		!strings.Contains(plan.Policy, "#      type: vllm\n#      metric: requestsWaiting\n#      target: 5\n") {
		t.Errorf("%s", plan.Policy)
	}
}

// If the original metric has no target that is a number, the draft must explain which number the user must choose.
func TestDraftOfAMetricWithoutATargetValueExplainsWhatToSet(t *testing.T) {
	got := targetNumber(&autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType})
	if !strings.HasPrefix(got, "TODO   # ") || !strings.Contains(got, "no target value") {
		t.Errorf("target: %s", got)
	}
}
