package store_test

import "slices"

// Parts of documents that several rows of the table use.
const (
	objectiveOf = "signals: [{name: s, type: vllm}]\nobjective: "
	latencyOf   = "signals: [{name: s, type: vllm, metric: timeToFirstToken, target: 2s, "
	window      = `name: w, timezone: UTC, start: "0 8 * * *", end: "0 20 * * *", `
	source      = "dataSources: [{name: prom, type: prometheus, address: \"http://prom\", "
	others      = `, {name: r, type: redis, address: "r:6379"}]`
	redis       = "dataSources: [{name: prom, type: prometheus, address: \"http://prom\"}, {name: r, type: redis, address: \"r:6379\", "
	scrape      = "dataSources: [{name: prom, type: prometheus, address: \"http://prom\"}, {name: r, type: scrape, "
	team        = "teams: [{name: chat, namespaces: [team-chat], capacityGroups: [chat], "
	group       = "capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: s, on-demand: o}, "
	fleet       = "capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodeSelector: {gpu: l40s}, "
)

var valueTable = slices.Concat(
	[]values{
		{"policy.minReplicas", "minReplicas: $", "1 12", "13 -1 1.5"},
		{"policy.minReplicas", "minReplicas: $\nsignals: [{name: s, type: prometheus, queryRef: q, target: 10}]", "0", ""},
		{"policy.maxReplicas", "maxReplicas: $", "1 100000", "0 100001 -1"},
		{"policy.cooldownPeriod", "cooldownPeriod: $", "0 0s 1s 90 8784h", "8784h1s -1s -1 -1ns 31622401"},
		{"policy.activation", "activation: $", "", "every"},
		{"policy.mode", "mode: $", "", "off"},
		{"policy.activate", "activate: $", "", "maybe"},
	},
	[]values{
		{"policy.objective.wait", objectiveOf + "{wait: $}", "100ms 10s 1h", "99ms 3601s"},
		{"policy.objective.timeToFirstToken", objectiveOf + "{timeToFirstToken: $}", "10ms 10m", "9ms 601s"},
		{"policy.objective.interTokenLatency", "signals: [{name: s, type: vllm}, {name: l, type: vllm, metric: interTokenLatency}]\n" +
			"objective: {interTokenLatency: $}", "1ms 10s", "999us 10001ms"},
		{"policy.objective.deadline", objectiveOf + "{deadline: $}", "1m 168h", "59s 168h1s"},
		{"policy.objective.percentile", objectiveOf + "{wait: 10s, percentile: $}", "50 95% 99.99", "49.99 100 0.95"},
		{"policy.objective.capacityPerReplica", objectiveOf + "{wait: 10s, capacityPerReplica: $}", "0.001 1000000000", "0 1000000001"},
		{"policy.objective.coldStart", objectiveOf + "{wait: 10s, coldStart: $}", "1s 1h", "999ms 3601s"},
	},
	signalValues("policy.signals"),
	directionValues("policy.behavior.scaleUp", "behavior: {scaleUp: {", "}}"),
	directionValues("policy.behavior.scaleDown", "behavior: {scaleDown: {", "}}"),
	reactionValues("policy", "", ""),
	[]values{
		{"policy.schedules.minReplicas", "schedules: [{" + window + "minReplicas: $}]", "0 12", "13"},
		{"policy.schedules.maxReplicas", "schedules: [{" + window + "maxReplicas: $}]", "1 12 13", "0"},
		{"policy.schedules.leadTime", "schedules: [{" + window + "minReplicas: 2, leadTime: $}]", "0 1s 24h", "24h1s"},
	},
	[]values{
		{"platform.mode", "mode: $", "", "off"},
		{"platform.bounds.minReplicas", "bounds: {maxReplicas: 20, minReplicas: $}", "0 2 20", "21"},
		{"platform.bounds.maxReplicas", "bounds: {maxReplicas: $}", "1 11 12 13", "0"},
		{"platform.defaults.cooldownPeriod", "defaults: {cooldownPeriod: $}", "0 7m", "-7m"},
		{"platform.defaults.maxAge", "defaults: {maxAge: $}", "1s 7m", "-7m"},
		{"platform.defaults.minCoverage", "defaults: {minCoverage: $}", "0 1% 100%", "101% 0.5"},
		{"platform.defaults.activate", "defaults: {activate: $}", "", "maybe"},
		{"platform.teams.configMaps", team + "configMaps: $}]", "", "maybe"},
		{"platform.teams.policyStatus", team + "policyStatus: $}]", "", "maybe"},
		{"platform.teams.limits", team + "limits: {nvidia.com/gpu: $}}]", "0 1 2147483647", "-1 2147483648"},
		{"platform.teams.limits", team + "limits: {$: 1}}]", "", "nvidia/com/gpu"},
		{"platform.teams.bounds.minReplicas", team + "bounds: {minReplicas: $}}]\nbounds: {minReplicas: 2, maxReplicas: 20}",
			"0 1 2 3 13 20 21", ""},
		{"platform.teams.bounds.maxReplicas", team + "bounds: {maxReplicas: $}}]\nbounds: {maxReplicas: 5}", "1 4 5 6", "0"},
		{"platform.queries.existsAtZero", "queries: [{name: q, query: \"sum by (namespace, pool) (q)\", workloadLabel: pool, existsAtZero: $}]",
			"", "1"},
		{"platform.exporters.type", "exporters: [{type: $, namespace: exporters, podLabels: {app: x}}]",
			"dcgm vllm sglang triton nim ray tgi trtllm dynamo", "redis"},
		{"platform.exporters.type", "exporters: [{type: $, namespace: exporters}]", "dcgm kueue karpenter kube-state-metrics", "keda"},
		{"platform.prices.source", "prices: {source: $, book: /etc/prices.yaml}", "", "list"},
		{"platform.prices.overrides.capacityType", "prices: {overrides: [{instanceType: p5, hourly: 2, capacityType: $}]}", "", "ondemand"},
		{"platform.prices.overrides.hourly", "prices: {overrides: [{instanceType: p5, capacityType: spot, hourly: $}]}", "0 0.5 2147483647",
			"-1 2147483648"},
		{"platform.prices.commitments.count", "prices: {commitments: [{instanceType: p5, hourly: 1, count: $}]}", "0 1 2147483647", "-1 1.5"},
		{"platform.prices.commitments.hourly", "prices: {commitments: [{instanceType: p5, count: 2, hourly: $}]}", "0 0.5", "-1"},
	},
	directionValues("platform.defaults.behavior.scaleUp", "defaults: {behavior: {scaleUp: {", "}}}"),
	directionValues("platform.defaults.behavior.scaleDown", "defaults: {behavior: {scaleDown: {", "}}}"),
	reactionValues("platform.defaults", "defaults: {", "}"),
	dataSourceValues(),
	groupValues("platform.capacityGroups"),
)

func signalValues(p string) []values {
	const prometheus = "signals: [{name: s, type: prometheus, metric: m, target: 10, "
	return []values{
		{p + ".type", "signals: [{name: s, type: $, target: 10%}]", "dcgm", "gpu"},
		{p + ".type", "signals: [{name: s, type: $, target: 10}]", "vllm sglang triton nim ray tgi trtllm dynamo", ""},
		{p + ".type", "signals: [{name: s, type: $, queryRef: q, target: 10}]", "prometheus", ""},
		{p + ".type", "signals: [{name: s, type: $, listName: l, target: 10}]", "redis", ""},
		{p + ".type", "signals: [{name: s, type: $, localQueue: l, target: 10}]", "kueue", ""},
		{p + ".type", "signals: [{name: s, type: $, metric: m, target: 10}]", "external", ""},
		{p + ".type", "signals: [{name: s, type: $, trigger: t, target: 10}]", "keda", ""},
		{p + ".target", "signals: [{name: s, type: vllm, target: $}]", "0.001 1 1e12", "0 1.1e12 -1 1e13 1_000"},
		{p + ".target", "signals: [{name: s, type: dcgm, target: $}]", "1% 2 100%", "0% 0.5 1 101%"},
		{p + ".target", "signals: [{name: s, type: vllm, metric: timeToFirstToken, target: $}]", "1ms 2 1h 8784h", "0 0.5 8784h1s 10%"},
		{p + ".activationTarget", "signals: [{name: s, type: vllm, target: 10, activationTarget: $}]", "0 0.5 1000", "-1 5%"},
		{p + ".activationTarget", "signals: [{name: s, type: dcgm, target: 50%, activationTarget: $}]", "0 1% 100%", "1 101%"},
		{p + ".metricType", "signals: [{name: s, type: vllm, target: 10, metricType: $}]", "", "Utilization"},
		{p + ".class", "signals: [{name: s, type: vllm, target: 10, class: $}]", "", "load"},
		{p + ".optional", "signals: [{name: s, type: vllm, target: 10, optional: $}]", "", "1"},
		{p + ".maxAge", "signals: [{name: s, type: vllm, target: 10, maxAge: $}]", "0 1s 8784h", "8785h"},
		{p + ".minCoverage", "signals: [{name: s, type: vllm, target: 10, minCoverage: $}]", "0 2 80% 100", "101 0.8"},
		{p + ".forecast.window", "signals: [{name: s, type: vllm, target: 10, forecast: {window: $}}]", "1m 24h", "59s 24h1s 0"},
		{p + ".forecast.deviations", "signals: [{name: s, type: vllm, target: 10, forecast: {deviations: $}}]", "0.1 10", "10.1 -1"},
		{p + ".forecast.replacesReading", "signals: [{name: s, type: vllm, target: 10, forecast: {replacesReading: $}}]", "", "1"},
		{p + ".aggregate", prometheus + "aggregate: $}]", "", "median"},
		{p + ".rate", prometheus + "rate: $}]", "1m 90s", "-1m"},
		{p + ".quantile", latencyOf + "quantile: $}]", "0 0.01 0.99", "1 1.5 -0.5"},
		{p + ".quantile", prometheus + "quantile: $}]", "0.5", "1"},
		{p + ".quantile", "objective: {wait: 10s}\nsignals: [{name: n, type: vllm}, " +
			"{name: s, type: prometheus, metric: m, measures: latency, quantile: $}]", "0.99", "0.5"},
		{p + ".quantile", "objective: {wait: 10s}\nsignals: [{name: n, type: vllm}, " +
			"{name: s, type: prometheus, metric: m, measures: arrivals, quantile: $}]", "0.5", "1"},
		{p + ".window", latencyOf + "window: $}]", "0 15s 1h", "14s 3601s"},
		{p + ".measures", "objective: {wait: 10s}\nsignals: [{name: n, type: vllm}, {name: s, type: prometheus, metric: m, measures: $}]",
			"arrivals queued inFlight served busy", "waiting"},
		{p + ".measures", "objective: {wait: 10s}\nsignals: [{name: n, type: vllm}, " +
			"{name: s, type: prometheus, metric: m, rate: 1m, measures: $}]", "arrivals queued inFlight served busy", "latency"},
		{p + ".rate", "objective: {wait: 10s}\nsignals: [{name: n, type: vllm}, {name: s, type: prometheus, metric: m, rate: $}]", "1m 90s", ""},
		{p + ".rate", "objective: {wait: 10s}\nsignals: [{name: n, type: vllm}, {name: s, type: prometheus, metric: 'vllm:m', rate: $}]",
			"1m", ""},
		{p + ".measures", "objective: {wait: 10s}\nsignals: [{name: n, type: vllm}, " +
			"{name: s, type: prometheus, metric: m, quantile: 0.99, measures: $}]", "latency", ""},
	}
}

// directionValues returns the rows of the table for scaleUp and scaleDown of behavior.
func directionValues(p, before, after string) []values {
	row := func(field, with, accepted, refused string) values {
		return values{p + "." + field, before + with + after, accepted, refused}
	}
	return []values{
		row("stabilizationWindowSeconds", "stabilizationWindowSeconds: $", "0 1 3600", "3601 -1"),
		row("tolerance", "tolerance: $", "0 0.05 1 10% 100%", "1.1 101% 100 101 -0.1"),
		row("selectPolicy", "selectPolicy: $", "", "Least"),
		row("policies.type", "policies: [{type: $, value: 7, periodSeconds: 40}]", "", "Replicas"),
		row("policies.value", "policies: [{type: Pods, value: $, periodSeconds: 40}]", "1 100000", "0 100001"),
		row("policies.periodSeconds", "policies: [{type: Percent, value: 7, periodSeconds: $}]", "1 1800", "0 1801"),
	}
}

// reactionValues returns the rows of the table for the panic window and the fallback.
func reactionValues(p, before, after string) []values {
	row := func(field, with, accepted, refused string) values {
		return values{p + "." + field, before + with + after, accepted, refused}
	}
	return []values{
		row("behavior.panic.threshold", "behavior: {panic: {threshold: $}}", "101% 200 10000%", "100% 10001%"),
		row("behavior.panic.window", "behavior: {panic: {window: $}}", "1s 1h", "999ms 3601s"),
		row("fallback.failureThreshold", "fallback: {replicas: 6, failureThreshold: $}", "0 1 2147483647", "-1"),
		row("fallback.replicas", "fallback: {replicas: $}", "0 1 100000", "100001"),
		row("fallback.behavior", "fallback: {replicas: 6, behavior: $}", "", "none"),
		row("fallback.behavior", "fallback: {behavior: $}", "currentReplicas currentReplicasIfHigher", "none"),
		row("fallback.replicas", "fallback: {behavior: $}", "currentReplicas", "static currentReplicasIfLower"),
	}
}

func dataSourceValues() []values {
	const p = "platform.dataSources"
	return []values{
		{p + ".type", "dataSources: [{name: prom, type: prometheus, address: \"http://prom\"}, {name: r, type: $, address: \"r:6379\"}]",
			"redis", "x"},
		{p + ".type", "dataSources: [{name: prom, type: $, address: \"http://prom\"}" + others, "prometheus", ""},
		{p + ".type", "dataSources: [{name: prom, type: prometheus, address: \"http://prom\"}, {name: r, type: $}]", "scrape external", ""},
		{p + ".default", source + "default: $}" + others, "", "1"},
		{p + ".interval", source + "interval: $}" + others, "500ms 1s 30s 1h", "499ms 3601s"},
		{p + ".timeout", source + "interval: 20s, timeout: $}" + others, "0 1s 20s", "21s"},
		{p + ".maxBytes", source + "maxBytes: $}" + others, "1 1Ki 2Mi 16Gi 17179869184", "0 -1 17Gi 17179869185 1K 1.5Mi"},
		{p + ".maxSeries", source + "maxSeries: $}" + others, "0 1 2147483647", "-1"},
		{p + ".database", redis + "database: $}]", "0 1 15", "-1"},
		{p + ".tls.min_version", redis + "tls: {min_version: $}}]", "", "TLS11"},
		{p + ".tls.insecure_skip_verify", redis + "tls: {insecure_skip_verify: $}}]", "", "1"},
		{p + ".http.enable_http2", source + "http: {enable_http2: $}}" + others, "", "1"},
		{p + ".http.follow_redirects", source + "http: {follow_redirects: $}}" + others, "false", "true"},
		{p + ".http.tls_config.min_version", source + "http: {tls_config: {min_version: $}}}" + others, "", "TLS11"},
		{p + ".http.tls_config.insecure_skip_verify", source + "http: {tls_config: {insecure_skip_verify: $}}}" + others, "", "1"},
		{p + ".http.oauth2.tls_config.min_version", source + oauth2 + "{min_version: $}}}}" + others, "", "TLS11"},
		{p + ".http.oauth2.tls_config.insecure_skip_verify", source + oauth2 + "{insecure_skip_verify: $}}}}" + others, "", "1"},
		{p + ".sigv4.use_fips_sts_endpoint", source + "sigv4: {use_fips_sts_endpoint: $}}" + others, "", "1"},
		{p + ".profile", scrape + "profile: $}]", "vllm sglang triton nim ray tgi trtllm dynamo", "redis"},
		{p + ".profile", scrape + "profile: $, podLabels: {app: dcgm}, podsIn: gpu}]", "dcgm", ""},
		{p + ".scheme", scrape + "scheme: $}]", "", "ftp"},
		{p + ".port", scrape + "port: $}]", "0 1 65535", "65536 -1"},
	}
}

const oauth2 = `http: {oauth2: {client_id: i, client_secret_file: /s, token_url: "https://idp/token", tls_config: `

func groupValues(p string) []values {
	return []values{
		{p + ".nodePools", "capacityGroups: [{name: chat, resource: nvidia.com/gpu, nodePools: {spot: $}}]", "a [a,b]", "[] A_b"},
		{p + ".maxNodes", fleet + "maxNodes: $}]", "0 1 2147483647", "-1"},
		{p + ".maxCapacity", fleet + "maxCapacity: $}]", "0 1 2147483647", "-1"},
		{p + ".mode", group + "mode: $}]", "", "hold"},
		{p + ".onDemandBaseCapacity", group + "onDemandBaseCapacity: $}]", "0 1 8", "-1"},
		{p + ".spotWaitTimeout", group + "spotWaitTimeout: $}]", "0 1s 5m", "-1s"},
		{p + ".fallback", group + "fallback: $}]", "", "none"},
		{p + ".returnNodesPerHour", group + "returnNodesPerHour: $}]", "0 1 31", "-1"},
		{p + ".zeroLimit", group + "zeroLimit: $}]", "", "1"},
		{p + ".consolidationFreeze", group + "consolidationFreeze: $}]", "", "1"},
		{p + ".startupShield", group + "startupShield: $}]", "", "1"},
		{p + ".emptyWholeNodes", group + "emptyWholeNodes: $}]", "", "1"},
		{p + ".buffer", group + "buffer: $}]", "", "1"},
		{p + ".leadTime", group + "leadTime: $}]", "0 1s 10m", "-1s"},
		{p + ".schedules.limits", group + "schedules: [{" + window + "limits: {nvidia.com/gpu: $}}]}]", "0 1 2147483647", "-1"},
		{p + ".schedules.limits", group + "schedules: [{" + window + "limits: {$: 1}}]}]", "", "nvidia/com/gpu"},
		{p + ".schedules.weight", group + "schedules: [{" + window + "weight: $}]}]", "1 100", "0 101"},
		{p + ".schedules.disruption.consolidationPolicy", group + "schedules: [{" + window + "disruption: {consolidationPolicy: $}}]}]", "",
			"Never"},
		{p + ".schedules.disruption.consolidateAfter", group + "schedules: [{" + window + "disruption: {consolidateAfter: $}}]}]",
			"0s 1h30m Never", "never 1d -1s"},
		{p + ".schedules.nodePools", group + "schedules: [{" + window + "weight: 9, nodePools: [$]}]}]", "spot on-demand spot,on-demand",
			"reserved"},
	}
}
