package spec

// docs contains the description of each field for the reference and the JSON Schemas. The key is the type and the field.
var docs = map[string]string{
	"Metadata.name":      "name of the policy or configuration, shown in metrics and explanations",
	"Metadata.namespace": "namespace of the workload (not in a PlatformConfig)",

	"PolicyDocument.apiVersion": "gpuscaler.io/v1alpha1",
	"PolicyDocument.kind":       "ScalingPolicy",
	"PolicyDocument.metadata":   "name and namespace",
	"PolicyDocument.spec":       "the policy",

	"PlatformDocument.apiVersion": "gpuscaler.io/v1alpha1",
	"PlatformDocument.kind":       "PlatformConfig",
	"PlatformDocument.metadata":   "name",
	"PlatformDocument.spec":       "the configuration",

	"Policy.scaleTargetRef": "the object whose replicas gpuscaler decides; not in annotations, where the object defines it",
	"Policy.minReplicas":    "minimum number of replicas",
	"Policy.maxReplicas":    "maximum number of replicas; it limits the cost",
	"Policy.cooldownPeriod": "idle time before the last replica is removed (1 to 0); with an objective, a further condition",
	"Policy.capacityGroup":  "the capacity group of the PlatformConfig whose NodePools run this workload",
	"Policy.objective": "the SLO to meet; gpuscaler then learns the capacity of a replica, the cold start and the pattern of the " +
		"arrivals, and signals need no target. Recommendations of signals that have a target can only raise the result. Exactly one of " +
		"wait, timeToFirstToken, interTokenLatency and deadline",
	"Policy.signals": "what is measured; without an objective, the highest recommendation applies unless formula is set",
	"Policy.formula": "CEL over the signals by name: gateway.value, gateway.replicas, has(gateway.value), replicas, ready, max, min, " +
		"ceil; the result is the recommended number of replicas",
	"Policy.activation": "the workload is active if any signal is above its activationTarget, or only if all are",
	"Policy.schedules":  "minReplicas and maxReplicas in time windows",
	"Policy.behavior":   "how fast the target may change, with the fields of an HPA",
	"Policy.fallback":   "the target while a required signal is missing, with the fields of KEDA",
	"Policy.mode": "advisory: decide and explain, but serve no target; hold: every HPA and ScaledObject keeps its replicas. If this " +
		"and the mode of the PlatformConfig differ, the stricter one applies",
	"Policy.activate": "gpuscaler scales from 0 to 1 and from 1 to 0 itself, for workloads without KEDA; the namespace must be in " +
		"activator.namespaces of the chart",

	"Objective.wait": "how long a request may wait before a replica works on it, 100ms to 1h",
	"Objective.timeToFirstToken": "how long a request may take until its first token, 10ms to 10m; a signal that measures this time " +
		"makes the result more exact",
	"Objective.interTokenLatency": "how long a request may take for each further token, 1ms to 10s; needs a signal that measures this " +
		"time",
	"Objective.deadline": "how long a job may take from its arrival until it is complete, 1m to 168h; " +
		"needs a signal that measures the queue",
	"Objective.percentile": "share of the requests or jobs that must meet the time, 50 to 99.99",
	"Objective.capacityPerReplica": "work per second that a replica serves, in the unit of the arrivals (requests or tokens); replaces " +
		"what is learned",
	"Objective.coldStart": "time from the decision to a ready replica, 1s to 1h; replaces what is learned",

	"TargetRef.apiVersion": "group and version",
	"TargetRef.kind":       "kind",
	"TargetRef.name":       "name, in the policy's own namespace",

	"Signal.name":   "a short name for formulas and explanations",
	"Signal.type":   "the source of the value",
	"Signal.target": "desired value: a number per replica (10), or a mean over the ready replicas (80%, 500ms)",
	"Signal.measures": "what the value is evidence of for the objective. arrivals: work that arrives, per second. queued: work that " +
		"waits. inFlight: work in progress. served: work that finishes, per second. busy: share of time in which the GPUs work, 0 to 1. " +
		"latency: the time that the objective limits, in seconds, at its percentile. " +
		"Only for types prometheus, external and keda, and only with an objective",
	"Signal.activationTarget": "the workload is active while the value is above this; required for dcgm memory with minReplicas 0, " +
		"because a loaded model always uses memory",
	"Signal.metricType": "AverageValue: the reading is a total over the workload. Value: the reading is already a mean over the " +
		"replicas. The default is Value for percentages and times (GPU activity, cache use, latencies, any target in % or a time), else " +
		"AverageValue",
	"Signal.class": "what the signal measures. While demand or latency grows, utilization alone does not lower the target. A latency " +
		"changes the recommendation by at least one replica and at most half of the ready replicas, because it is not proportional to " +
		"load",
	"Signal.optional":    "ignore the signal while it is missing; a missing signal otherwise prevents every decrease",
	"Signal.maxAge":      "a reading older than this cannot lower the target",
	"Signal.minCoverage": "share of the ready pods that must report before the reading can lower the target",
	"Signal.forecast": "keep replicas for the increases of the last minutes; raises the recommendation only, unless replacesReading " +
		"is set",
	"Signal.source":        "a data source of the PlatformConfig",
	"Signal.queryRef":      "prometheus: a query of the PlatformConfig",
	"Signal.labelValue":    "prometheus: the value of the query's workloadLabel for this workload",
	"Signal.metric":        "model servers and dcgm: a name of the table below. prometheus, external: the name of the metric",
	"Signal.matchLabels":   "prometheus, external: labels that the series must have; the namespace is always added",
	"Signal.aggregate":     "prometheus with metric: how several series are combined",
	"Signal.rate":          "prometheus with metric: the metric is a counter; read its rate per second over this time",
	"Signal.quantile":      "latencies: quantile of the histogram, between 0 and 1",
	"Signal.window":        "latencies: the time that the histogram is read over",
	"Signal.listName":      "redis: the list whose length is read",
	"Signal.stream":        "redis: the stream whose entries are counted",
	"Signal.consumerGroup": "redis: count only entries that this group has not acknowledged",
	"Signal.localQueue":    "kueue: a LocalQueue of the policy's namespace",
	"Signal.clusterQueue":  "kueue: a ClusterQueue",
	"Signal.trigger":       "keda: the name of a trigger of the same ScaledObject",

	"Forecast.window": "how long an increase is considered, 1m to 24h; about six cold starts",
	"Forecast.deviations": "replicas are kept for the mean of the window plus this many standard deviations of the values above the " +
		"mean; at most 10",
	"Forecast.replacesReading": "true: the forecast replaces the reading, for increases and decreases, also in a formula; use it if a " +
		"single reading is mostly noise. false: the forecast only raises the recommendation",

	"Schedule.name":        "a short name",
	"Schedule.timezone":    "an IANA time zone such as Europe/Berlin, with its daylight saving time",
	"Schedule.start":       "start of the window: five cron fields, as in KEDA's cron trigger",
	"Schedule.end":         "end of the window: five cron fields",
	"Schedule.from":        "first day or time: 2026-11-27, or 2026-11-27T18:00 in the time zone",
	"Schedule.until":       "last day or time: 2026-11-30 (that day included), or 2026-11-30T08:00",
	"Schedule.minReplicas": "minimum number of replicas during the window",
	"Schedule.maxReplicas": "maximum number of replicas during the window",
	"Schedule.leadTime":    "apply minReplicas this long before the window opens, so that the replicas are ready in time",

	"Behavior.scaleUp":   "rules for increases",
	"Behavior.scaleDown": "rules for decreases",
	"Behavior.panic":     "no rules for increases and no decreases during a burst, as in Knative",

	"Direction.stabilizationWindowSeconds": "time in seconds over which the highest (scaleDown) or lowest (scaleUp) recommendation " +
		"applies, at most 3600; with more than 16 different recommendations up to a seventh longer",
	"Direction.tolerance":    "smallest relative change that is applied",
	"Direction.selectPolicy": "which of several policies applies; Disabled allows no change in this direction",
	"Direction.policies":     "maximum change per period; at most 4 entries",

	"Rate.type":          "unit of value",
	"Rate.value":         "maximum change",
	"Rate.periodSeconds": "period in seconds, 1 to 1800",

	"Panic.threshold": "recommendation that starts a burst, in percent of the ready replicas, above 100%",
	"Panic.window":    "time after the last such recommendation until decreases are allowed again",

	"Fallback.failureThreshold": "number of consecutive failures after which the fallback applies",
	"Fallback.replicas":         "number of replicas for behavior",
	"Fallback.behavior":         "values of KEDA; unlike in KEDA, a missing signal never lowers the target",

	"Platform.cluster": "name of the cluster: an annotation of every Event, a label of the cost metrics, and shown in explanations, " +
		"pages and reports",
	"Platform.mode": "auto: decide and act; advisory: decide and explain only; hold: answer 503 for every metric, so that every HPA " +
		"keeps its replicas",
	"Platform.bounds":      "bounds of every policy; they take precedence over trigger metadata, annotations and files",
	"Platform.dataSources": "where readings come from; policies refer to them by name and cannot contain an address",
	"Platform.exporters": "pods whose metrics name other pods in labels; such labels of all other pods are ignored; by default the " +
		"DCGM exporter in gpu-operator, Kueue in kueue-system, Karpenter in karpenter and kube-system, and kube-state-metrics in " +
		"monitoring, kube-state-metrics and kube-system",
	"Platform.queries":        "PromQL of the platform team, with one request for all workloads",
	"Platform.defaults":       "defaults of fields that a policy omits",
	"Platform.teams":          "namespaces with their permissions and limits",
	"Platform.capacityGroups": "NodePools that run the same workloads",
	"Platform.prices":         "prices of nodes",

	"Bounds.minReplicas": "minimum of every policy",
	"Bounds.maxReplicas": "maximum of every policy",

	"Defaults.cooldownPeriod": "see the field of a policy; not for policies with an objective",
	"Defaults.maxAge":         "see the field of a signal",
	"Defaults.minCoverage":    "see the field of a signal",
	"Defaults.behavior":       "see the field of a policy; not for policies with an objective",
	"Defaults.fallback":       "see the field of a policy",
	"Defaults.activate":       "see the field of a policy",

	"Team.name":           "a short name",
	"Team.namespaces":     "namespaces of the team",
	"Team.capacityGroups": "capacity groups that its policies may name",
	"Team.clusterQueues":  "Kueue ClusterQueues whose backlog its policies may read; if there are teams, no other policy may read them",
	"Team.configMaps": "accept policies in ConfigMaps of its namespaces with the label gpuscaler.io/policy: \"true\"; gpuscaler must also " +
		"read the namespaces (chart value teamConfigMaps.namespaces)",
	"Team.policyStatus": "write into the annotation gpuscaler.io/policy-status of each HPA, ScaledObject and ConfigMap with a policy of the " +
		"team whether the policy is accepted, or the line and field of its first error; gpuscaler must also be allowed to patch these " +
		"objects (chart value policyStatus.namespaces)",
	"Team.limits": "maximum of each extended resource (nvidia.com/gpu: 32) for all workloads of the team together: the sum of target " +
		"x request per replica never exceeds it. A lowered limit takes effect at once, below minReplicas if necessary. minReplicas have " +
		"priority over running replicas, and these over increases, by dominant share. Pods without a policy and terminating pods only " +
		"prevent increases",
	"Team.bounds": "bounds of each of its policies",

	"Exporter.type":      "type of the metrics; an entry replaces the default of its type",
	"Exporter.namespace": "namespace of the exporter's pods; it must not belong to a team",
	"Exporter.podLabels": "labels of the exporter's pods; not for kueue, karpenter and kube-state-metrics, for which all pods of the " +
		"namespace are trusted",

	"Query.name":           "name for queryRef of policies",
	"Query.source":         "a prometheus data source",
	"Query.query":          "PromQL whose series have the namespace label and the workloadLabel",
	"Query.workloadLabel":  "label with the name of the workload",
	"Query.namespaceLabel": "label with the namespace of the workload",
	"Query.existsAtZero":   "whether the series exist while a workload has no pods",

	"DataSource.name":           "name for source of policies",
	"DataSource.type":           "a Prometheus server, a Redis server, /metrics of pods, or the cluster's external metrics API",
	"DataSource.default":        "the default of its type for policies that name no data source",
	"DataSource.namespaces":     "namespaces whose policies may use it",
	"DataSource.interval":       "time between two polls",
	"DataSource.timeout":        "time after which a poll fails",
	"DataSource.maxBytes":       "prometheus, redis, scrape: a larger response is rejected, and its readings are missing",
	"DataSource.maxSeries":      "prometheus: a response with more series is rejected, and its readings are missing",
	"DataSource.address":        "prometheus: http(s)://host:port/path. redis: host:port",
	"DataSource.matchers":       "prometheus: label matchers that are added to every query",
	"DataSource.namespaceLabel": "prometheus: label with the namespace of a series",
	"DataSource.podLabel": "prometheus: label in which a scrape stores the name of the scraped pod; its namespace is in " +
		"namespaceLabel",
	"DataSource.http":         "prometheus, scrape: HTTP client configuration with the fields of Prometheus; secrets are read from files",
	"DataSource.sigv4":        "prometheus: sign requests for Amazon Managed Service for Prometheus",
	"DataSource.username":     "redis: user name",
	"DataSource.passwordFile": "redis: mounted file with the password",
	"DataSource.database":     "redis: number of the database",
	"DataSource.tls":          "redis: use TLS",
	"DataSource.profile":      "scrape: type of the metrics",
	"DataSource.scheme":       "scrape: scheme of the URL",
	"DataSource.port":         "scrape: port of the metrics endpoint",
	"DataSource.path":         "scrape: path of the URL",
	"DataSource.podLabels": "scrape: labels of the pods that serve the metrics, if these are not the workload's own pods " +
		"(dcgm-exporter)",
	"DataSource.podsIn": "scrape: namespace of these pods",

	"Group.name": "name for capacityGroup of policies",
	"Group.resource": "the counted resource: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu, or a DeviceClass as " +
		"deviceclass.resource.kubernetes.io/NAME (without rules that set a limit)",
	"Group.nodePools": "NodePool of each karpenter.sh/capacity-type (spot, on-demand, reserved), " +
		"or a list of NodePools: one for each zone or instance family",
	"Group.nodeSelector": "labels of the nodes, instead of nodePools: nodes of Cluster Autoscaler, GKE, AKS, or a static fleet. gpuscaler " +
		"changes none of them; a node that matches several groups belongs to the first",
	"Group.maxNodes": "with nodeSelector: how many nodes the autoscaler of the cluster may have; without maxNodes and maxCapacity " +
		"the present nodes are all",
	"Group.maxCapacity":          "with nodeSelector: how much of the resource the nodes may have",
	"Group.mode":                 "advisory: report the changes of NodePools without applying them",
	"Group.onDemandBaseCapacity": "amount of the resource that is on-demand capacity before spot is used",
	"Group.spotWaitTimeout": "how long to wait for spot before on-demand may grow; above 0 it needs permission to change the limits " +
		"of the on-demand NodePool",
	"Group.fallback":            "soft: exchange the weights of the NodePools; hard: also limit the spot NodePool",
	"Group.returnNodesPerHour":  "how many nodes per hour return to spot",
	"Group.zeroLimit":           "set the limit of the NodePools to 0 while no pod and no policy needs the resource",
	"Group.consolidationFreeze": "stop Karpenter's consolidation while demand is at its peak and before a known increase",
	"Group.startupShield":       "protect pods that are still loading a model from disruption, and the pod that such a pod replaces",
	"Group.emptyWholeNodes":     "prefer pods whose removal frees a whole node when a workload is scaled down",
	"Group.leadTime": "time from an empty NodePool to a ready replica: minReplicas of schedules apply this long before, and " +
		"consolidation stops for that time",
	"Group.buffer": "from leadTime before a schedule's minReplicas, reserve its nodes with a CapacityBuffer if the cluster has this " +
		"API; a schedule with a shorter leadTime of its own then starts its replicas on existing nodes",
	"Group.schedules": "limits, weight and disruption of the NodePools in time windows",

	"GroupSchedule.name":       "a short name",
	"GroupSchedule.timezone":   "an IANA time zone",
	"GroupSchedule.start":      "five cron fields",
	"GroupSchedule.end":        "five cron fields",
	"GroupSchedule.from":       "first day or time",
	"GroupSchedule.until":      "last day or time",
	"GroupSchedule.nodePools":  "capacity types of the NodePools that change",
	"GroupSchedule.limits":     "limits of the NodePools during the window",
	"GroupSchedule.weight":     "weight of the NodePools during the window, 1 to 100",
	"GroupSchedule.disruption": "disruption of the NodePools during the window",

	"Disruption.consolidationPolicy": "as in a NodePool",
	"Disruption.consolidateAfter":    "a duration, or Never",

	"Prices.source":      "karpenter: the offering metric of Karpenter; book: the price book",
	"Prices.region":      "region in the price book",
	"Prices.book":        "mounted price book (kind PriceBook) that replaces the built-in one",
	"Prices.overrides":   "prices that replace the prices of the source",
	"Prices.commitments": "capacity that is paid for even if it is not used",

	"Price.instanceType": "p5.48xlarge",
	"Price.capacityType": "capacity type",
	"Price.region":       "region",
	"Price.hourly":       "price of one instance per hour",

	"Commitment.instanceType": "p5.48xlarge",
	"Commitment.region":       "region",
	"Commitment.count":        "number of instances",
	"Commitment.hourly":       "price of one instance per hour",

	"HTTP.basic_auth":       "user and password",
	"HTTP.authorization":    "the Authorization header, such as a bearer token",
	"HTTP.oauth2":           "client credentials",
	"HTTP.tls_config":       "certificates",
	"HTTP.follow_redirects": "only false is allowed: redirects are never followed, so that a server cannot redirect credentials",
	"HTTP.enable_http2":     "use HTTP/2",
	"HTTP.proxy_url":        "URL of the proxy",
	"HTTP.no_proxy":         "hosts that are reached without the proxy",

	"BasicAuth.username":      "user name",
	"BasicAuth.username_file": "mounted file with the user name",
	"BasicAuth.password_file": "mounted file with the password",

	"Authorization.type":             "authentication scheme",
	"Authorization.credentials_file": "mounted file with the credentials; it is read again when it changes",

	"OAuth2.client_id":          "client ID",
	"OAuth2.client_secret_file": "mounted file with the secret",
	"OAuth2.token_url":          "URL of the token endpoint",
	"OAuth2.scopes":             "scopes",
	"OAuth2.endpoint_params":    "further parameters of the token request",
	"OAuth2.tls_config":         "certificates for the token endpoint",

	"TLS.ca_file":              "mounted file with the trusted certificate authorities",
	"TLS.cert_file":            "mounted file with the client certificate",
	"TLS.key_file":             "mounted file with the key of the client certificate",
	"TLS.server_name":          "server name that the certificate must contain",
	"TLS.min_version":          "minimum TLS version",
	"TLS.insecure_skip_verify": "do not verify the server's certificate",

	"SigV4.region":                "region",
	"SigV4.profile":               "profile of the shared credentials file",
	"SigV4.role_arn":              "role to assume",
	"SigV4.external_id":           "external ID of the role",
	"SigV4.use_fips_sts_endpoint": "use a FIPS endpoint of STS",
	"SigV4.service_name":          "service name of the signature",

	"PriceBook.regions":     "prices by region; a region that is not listed has no prices",
	"PriceBook.overrides":   "prices that replace the prices of the source",
	"PriceBook.commitments": "capacity that is paid for even if it is not used",

	"RegionPrices.name":          "region, as in topology.kubernetes.io/region",
	"RegionPrices.source":        "where the prices were published",
	"RegionPrices.asOf":          "day of the prices, 2026-07-20",
	"RegionPrices.instanceTypes": "prices by instance type",

	"InstancePrice.name":      "p5.48xlarge",
	"InstancePrice.gpus":      "number of GPUs of an instance",
	"InstancePrice.on-demand": "price of one instance per hour",
	"InstancePrice.spot":      "price of one instance per hour",
	"InstancePrice.reserved":  "price of one instance per hour",

	"PriceBookDocument.apiVersion": "gpuscaler.io/v1alpha1",
	"PriceBookDocument.kind":       "PriceBook",
	"PriceBookDocument.metadata":   "name",
	"PriceBookDocument.spec":       "the prices",
}
