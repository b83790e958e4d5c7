package spec

// PolicySpec is the spec of a ScalingPolicy, as it is written. The struct tags are the format: see fields.go.
type Policy struct {
	ScaleTargetRef *TargetRef `yaml:"scaleTargetRef,omitempty" doc:"the object whose replicas are decided; annotations leave it out, their object knows" default:"none: always written in a file"`
	MinReplicas    *int32     `yaml:"minReplicas,omitempty" doc:"fewest replicas" default:"1, because zero needs a signal that exists at zero"`
	MaxReplicas    *int32     `yaml:"maxReplicas,omitempty" doc:"most replicas; GPUs without a limit are a bill without one" default:"none: always written in a file"`
	CooldownPeriod *Duration  `yaml:"cooldownPeriod,omitempty" doc:"idle this long before the last replica goes (1 to 0)" default:"5m, as in KEDA"`
	CapacityGroup  string     `yaml:"capacityGroup,omitempty" doc:"the PlatformConfig group of NodePools that serves this workload"`
	Signals        []Signal   `yaml:"signals,omitempty" doc:"what is measured; the greatest answer wins unless formula says otherwise"`
	Formula        string     `yaml:"formula,omitempty" doc:"CEL over the signals by name: gateway.value, gateway.replicas, has(gateway.value), replicas, ready, max, min, ceil; the result is the wanted replicas"`
	Activation     string     `yaml:"activation,omitempty" enum:"any,all" doc:"whether one signal above its activationTarget is enough to be active, or all must be" default:"any"`
	Schedules      []Schedule `yaml:"schedules,omitempty" doc:"floors and ceilings in windows of time"`
	Behavior       *Behavior  `yaml:"behavior,omitempty" doc:"how fast the number may move, in the words of an HPA" default:"an HPA's"`
	Fallback       *Fallback  `yaml:"fallback,omitempty" doc:"what to do while a required signal is missing, in the words of KEDA" default:"the current replicas are kept"`
	Mode           string     `yaml:"mode,omitempty" enum:"auto,advisory,hold" doc:"advisory decides and explains, and serves nothing; hold keeps every follower where it is. The stricter of this and the PlatformConfig's mode counts" default:"auto"`
	Activate       *bool      `yaml:"activate,omitempty" doc:"let gpuscaler itself write 0 to 1 and 1 to 0, where no KEDA does it; the namespace must be listed in activator.namespaces of the chart" default:"false"`
}

// TargetRef names any object with a /scale subresource, as in a ScaledObject.
type TargetRef struct {
	APIVersion string `yaml:"apiVersion,omitempty" doc:"group and version" default:"apps/v1"`
	Kind       string `yaml:"kind,omitempty" doc:"kind" default:"Deployment"`
	Name       string `yaml:"name" required:"true" doc:"name, in the policy's own namespace"`
}

// SignalSpec is one entry of signals. Which fields may be written depends on the type.
type Signal struct {
	Name string `yaml:"name" required:"true" doc:"a short name, by which formulas and explanations call it"`
	Type string `yaml:"type" required:"true" enum:"prometheus,dcgm,vllm,sglang,triton,nim,ray,tgi,redis,kueue,external,keda" doc:"how it is read"`

	Target           *Amount   `yaml:"target,omitempty" doc:"per replica: 10, 80% or 500ms" default:"none: always written"`
	ActivationTarget *Amount   `yaml:"activationTarget,omitempty" doc:"the workload is active while the value is above this; dcgm memory with minReplicas 0 must have one, because a loaded model always holds memory" default:"0"`
	MetricType       string    `yaml:"metricType,omitempty" enum:"AverageValue,Value" doc:"AverageValue: the reading is a total over the workload. Value: it is already a mean over the replicas" default:"Value for shares and times (GPU activity, cache use, latencies, any target in % or a time), else AverageValue"`
	Class            string    `yaml:"class,omitempty" enum:"demand,latency,utilization" doc:"what it says about the users: utilization alone never takes replicas away while demand or latency grows; a latency asks for half of the ready replicas more or fewer at most, and at least one, because it is not proportional to load" default:"by type and metric"`
	Optional         bool      `yaml:"optional,omitempty" doc:"leave it out while it is missing, instead of forbidding every fall" default:"false"`
	MaxAge           Duration  `yaml:"maxAge,omitempty" doc:"a reading older than this may raise, and cannot lower" default:"2m, or four polls of its source if that is longer"`
	MinCoverage      *Percent  `yaml:"minCoverage,omitempty" doc:"share of the ready pods that must have reported for the reading to lower the target" default:"80%"`
	Forecast         *Forecast `yaml:"forecast,omitempty" doc:"keep what it rose to lately ready for the next time; raises only, unless it replaces the reading" default:"off"`

	Source      string            `yaml:"source,omitempty" doc:"a data source of the PlatformConfig" default:"the default one that fits"`
	QueryRef    string            `yaml:"queryRef,omitempty" doc:"prometheus: a query of the PlatformConfig"`
	LabelValue  string            `yaml:"labelValue,omitempty" doc:"prometheus: the value of the query's workloadLabel that is ours" default:"the target's name"`
	Metric      string            `yaml:"metric,omitempty" doc:"model servers and dcgm: the metric's short name. prometheus, external: the metric's own name" default:"requestsWaiting; activity for dcgm"`
	MatchLabels map[string]string `yaml:"matchLabels,omitempty" doc:"prometheus, external: labels that the series must have; the namespace is always added"`
	Aggregate   string            `yaml:"aggregate,omitempty" enum:"sum,avg,max,min" doc:"prometheus with metric: how several series become one" default:"sum for AverageValue, avg for Value"`
	Rate        Duration          `yaml:"rate,omitempty" doc:"prometheus with metric: the metric is a counter; take its rate per second over this time"`
	Quantile    float64           `yaml:"quantile,omitempty" doc:"latencies: which quantile of the histogram, between 0 and 1" default:"the mean"`
	Window      Duration          `yaml:"window,omitempty" doc:"latencies: the time that the histogram is read over" default:"2m"`

	ListName      string `yaml:"listName,omitempty" doc:"redis: the list whose length counts"`
	Stream        string `yaml:"stream,omitempty" doc:"redis: the stream whose entries count"`
	ConsumerGroup string `yaml:"consumerGroup,omitempty" doc:"redis: count what this group has not acknowledged yet" default:"the whole stream's length"`
	LocalQueue    string `yaml:"localQueue,omitempty" doc:"kueue: a LocalQueue of the policy's namespace"`
	ClusterQueue  string `yaml:"clusterQueue,omitempty" doc:"kueue: a ClusterQueue"`
	Trigger       string `yaml:"trigger,omitempty" doc:"keda: the name of a trigger of the same ScaledObject"`
}

// ForecastSpec keeps replicas ahead of need. The smaller the noise of the last minutes, the less is kept.
type Forecast struct {
	Window     *Duration `yaml:"window,omitempty" doc:"how long a rise is remembered, 1m to 24h; about six cold starts" default:"5m"`
	Deviations float64   `yaml:"deviations,omitempty" doc:"how far above the mean of the window replicas are kept, in deviations of what rose above it; at most 10" default:"2"`
	Replaces   bool      `yaml:"replacesReading,omitempty" doc:"the signal asks for its forecast instead of its reading, up and down, also in a formula: a single reading is mostly chance; false: the forecast is a floor beside the reading" default:"false"`
}

// ScheduleSpec is a window of time with a floor, a ceiling or both. Start and end recur; from and until are days or moments
// that happen once, alone or around a recurring window (a season).
type Schedule struct {
	Name        string   `yaml:"name" required:"true" doc:"a short name"`
	Timezone    string   `yaml:"timezone" required:"true" doc:"an IANA zone such as Europe/Berlin; its clock changes are followed"`
	Start       string   `yaml:"start,omitempty" doc:"when the window opens: five cron fields, as in KEDA's cron trigger"`
	End         string   `yaml:"end,omitempty" doc:"when it closes: five cron fields"`
	From        string   `yaml:"from,omitempty" doc:"not before this: 2026-11-27, or 2026-11-27T18:00 on the zone's clock"`
	Until       string   `yaml:"until,omitempty" doc:"not after this: 2026-11-30 (that day included), or 2026-11-30T08:00"`
	MinReplicas *int32   `yaml:"minReplicas,omitempty" doc:"floor while the window is open"`
	MaxReplicas *int32   `yaml:"maxReplicas,omitempty" doc:"ceiling while the window is open"`
	LeadTime    Duration `yaml:"leadTime,omitempty" doc:"raise the floor this much before the window opens, so that the replicas are ready when it does" default:"the capacity group's leadTime"`
}

// BehaviorSpec holds HPA's words, and panic beside them.
type Behavior struct {
	ScaleUp   *Direction `yaml:"scaleUp,omitempty" doc:"rules for rising" default:"no window, 100% or 4 replicas in 15s"`
	ScaleDown *Direction `yaml:"scaleDown,omitempty" doc:"rules for falling" default:"a window of 300s, 100% in 15s"`
	Panic     *Panic     `yaml:"panic,omitempty" doc:"lift the rules for rising while a burst lasts, as Knative does" default:"off"`
}

// DirectionSpec is HPA's HPAScalingRules.
type Direction struct {
	StabilizationWindowSeconds *int32     `yaml:"stabilizationWindowSeconds,omitempty" doc:"the highest (down) or lowest (up) proposal of so many seconds counts, at most 3600; with more than 16 different proposals up to a seventh longer" default:"0 up, 300 down"`
	Tolerance                  *Tolerance `yaml:"tolerance,omitempty" doc:"relative change that is not worth a move" default:"0.1"`
	SelectPolicy               string     `yaml:"selectPolicy,omitempty" enum:"Max,Min,Disabled" doc:"which of several policies counts; Disabled never moves this way" default:"Max"`
	Policies                   []Rate     `yaml:"policies,omitempty" doc:"how much may change in how long, at most 4"`
}

// RateSpec is HPA's HPAScalingPolicy.
type Rate struct {
	Type          string `yaml:"type" required:"true" enum:"Pods,Percent" doc:"what value counts"`
	Value         *int32 `yaml:"value" required:"true" doc:"at most so many"`
	PeriodSeconds *int32 `yaml:"periodSeconds" required:"true" doc:"in so many seconds, 1 to 1800"`
}

// PanicSpec follows Knative's panic window.
type Panic struct {
	Threshold *Percent  `yaml:"threshold,omitempty" doc:"what the proposal must reach, in percent of the ready replicas, above 100%" default:"200%"`
	Window    *Duration `yaml:"window,omitempty" doc:"how long after the last such proposal nothing falls" default:"60s"`
}

// FallbackSpec holds KEDA's words.
type Fallback struct {
	FailureThreshold *int32 `yaml:"failureThreshold,omitempty" doc:"failures in a row after which it applies" default:"3"`
	Replicas         *int32 `yaml:"replicas,omitempty" doc:"the number that behavior speaks of" default:"0"`
	Behavior         string `yaml:"behavior,omitempty" enum:"static,currentReplicas,currentReplicasIfHigher,currentReplicasIfLower" doc:"KEDA's names; a missing signal lowers nothing, whatever they say" default:"static"`
}
