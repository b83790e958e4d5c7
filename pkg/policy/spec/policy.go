// Package spec contains the structs that users write in YAML, their scalar types, and the table of their fields. It checks only the syntax
// of scalars. Package compile checks everything else.
package spec

// Policy is the spec of a ScalingPolicy as a user writes it. Its struct tags and docs.go define the format (see FieldsOf).
type Policy struct {
	ScaleTargetRef *TargetRef `yaml:"scaleTargetRef,omitempty" default:"none: required in a file"`
	MinReplicas    *int32     `yaml:"minReplicas,omitempty" default:"1, because 0 needs a signal that exists at zero replicas"`
	MaxReplicas    *int32     `yaml:"maxReplicas,omitempty" default:"none: required in a file"`
	CooldownPeriod *Duration  `yaml:"cooldownPeriod,omitempty" default:"5m, as in KEDA; 0 with an objective, which removes the last replica"`
	CapacityGroup  string     `yaml:"capacityGroup,omitempty"`
	Objective      *Objective `yaml:"objective,omitempty" default:"none: every signal has a target"`
	Signals        []Signal   `yaml:"signals,omitempty"`
	Formula        string     `yaml:"formula,omitempty"`
	Activation     string     `yaml:"activation,omitempty" enum:"any,all" default:"any"`
	Schedules      []Schedule `yaml:"schedules,omitempty"`
	Behavior       *Behavior  `yaml:"behavior,omitempty" default:"as in an HPA; with an objective: no windows, tolerances and rates"`
	Fallback       *Fallback  `yaml:"fallback,omitempty" default:"the current replicas are kept"`
	Mode           string     `yaml:"mode,omitempty" enum:"auto,advisory,hold" default:"auto"`
	Activate       *bool      `yaml:"activate,omitempty" default:"false"`
}

// Objective is the SLO of the workload. Exactly one of its times is set. gpuscaler learns the data that it needs to meet the SLO: the
// capacity of a replica, the duration of a cold start and the pattern of the arrivals.
type Objective struct {
	Wait              *Duration   `yaml:"wait,omitempty"`
	TimeToFirstToken  *Duration   `yaml:"timeToFirstToken,omitempty"`
	InterTokenLatency *Duration   `yaml:"interTokenLatency,omitempty"`
	Deadline          *Duration   `yaml:"deadline,omitempty"`
	Percentile        *Percentile `yaml:"percentile,omitempty" default:"99"`
	Capacity          *float64    `yaml:"capacityPerReplica,omitempty" default:"learned"`
	ColdStart         *Duration   `yaml:"coldStart,omitempty" default:"learned"`
}

// TargetRef names an object with a scale subresource. It has the same fields as scaleTargetRef of a ScaledObject.
type TargetRef struct {
	APIVersion string `yaml:"apiVersion,omitempty" default:"apps/v1"`
	Kind       string `yaml:"kind,omitempty" default:"Deployment"`
	Name       string `yaml:"name" required:"true"`
}

// Signal is one element of the list signals. Its type determines which fields are allowed.
type Signal struct {
	Name string `yaml:"name" required:"true"`
	Type string `yaml:"type" required:"true" enum:"prometheus,dcgm,vllm,sglang,triton,nim,ray,tgi,trtllm,dynamo,redis,kueue,external,keda"`

	Target           *Amount   `yaml:"target,omitempty" default:"none: required without an objective"`
	Measures         string    `yaml:"measures,omitempty" enum:"arrivals,queued,inFlight,served,busy,latency" default:"see the table below"`
	ActivationTarget *Amount   `yaml:"activationTarget,omitempty" default:"0"`
	MetricType       string    `yaml:"metricType,omitempty" enum:"AverageValue,Value" default:"by type and metric"`
	Class            string    `yaml:"class,omitempty" enum:"demand,latency,utilization" default:"by type and metric"`
	Optional         bool      `yaml:"optional,omitempty" default:"false"`
	MaxAge           Duration  `yaml:"maxAge,omitempty" default:"2m, or four polls of its source if that is longer"`
	MinCoverage      *Percent  `yaml:"minCoverage,omitempty" default:"80%"`
	Forecast         *Forecast `yaml:"forecast,omitempty" default:"off"`

	Source      string            `yaml:"source,omitempty" default:"the default data source for the type"`
	QueryRef    string            `yaml:"queryRef,omitempty"`
	LabelValue  string            `yaml:"labelValue,omitempty" default:"the name of the scale target"`
	Metric      string            `yaml:"metric,omitempty" default:"requestsWaiting; activity for dcgm"`
	MatchLabels map[string]string `yaml:"matchLabels,omitempty"`
	Aggregate   string            `yaml:"aggregate,omitempty" enum:"sum,avg,max,min" default:"sum for AverageValue, avg for Value"`
	Rate        Duration          `yaml:"rate,omitempty"`
	Quantile    float64           `yaml:"quantile,omitempty" default:"the mean; without target, the percentile of the objective"`
	Window      Duration          `yaml:"window,omitempty" default:"2m"`

	ListName      string `yaml:"listName,omitempty"`
	Stream        string `yaml:"stream,omitempty"`
	ConsumerGroup string `yaml:"consumerGroup,omitempty" default:"all entries of the stream"`
	LocalQueue    string `yaml:"localQueue,omitempty"`
	ClusterQueue  string `yaml:"clusterQueue,omitempty"`
	Trigger       string `yaml:"trigger,omitempty"`
}

// Forecast keeps replicas ready for likely increases of the load. Which increases are likely is computed from the variation of the signal
// in the last minutes: the lower the variation, the fewer replicas are kept.
type Forecast struct {
	Window     *Duration `yaml:"window,omitempty" default:"5m"`
	Deviations float64   `yaml:"deviations,omitempty" default:"2"`
	Replaces   bool      `yaml:"replacesReading,omitempty" default:"false"`
}

// Schedule is a time window with minReplicas, maxReplicas or both. A window with start and end (cron expressions) recurs. A window with
// from and until (times) occurs once. If all four fields are set, the recurring window applies only between from and until.
type Schedule struct {
	Name        string   `yaml:"name" required:"true"`
	Timezone    string   `yaml:"timezone" required:"true"`
	Start       string   `yaml:"start,omitempty"`
	End         string   `yaml:"end,omitempty"`
	From        string   `yaml:"from,omitempty"`
	Until       string   `yaml:"until,omitempty"`
	MinReplicas *int32   `yaml:"minReplicas,omitempty"`
	MaxReplicas *int32   `yaml:"maxReplicas,omitempty"`
	LeadTime    Duration `yaml:"leadTime,omitempty" default:"the capacity group's leadTime; with objective, else the learned cold start (p95)"`
}

// Behavior contains the fields of an HPA's behavior, and the additional field panic.
type Behavior struct {
	ScaleUp   *Direction `yaml:"scaleUp,omitempty" default:"no stabilization window, 100% or 4 replicas in 15s"`
	ScaleDown *Direction `yaml:"scaleDown,omitempty" default:"a stabilization window of 300s, 100% in 15s"`
	Panic     *Panic     `yaml:"panic,omitempty" default:"off"`
}

// Direction contains the fields of the HPA's HPAScalingRules.
type Direction struct {
	StabilizationWindowSeconds *int32     `yaml:"stabilizationWindowSeconds,omitempty" default:"0 up, 300 down"`
	Tolerance                  *Tolerance `yaml:"tolerance,omitempty" default:"0.1"`
	SelectPolicy               string     `yaml:"selectPolicy,omitempty" enum:"Max,Min,Disabled" default:"Max"`
	Policies                   []Rate     `yaml:"policies,omitempty"`
}

// Rate contains the fields of the HPA's HPAScalingPolicy.
type Rate struct {
	Type          string `yaml:"type" required:"true" enum:"Pods,Percent"`
	Value         *int32 `yaml:"value" required:"true"`
	PeriodSeconds *int32 `yaml:"periodSeconds" required:"true"`
}

// Panic configures the panic mode, which works like the panic mode of Knative's autoscaler.
type Panic struct {
	Threshold *Percent  `yaml:"threshold,omitempty" default:"200%"`
	Window    *Duration `yaml:"window,omitempty" default:"60s"`
}

// Fallback contains the fields of KEDA's fallback.
type Fallback struct {
	FailureThreshold *int32 `yaml:"failureThreshold,omitempty" default:"3"`
	Replicas         *int32 `yaml:"replicas,omitempty" default:"0"`

	Behavior string `yaml:"behavior,omitempty" enum:"static,currentReplicas,currentReplicasIfHigher,currentReplicasIfLower" default:"static"`
}
