package spec

// Platform is the spec of a PlatformConfig: data sources, queries, teams, capacity groups and the bounds of all policies. A cluster has one
// PlatformConfig.
type Platform struct {
	Cluster        string       `yaml:"cluster,omitempty" default:"metadata.name"`
	Mode           string       `yaml:"mode,omitempty" enum:"auto,advisory,hold" default:"auto"`
	Bounds         *Bounds      `yaml:"bounds,omitempty"`
	DataSources    []DataSource `yaml:"dataSources,omitempty"`
	Exporters      []Exporter   `yaml:"exporters,omitempty"`
	Queries        []Query      `yaml:"queries,omitempty"`
	Defaults       *Defaults    `yaml:"defaults,omitempty"`
	Teams          []Team       `yaml:"teams,omitempty"`
	CapacityGroups []Group      `yaml:"capacityGroups,omitempty"`
	Prices         *Prices      `yaml:"prices,omitempty"`
}

// Bounds limits minReplicas and maxReplicas of policies. Lower values are increased to Bounds.MinReplicas, and higher values are reduced to
// Bounds.MaxReplicas.
type Bounds struct {
	MinReplicas *int32 `yaml:"minReplicas,omitempty"`
	MaxReplicas *int32 `yaml:"maxReplicas,omitempty"`
}

// Defaults contains the values of fields that a policy omits.
type Defaults struct {
	CooldownPeriod *Duration `yaml:"cooldownPeriod,omitempty" default:"5m"`
	MaxAge         Duration  `yaml:"maxAge,omitempty" default:"2m"`
	MinCoverage    *Percent  `yaml:"minCoverage,omitempty" default:"80%"`
	Behavior       *Behavior `yaml:"behavior,omitempty"`
	Fallback       *Fallback `yaml:"fallback,omitempty"`
	Activate       *bool     `yaml:"activate,omitempty" default:"false"`
}

// Team is a set of namespaces with its permissions and limits. A namespace belongs to at most one team.
type Team struct {
	Name           string           `yaml:"name" required:"true"`
	Namespaces     []string         `yaml:"namespaces" required:"true"`
	CapacityGroups []string         `yaml:"capacityGroups,omitempty"`
	ClusterQueues  []string         `yaml:"clusterQueues,omitempty"`
	ConfigMaps     bool             `yaml:"configMaps,omitempty" default:"false"`
	PolicyStatus   bool             `yaml:"policyStatus,omitempty" default:"false"`
	Limits         map[string]int64 `yaml:"limits,omitempty"`
	Bounds         *Bounds          `yaml:"bounds,omitempty"`
}

// Exporter selects pods that export metrics about other pods. Prometheus renames the labels namespace and pod of such metrics to
// exported_namespace and exported_pod. Any scraped pod can export these labels with arbitrary values, so gpuscaler accepts the labels only
// from declared exporters.
type Exporter struct {
	Type string `yaml:"type" required:"true" enum:"dcgm,kueue,karpenter,kube-state-metrics,vllm,sglang,triton,nim,ray,tgi,trtllm,dynamo"`

	Namespace string            `yaml:"namespace" required:"true"`
	PodLabels map[string]string `yaml:"podLabels,omitempty" default:"dcgm: the labels of the GPU operator and of the exporter's chart"`
}

// Query is a PromQL query whose result has one series for each workload.
type Query struct {
	Name           string `yaml:"name" required:"true"`
	Source         string `yaml:"source,omitempty" default:"the default data source"`
	Query          string `yaml:"query" required:"true"`
	WorkloadLabel  string `yaml:"workloadLabel" required:"true"`
	NamespaceLabel string `yaml:"namespaceLabel,omitempty" default:"namespace"`
	ExistsAtZero   *bool  `yaml:"existsAtZero,omitempty" default:"false if pods export all of its metrics (vllm:..., DCGM_...), else true"`
}

// DataSource is one server or API from which signals are read. Its type determines which fields are allowed.
type DataSource struct {
	Name       string   `yaml:"name" required:"true"`
	Type       string   `yaml:"type" required:"true" enum:"prometheus,redis,scrape,external"`
	Default    bool     `yaml:"default,omitempty" default:"false"`
	Namespaces []string `yaml:"namespaces,omitempty" default:"all"`
	Interval   Duration `yaml:"interval,omitempty" default:"15s"`
	Timeout    Duration `yaml:"timeout,omitempty" default:"10s, at most the interval"`
	MaxBytes   Bytes    `yaml:"maxBytes,omitempty" default:"32Mi"`
	MaxSeries  int      `yaml:"maxSeries,omitempty" default:"50000"`

	Address        string            `yaml:"address,omitempty"`
	Matchers       map[string]string `yaml:"matchers,omitempty"`
	NamespaceLabel string            `yaml:"namespaceLabel,omitempty" default:"namespace"`
	PodLabel       string            `yaml:"podLabel,omitempty" default:"pod"`
	HTTP           *HTTP             `yaml:"http,omitempty"`
	SigV4          *SigV4            `yaml:"sigv4,omitempty"`

	Username     string `yaml:"username,omitempty"`
	PasswordFile string `yaml:"passwordFile,omitempty"`
	Database     int    `yaml:"database,omitempty" default:"0"`
	TLS          *TLS   `yaml:"tls,omitempty"`

	Profile   string            `yaml:"profile,omitempty" enum:"dcgm,vllm,sglang,triton,nim,ray,tgi,trtllm,dynamo"`
	Scheme    string            `yaml:"scheme,omitempty" enum:"http,https" default:"http"`
	Port      int               `yaml:"port,omitempty" default:"the port of the profile"`
	Path      string            `yaml:"path,omitempty" default:"the path of the profile"`
	PodLabels map[string]string `yaml:"podLabels,omitempty"`
	PodsIn    string            `yaml:"podsIn,omitempty"`
}

// Group is a capacity group: NodePools of different capacity types on which the same workloads can run. In a cluster without Karpenter, it
// is the nodes with the labels of nodeSelector.
type Group struct {
	Name                 string            `yaml:"name" required:"true"`
	Resource             string            `yaml:"resource" required:"true"`
	NodePools            map[string]Names  `yaml:"nodePools,omitempty" default:"none: nodeSelector is required"`
	NodeSelector         map[string]string `yaml:"nodeSelector,omitempty" default:"none: nodePools is required"`
	MaxNodes             int64             `yaml:"maxNodes,omitempty" default:"0: not set"`
	MaxCapacity          int64             `yaml:"maxCapacity,omitempty" default:"0: not set"`
	Mode                 string            `yaml:"mode,omitempty" enum:"auto,advisory" default:"auto"`
	OnDemandBaseCapacity int64             `yaml:"onDemandBaseCapacity,omitempty" default:"0"`
	SpotWaitTimeout      Duration          `yaml:"spotWaitTimeout,omitempty" default:"0: Karpenter's own fallback"`
	Fallback             string            `yaml:"fallback,omitempty" enum:"soft,hard" default:"soft"`
	ReturnNodesPerHour   int64             `yaml:"returnNodesPerHour,omitempty" default:"30"`
	ZeroLimit            bool              `yaml:"zeroLimit,omitempty" default:"false"`
	ConsolidationFreeze  *bool             `yaml:"consolidationFreeze,omitempty" default:"true"`
	StartupShield        bool              `yaml:"startupShield,omitempty" default:"false"`
	EmptyWholeNodes      bool              `yaml:"emptyWholeNodes,omitempty" default:"false"`
	LeadTime             Duration          `yaml:"leadTime,omitempty" default:"the longest learned cold start (p95) of its objectives"`
	Buffer               bool              `yaml:"buffer,omitempty" default:"false"`
	Schedules            []GroupSchedule   `yaml:"schedules,omitempty"`
}

// GroupSchedule is a time window in which gpuscaler overrides fields of the group's NodePools.
type GroupSchedule struct {
	Name       string           `yaml:"name" required:"true"`
	Timezone   string           `yaml:"timezone" required:"true"`
	Start      string           `yaml:"start,omitempty"`
	End        string           `yaml:"end,omitempty"`
	From       string           `yaml:"from,omitempty"`
	Until      string           `yaml:"until,omitempty"`
	NodePools  []string         `yaml:"nodePools,omitempty" default:"all NodePools of the group"`
	Limits     map[string]int64 `yaml:"limits,omitempty"`
	Weight     *int32           `yaml:"weight,omitempty"`
	Disruption *Disruption      `yaml:"disruption,omitempty"`
}

// Disruption contains fields of the disruption block of a Karpenter NodePool.
type Disruption struct {
	ConsolidationPolicy string `yaml:"consolidationPolicy,omitempty" enum:"WhenEmpty,WhenEmptyOrUnderutilized,Balanced"`
	ConsolidateAfter    string `yaml:"consolidateAfter,omitempty"`
}

// Prices configures from which sources the prices of nodes are read, and sets or overrides prices.
type Prices struct {
	Source      string       `yaml:"source,omitempty" enum:"karpenter,book" default:"karpenter"`
	Region      string       `yaml:"region,omitempty"`
	Book        string       `yaml:"book,omitempty"`
	Overrides   []Price      `yaml:"overrides,omitempty"`
	Commitments []Commitment `yaml:"commitments,omitempty"`
}

// Price is the price of one instance type.
type Price struct {
	InstanceType string   `yaml:"instanceType" required:"true"`
	CapacityType string   `yaml:"capacityType" required:"true" enum:"spot,on-demand,reserved"`
	Region       string   `yaml:"region,omitempty" default:"all"`
	Hourly       *float64 `yaml:"hourly" required:"true"`
}

// Commitment is a number of instances whose price is paid even if they do not run.
type Commitment struct {
	InstanceType string   `yaml:"instanceType" required:"true"`
	Region       string   `yaml:"region,omitempty" default:"all"`
	Count        *int32   `yaml:"count" required:"true"`
	Hourly       *float64 `yaml:"hourly" required:"true"`
}
