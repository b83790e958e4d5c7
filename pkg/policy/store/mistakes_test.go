package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

// mistake is one mistake in a valid document: the text old is replaced with the text wrong.
type mistake struct{ name, old, wrong string }

// Each mistake about an objective replaces one of these texts of the valid document with text that contains an objective.
const (
	withoutObjective = "  activation: any\n"
	firstSignal      = "  signals:\n  - {name: gateway, type: prometheus, queryRef: gateway-queue, target: 10}\n"
)

var policyMistakes = []mistake{
	{"the version of another project", "gpuscaler.io/v1alpha1", "gpuscaler.io/v1"},
	{"no version", "apiVersion: gpuscaler.io/v1alpha1\n", ""},
	{"a kind of another project", "kind: ScalingPolicy", "kind: ScaledObject"},
	{"a kind in the wrong case", "kind: ScalingPolicy", "kind: scalingpolicy"},
	{"no namespace", ", namespace: team-chat", ""},
	{"no name", "name: llama, namespace", "namespace"},
	{"an invalid name", "{name: llama, namespace", "{name: Llama_3, namespace"},
	{"a tab", "  minReplicas: 1\n", "\tminReplicas: 1\n"},
	{"a line with one space too many", "  minReplicas: 1\n", "   minReplicas: 1\n"},
	{"a line with one space too few", "  minReplicas: 1\n", " minReplicas: 1\n"},
	{"an indented line after a value", "  minReplicas: 1\n", "    minReplicas: 1\n"},
	{"an open quote", "cooldownPeriod: 15m", "cooldownPeriod: \"15m"},
	{"a backquote", "cooldownPeriod: 15m", "cooldownPeriod: `15m`"},
	{"an open bracket", "{name: llama, namespace: team-chat}", "{name: llama, namespace: team-chat"},
	{"a list instead of a mapping", "apiVersion: gpuscaler.io/v1alpha1\n", "- "},
	{"a misspelled field", "maxReplicas: 12", "maxReplica: 12"},
	{"KEDA's name of a field", "  minReplicas: 1", "  minReplicaCount: 1"},
	{"a field in the wrong place", "  cooldownPeriod: 15m", "  stabilizationWindowSeconds: 300"},
	{"a field written twice", "  cooldownPeriod: 15m", "  cooldownPeriod: 15m\n  minReplicas: 2"},
	{"a field written twice, the second time with a mistake", "  cooldownPeriod: 15m", "  cooldownPeriod: 15m\n  minReplicas: two"},
	{"a misspelled field with a mapping", "  cooldownPeriod: 15m", "  cooldownPerio: {a: b}"},
	{"a merge key in a map", "matchLabels: {app: chat}", "matchLabels: {<<: {app: chat}}"},
	{"a label written twice", "matchLabels: {app: chat}", "matchLabels: {app: chat, app: code}"},
	{"a number in quotes", "maxReplicas: 12", `maxReplicas: "12"`},
	{"a negative number", "minReplicas: 1", "minReplicas: -1"},
	{"a fraction of a replica", "maxReplicas: 12", "maxReplicas: 12.5"},
	{"a huge number", "maxReplicas: 12", "maxReplicas: 99999999999"},
	{"a list instead of a value", "maxReplicas: 12", "maxReplicas: [12]"},
	{"min above max", "  minReplicas: 1", "  minReplicas: 13"},
	{"no maxReplicas", "  maxReplicas: 12\n", ""},
	{"max is zero", "maxReplicas: 12", "maxReplicas: 0"},
	{"max above the platform's", "maxReplicas: 12", "maxReplicas: 30"},
	{"a duration with a space", "15m", "15 m"},
	{"a duration in days", "15m", "2d"},
	{"a negative duration", "15m", "-15m"},
	{"an unknown capacity group", "capacityGroup: chat", "capacityGroup: chatt"},
	{"another team's capacity group", "capacityGroup: chat", "capacityGroup: batch"},
	{"an unknown activation", "activation: any", "activation: every"},
	{"an unknown mode", "mode: auto", "mode: dry-run"},
	{"a target ref without a name", "scaleTargetRef: {name: llama}", "scaleTargetRef: {kind: Deployment}"},
	{"a target ref with a version and no kind", "{name: llama}\n", "{name: llama, apiVersion: leaderworkerset.x-k8s.io/v1}\n"},
	{"a fraction for a percentage", "target: 80%", "target: 0.8"},
	{"above 100%", "target: 80%", "target: 180%"},
	{"a percentage of a list", "listName: jobs, target: 5", "listName: jobs, target: 5%"},
	{"a percentage of requests", "metric: timeToFirstToken, quantile: 0.95, window: 2m, target: 500ms",
		"metric: requestsWaiting, target: 80%"},
	{"a target of zero", "queryRef: gateway-queue, target: 10", "queryRef: gateway-queue, target: 0"},
	{"no target", "queryRef: gateway-queue, target: 10", "queryRef: gateway-queue"},
	{"a target that is not a number", "queryRef: gateway-queue, target: 10", "queryRef: gateway-queue, target: ten"},
	{"a percentage of a latency", "target: 500ms", "target: 50%"},
	{"a fraction of a second", "target: 500ms", "target: 0.5"},
	{"a latency as a total", "target: 500ms", "target: 500ms, metricType: AverageValue"},
	{"an unknown metric type", "target: 80%", "target: 80%, metricType: Utilization"},
	{"an unknown type", "type: vllm, metric: kvCacheUsage", "type: vlm, metric: kvCacheUsage"},
	{"the metric name of a server", "metric: kvCacheUsage", "metric: kv_cache_usage_perc"},
	{"two signals with one name", "name: kv,", "name: gateway,"},
	{"a signal name that a formula cannot contain", "name: kv,", `name: "kv cache",`},
	{"a quantile in percent", "quantile: 0.95", "quantile: 95"},
	{"a quantile of a metric that is not a latency", "metric: kvCacheUsage", "metric: kvCacheUsage, quantile: 0.9"},
	{"a window of a second", "window: 2m, target", "window: 1s, target"},
	{"an unknown query", "queryRef: gateway-queue", "queryRef: gateway-queu"},
	{"a query and a metric", "queryRef: gateway-queue", "queryRef: gateway-queue, metric: queue"},
	{"a URL from a tenant", "queryRef: gateway-queue", `serverAddress: "http://10.0.0.1", queryRef: gateway-queue`},
	{"PromQL as a metric", "metric: http_requests", `metric: "http_requests{namespace=\"team-embed\"} or x"`},
	{"another namespace as a label", "matchLabels: {app: chat}", "matchLabels: {namespace: team-embed}"},
	{"an invalid label name", "matchLabels: {app: chat}", `matchLabels: {"app\"}": chat}`},
	{"a field of another type", "listName: jobs", "listName: jobs, queryRef: gateway-queue"},
	{"an unknown data source", "source: redis-chat", "source: redis-chatt"},
	{"another namespace's data source", "source: redis-chat", "source: redis-embed"},
	{"a data source of another type", "source: redis-chat", "source: prom"},
	{"a list and a stream", "listName: jobs", "listName: jobs, stream: jobs"},
	{"neither list nor stream", "listName: jobs, ", ""},
	{"a consumer group of a list", "listName: jobs", "listName: jobs, consumerGroup: workers"},
	{"a forecast of seconds", "listName: jobs", "listName: jobs, forecast: {window: 10s}"},
	{"a forecast of a hundred deviations", "listName: jobs", "listName: jobs, forecast: {deviations: 100}"},
	{"a formula of an unknown signal", "kv.replicas)", "cache.replicas)"},
	{"a formula of an unknown field", "kv.replicas)", "kv.expected)"},
	{"a boolean formula", "max(gateway.replicas, kv.replicas)", "gateway.replicas > 2.0"},
	{"an incomplete formula", "kv.replicas)", "kv.replicas"},
	{"a formula with a loop", "max(gateway.replicas, kv.replicas)", `"[1, 2].map(x, x * 2)[0]"`},
	{"an unknown time zone", "timezone: Europe/Berlin, start: \"0 8", "timezone: Berlin, start: \"0 8"},
	{"the time zone of the node", "timezone: Europe/Berlin, start: \"0 8", "timezone: Local, start: \"0 8"},
	{"no zone", "timezone: Europe/Berlin, start: \"0 8", "start: \"0 8"},
	{"a cron of six fields", "0 8 * * 1-5", "0 0 8 * * 1-5"},
	{"a cron with a weekday 7", "0 8 * * 1-5", "0 8 * * 7"},
	{"a cron alias", "0 8 * * 1-5", "@daily"},
	{"a schedule that never fires", "0 8 * * 1-5", "0 8 30 2 *"},
	{"a schedule that never ends", "0 20 * * 1-5", "0 20 31 4 *"},
	{"start equal to end", "0 20 * * 1-5", "0 8 * * 1-5"},
	{"a start without an end", `, end: "0 20 * * 1-5"`, ""},
	{"a schedule without a window", `start: "0 23 * * *", end: "0 6 * * *", `, ""},
	{"a schedule without replicas", `"0 20 * * 1-5", minReplicas: 2`, `"0 20 * * 1-5"`},
	{"a day that does not exist", "from: 2026-11-27", "from: 2026-11-31"},
	{"a day in another format", "from: 2026-11-27", "from: 27.11.2026"},
	{"until before from", "until: 2026-11-30", "until: 2026-11-20"},
	{"from without until", ", until: 2026-11-30", ""},
	{"two schedules with one name", "name: night", "name: office"},
	{"maxReplicas of a schedule below minReplicas", "maxReplicas: 4", "maxReplicas: 0"},
	{"minReplicas of a schedule above maxReplicas", "minReplicas: 3", "minReplicas: 20"},
	{"maxReplicas below minReplicas of another schedule", `start: "0 23 * * *", end: "0 6 * * *", maxReplicas: 4`,
		`start: "0 18 * * *", end: "0 6 * * *", maxReplicas: 1`},
	{"maxReplicas below minReplicas of the same schedule", "maxReplicas: 4", "minReplicas: 5, maxReplicas: 4"},
	{"maxReplicas below minReplicas of the schedule sale", "minReplicas: 3", "minReplicas: 8"},
	{"a stabilization window of two hours", "stabilizationWindowSeconds: 600", "stabilizationWindowSeconds: 7200"},
	{"a tolerance in percent without %", "tolerance: 0.1", "tolerance: 10"},
	{"a rate of 0", "value: 4", "value: 0"},
	{"no rates", "policies: [{type: Pods, value: 4, periodSeconds: 15}]", "policies: []"},
	{"a rate per day", "periodSeconds: 15", "periodSeconds: 86400"},
	{"an unknown type of rate", "type: Pods", "type: Percentage"},
	{"a rate without a period", ", periodSeconds: 15", ""},
	{"a panic threshold of 100%", "threshold: 200%", "threshold: 100%"},
	{"an unknown fallback", "behavior: static", "behavior: scalingModifiers"},
	{"a static fallback without replicas", "replicas: 6, ", ""},
	{"a merge key", "  fallback: {failureThreshold", "  fallback: {<<: {replicas: 1}, failureThreshold"},
	{"an empty entry of a list", "  - {name: kv,", "  -\n  - {name: kv,"},
	{"an objective with two times", withoutObjective, "  objective: {wait: 10s, deadline: 30m}\n"},
	{"an objective without a time", withoutObjective, "  objective: {percentile: 99}\n"},
	{"an objective as a text", withoutObjective, "  objective: wait=10s\n"},
	{"a misspelled time of an objective", withoutObjective, "  objective: {waits: 10s}\n"},
	{"a percentile as a fraction", withoutObjective, "  objective: {wait: 10s, percentile: 0.99}\n"},
	{"a percentile of 100", withoutObjective, "  objective: {wait: 10s, percentile: 100}\n"},
	{"the median of fewer than half", withoutObjective, "  objective: {wait: 10s, percentile: 40}\n"},
	{"a percentile that is not a number", withoutObjective, "  objective: {wait: 10s, percentile: .nan}\n"},
	{"no wait", withoutObjective, "  objective: {wait: 0}\n"},
	{"a wait of two hours", withoutObjective, "  objective: {wait: 2h}\n"},
	{"a deadline of a month", withoutObjective, "  objective: {deadline: 720h}\n"},
	{"an objective that no signal can show", withoutObjective, "  objective: {interTokenLatency: 50ms}\n"},
	{"a capacity of zero", withoutObjective, "  objective: {wait: 10s, capacityPerReplica: 0}\n"},
	{"a cold start of two hours", withoutObjective, "  objective: {wait: 10s, coldStart: 2h}\n"},
	{"an objective without evidence of load", "  - {name: jobs, type: redis, source: redis-chat, listName: jobs, target: 5}\n",
		"  objective: {wait: 10s}\n"},
	{"measures without an objective", "queryRef: gateway-queue, target: 10", "queryRef: gateway-queue, measures: queued, target: 10"},
	{"a query that is no evidence", firstSignal, "  objective: {wait: 10s}\n  signals:\n" +
		"  - {name: gateway, type: prometheus, queryRef: gateway-queue}\n"},
	{"a metric that is no evidence", firstSignal, "  objective: {wait: 10s}\n  signals:\n" +
		"  - {name: gateway, type: vllm, metric: kvCacheUsage}\n"},
	{"measures of a model server", firstSignal, "  objective: {wait: 10s}\n  signals:\n" +
		"  - {name: gateway, type: vllm, metric: requestsWaiting, measures: arrivals}\n"},
	{"two signals for the arrivals", firstSignal, "  objective: {wait: 10s}\n  signals:\n" +
		"  - {name: gateway, type: prometheus, metric: a, rate: 1m}\n  - {name: second, type: prometheus, metric: b, rate: 1m}\n"},
	{"the rate of a latency", firstSignal, "  objective: {wait: 10s}\n  signals:\n  - {name: gateway, type: vllm}\n" +
		"  - {name: wait, type: prometheus, metric: a, rate: 1m, measures: latency}\n"},
	{"the rate of a histogram", "queryRef: gateway-queue, target: 10", "metric: a, rate: 1m, quantile: 0.9, target: 2s"},
	{"a rate of class latency", "queryRef: gateway-queue, target: 10", "metric: a, rate: 1m, class: latency, target: 2"},
	{"a forecast without target", firstSignal, "  objective: {wait: 10s}\n  signals:\n" +
		"  - {name: gateway, type: redis, source: redis-chat, listName: all, forecast: {}}\n"},
	{"a latency at another percentile", firstSignal, "  objective: {timeToFirstToken: 500ms, percentile: 99}\n  signals:\n" +
		"  - {name: gateway, type: vllm, metric: timeToFirstToken, quantile: 0.5}\n"},
}

var platformMistakes = []mistake{
	{"a namespace on the platform", "metadata: {name: prod}", "metadata: {name: prod, namespace: default}"},
	{"an unknown mode", "mode: auto", "mode: paused"},
	{"bounds of zero", "bounds: {maxReplicas: 100}", "bounds: {maxReplicas: 0}"},
	{"bounds with min above max", "bounds: {maxReplicas: 100}", "bounds: {minReplicas: 5, maxReplicas: 2}"},
	{"two data sources with one name", "name: prom2", "name: prom"},
	{"two defaults", "    address: \"https://prom2:9090/path\"", "    default: true\n    address: \"https://prom2:9090/path\""},
	{"an address without a scheme", "https://prom:9090", "prom:9090"},
	{"a file as an address", "https://prom:9090", "file:///etc/passwd"},
	{"credentials in an address", "https://prom:9090", "https://u:p@prom:9090"},
	{"no address", `, address: "https://prom:9090"`, ""},
	{"a redis URL", `passwordFile: /etc/secret/redis`, `passwordFile: /etc/secret/redis, matchers: {a: b}`},
	{"a redis address as a URL", `type: redis, address: "redis:6379", namespaces`, `type: redis, address: "redis://redis:6379", namespaces`},
	{"a password instead of a file", "password_file: /etc/secret/p", "password: hunter2"},
	{"a relative password file", "passwordFile: /etc/secret/redis", "passwordFile: secret/redis"},
	{"a path with ..", "passwordFile: /etc/secret/redis", "passwordFile: /etc/../secret/redis"},
	{"two ways of authentication", "password_file: /etc/secret/p}}",
		"password_file: /etc/secret/p}, authorization: {credentials_file: /etc/t}}"},
	{"a certificate without a key", "password_file: /etc/secret/p}}", "password_file: /etc/secret/p}, tls_config: {cert_file: /etc/c}}"},
	{"redirects followed", "password_file: /etc/secret/p}}", "password_file: /etc/secret/p}, follow_redirects: true}"},
	{"a token for pods of tenants", "profile: vllm, port: 8000}",
		"profile: vllm, port: 8000, http: {authorization: {credentials_file: /etc/secret/t}}}"},
	{"a password for pods of tenants", "profile: vllm, port: 8000}",
		"profile: vllm, port: 8000, podLabels: {}, podsIn: team-chat, http: {basic_auth: {username: u}}}"},
	{"OAuth2 for pods of tenants", "profile: vllm, port: 8000}",
		`profile: vllm, port: 8000, http: {oauth2: {client_id: i, client_secret_file: /s, token_url: "https://idp/token"}}}`},
	{"a DCGM exporter without podLabels", "profile: vllm, port: 8000}", "profile: dcgm}"},
	{"a timeout longer than the interval", "timeout: 10s", "timeout: 20s"},
	{"an interval of 0", "interval: 15s, timeout: 10s", "interval: 10ms"},
	{"a query that is not PromQL", "sum by (namespace, pool) (queue_size)", "sum by (namespace, pool (queue_size)"},
	{"a query that drops its label", "sum by (namespace, pool)", "sum by (namespace)"},
	{"a query without grouping", "sum by (namespace, pool)", "sum"},
	{"a query that is a number", "sum by (namespace, pool) (queue_size)", "1 + 1"},
	{"a query of a range", "sum by (namespace, pool) (queue_size)", "queue_size[5m]"},
	{"a query without a label", ", workloadLabel: pool", ""},
	{"a query of an unknown source", "source: prom, query", "source: promm, query"},
	{"a query of redis", "source: prom, query", "source: redis-chat, query"},
	{"a query whose data source is for another namespace", "{name: prom, type: prometheus, default: true,",
		"{name: prom, type: prometheus, default: true, namespaces: [team-embed],"},
	{"a namespace in two teams", "namespaces: [team-embed], capacityGroups: [batch]", "namespaces: [team-chat], capacityGroups: [batch]"},
	{"a team with an unknown group", "capacityGroups: [batch]", "capacityGroups: [bach]"},
	{"a team without namespaces", "namespaces: [team-embed], capacityGroups: [batch]", "capacityGroups: [batch]"},
	{"a limit that is not a number", "nvidia.com/gpu: 32", "nvidia.com/gpu: many"},
	{"maxSeries for a data source without series", `passwordFile: /etc/secret/redis`, `passwordFile: /etc/secret/redis, maxSeries: 10`},
	{"a limit of a resource that is not counted", "nvidia.com/gpu: 32", "cpu: 32"},
	{"a limit in the format of a ResourceQuota", "nvidia.com/gpu: 32", "requests.nvidia.com/gpu: 32"},
	{"an unknown capacity type", "on-demand: l40s-ondemand", "ondemand: l40s-ondemand"},
	{"a NodePool in two groups", "spot: a10g-spot", "spot: l40s-spot"},
	{"a NodePool twice in a list", "spot: a10g-spot", "spot: [a10g-a, a10g-b, a10g-a]"},
	{"an empty list of NodePools", "spot: a10g-spot", "spot: []"},
	{"a capacity type without a NodePool", "{spot: a10g-spot}", "{spot: }"},
	{"a number in a list of NodePools", "spot: a10g-spot", "spot: [a10g-a, 7]"},
	{"a mapping as NodePool", "spot: a10g-spot", "spot: {name: a10g-a}"},
	{"an invalid name in a list of NodePools", "spot: a10g-spot", "spot: [a10g-a, a10g_b]"},
	{"a limit for devices of a DeviceClass", "nvidia.com/gpu, nodePools: {spot: a10g-spot}",
		"deviceclass.resource.kubernetes.io/gpu.nvidia.com, zeroLimit: true, nodePools: {spot: a10g-spot}"},
	{"a DeviceClass without its prefix", "resource: nvidia.com/gpu, nodePools", "resource: gpu.nvidia.com, nodePools"},
	{"a group without NodePools", "nodePools: {spot: a10g-spot}", "nodePools: {}"},
	{"a group without nodes", ", nodePools: {spot: a10g-spot}", ""},
	{"nodePools and nodeSelector", "nodePools: {spot: a10g-spot}", "nodePools: {spot: a10g-spot}, nodeSelector: {gpu: a10g}"},
	{"maxNodes of NodePools", "nodePools: {spot: a10g-spot}", "nodePools: {spot: a10g-spot}, maxNodes: 4"},
	{"an empty nodeSelector", "nodePools: {spot: a10g-spot}", "nodeSelector: {}"},
	{"a nodeSelector that is not a label", "nodePools: {spot: a10g-spot}", "nodeSelector: {gpu: a10g or l4}"},
	{"a nodeSelector with a NodePool", "nodePools: {spot: a10g-spot}", "nodeSelector: {karpenter.sh/nodepool: a10g}"},
	{"a nodeSelector with rules for NodePools", "nodePools: {spot: a10g-spot}",
		"nodeSelector: {gpu: a10g}, zeroLimit: true, spotWaitTimeout: 5m, maxNodes: -1"},
	{"a nodeSelector of a DeviceClass", "nvidia.com/gpu, nodePools: {spot: a10g-spot}",
		"deviceclass.resource.kubernetes.io/gpu.nvidia.com, nodeSelector: {gpu: a10g}"},
	{"spotWaitTimeout without on-demand", "nodePools: {spot: a10g-spot}", "nodePools: {spot: a10g-spot}, spotWaitTimeout: 5m"},
	{"an invalid consolidateAfter", "consolidateAfter: Never", "consolidateAfter: never"},
	{"a template of a NodePool", "consolidateAfter: Never", "expireAfter: 1h"},
	{"a group schedule without effect", ", disruption: {consolidateAfter: Never}", ""},
	{"a price twice", "overrides: [", "overrides: [{instanceType: p5.48xlarge, capacityType: on-demand, hourly: 1}, "},
	{"a price that is not a number", "hourly: 36.90", "hourly: $36.90"},
	{"a percentage above 100%", "minCoverage: 80%", "minCoverage: 180%"},
	{"an exporter in a team's namespace", "type: dcgm, namespace: gpu-operator", "type: dcgm, namespace: team-chat"},
	{"an exporter of an unknown type", "type: dcgm, namespace: gpu-operator", "type: gpu, namespace: gpu-operator"},
	{"an exporter without a namespace", "type: dcgm, namespace: gpu-operator", "type: dcgm"},
	{"an exporter in an invalid namespace", "type: dcgm, namespace: gpu-operator", "type: dcgm, namespace: GPU_operator"},
	{"labels for Kueue, which is trusted by its namespace", "type: kueue, namespace: kueue-system",
		"type: kueue, namespace: kueue-system, podLabels: {app: kueue}"},
	{"a model server's exporter without labels", "type: kueue, namespace: kueue-system", "type: vllm, namespace: gateways"},
	{"exported_namespace as the namespace label", "interval: 15s, timeout: 10s",
		"namespaceLabel: exported_namespace, interval: 15s, timeout: 10s"},
	{"exported_pod as the pod label", "interval: 15s, timeout: 10s",
		"podLabel: exported_pod, interval: 15s, timeout: 10s"},
	{"an invalid pod label", "interval: 15s, timeout: 10s", "podLabel: pod-name, interval: 15s, timeout: 10s"},
}

// Each mistake is tested separately. The golden file contains the complete output of validate for each mistake. UPDATE_GOLDEN=1 rewrites
// the file.
func TestEachMistakeIsReportedWithItsPlaceAndWhatIsAllowed(t *testing.T) {
	good := map[string]string{}
	for _, name := range []string{"policy.yaml", "platform.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata/mistakes", name))
		if err != nil {
			t.Fatal(err)
		}
		good[name] = string(text)
	}
	if problems := validateTexts(t, good); len(problems) > 0 {
		t.Fatalf("the base document has problems:\n%s", policy.Render(problems))
	}
	var out strings.Builder
	n := 0
	for _, part := range []struct {
		file     string
		mistakes []mistake
	}{{"policy.yaml", policyMistakes}, {"platform.yaml", platformMistakes}} {
		for _, m := range part.mistakes {
			if strings.Count(good[part.file], m.old) == 0 {
				t.Fatalf("%s: %q is not in %s", m.name, m.old, part.file)
			}
			files := map[string]string{"policy.yaml": good["policy.yaml"], "platform.yaml": good["platform.yaml"]}
			files[part.file] = strings.Replace(good[part.file], m.old, m.wrong, 1)
			problems := validateTexts(t, files)
			if len(problems) == 0 {
				t.Errorf("%s: no problem is reported", m.name)
			}
			fmt.Fprintf(&out, "%s: %s\n", part.file, m.name)
			for _, p := range problems {
				fmt.Fprintf(&out, "    %s\n", p)
			}
			n++
		}
	}
	if n < 60 {
		t.Errorf("%d mistakes", n)
	}
	golden.Compare(t, "testdata/mistakes/golden.txt", out.String())
}

// validateTexts writes files with these names to a temporary directory and validates them. It removes the path of the directory from the
// problems.
func validateTexts(t *testing.T, files map[string]string) []policy.Problem {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	problems := store.Validate(dir)
	for i := range problems {
		problems[i].File = strings.TrimPrefix(problems[i].File, dir+"/")
		problems[i].Message = strings.ReplaceAll(problems[i].Message, dir+"/", "")
	}
	return problems
}
