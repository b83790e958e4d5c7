package spec

// PlatformSpec is the spec of the PlatformConfig: what the platform team decides for everybody. There is one in a cluster.
type Platform struct {
	Cluster        string       `yaml:"cluster,omitempty" doc:"the cluster's name: an annotation of every Event, a label of the cost metrics, and in explanations, pages and reports" default:"metadata.name"`
	Mode           string       `yaml:"mode,omitempty" enum:"auto,advisory,hold" doc:"auto acts; advisory decides and explains only; hold answers 503 on every metric, so every HPA stays where it is" default:"auto"`
	Bounds         *Bounds      `yaml:"bounds,omitempty" doc:"bounds of every policy; they win over trigger metadata, annotations and files"`
	DataSources    []DataSource `yaml:"dataSources,omitempty" doc:"where readings come from; policies name them and never give an address"`
	Exporters      []Exporter   `yaml:"exporters,omitempty" doc:"pods whose metrics name other pods by label; the labels of all other pods are not trusted" default:"the DCGM exporter in gpu-operator, Kueue in kueue-system, Karpenter in karpenter and kube-system, kube-state-metrics in monitoring, kube-state-metrics and kube-system"`
	Queries        []Query      `yaml:"queries,omitempty" doc:"PromQL that one batched request answers for all workloads"`
	Defaults       *Defaults    `yaml:"defaults,omitempty" doc:"what a policy has where it says nothing"`
	Teams          []Team       `yaml:"teams,omitempty" doc:"who may use what"`
	CapacityGroups []Group      `yaml:"capacityGroups,omitempty" doc:"NodePools that serve workloads together"`
	Prices         *Prices      `yaml:"prices,omitempty" doc:"what a node costs"`
}

// BoundsSpec narrows a policy's own bounds; it never widens them.
type Bounds struct {
	MinReplicas *int32 `yaml:"minReplicas,omitempty" doc:"no policy goes below"`
	MaxReplicas *int32 `yaml:"maxReplicas,omitempty" doc:"no policy goes above"`
}

// DefaultsSpec fills what a policy leaves out.
type Defaults struct {
	CooldownPeriod *Duration `yaml:"cooldownPeriod,omitempty" doc:"see a policy's" default:"5m"`
	MaxAge         Duration  `yaml:"maxAge,omitempty" doc:"see a signal's" default:"2m"`
	MinCoverage    *Percent  `yaml:"minCoverage,omitempty" doc:"see a signal's" default:"80%"`
	Behavior       *Behavior `yaml:"behavior,omitempty" doc:"see a policy's"`
	Fallback       *Fallback `yaml:"fallback,omitempty" doc:"see a policy's"`
	Activate       *bool     `yaml:"activate,omitempty" doc:"see a policy's" default:"false"`
}

// TeamSpec says who may use what. A namespace belongs to one team at most.
type Team struct {
	Name           string           `yaml:"name" required:"true" doc:"a short name"`
	Namespaces     []string         `yaml:"namespaces" required:"true" doc:"the team's namespaces"`
	CapacityGroups []string         `yaml:"capacityGroups,omitempty" doc:"groups that its policies may name"`
	ClusterQueues  []string         `yaml:"clusterQueues,omitempty" doc:"Kueue ClusterQueues whose backlog its policies may read; where there are teams, nobody else may"`
	Limits         map[string]int64 `yaml:"limits,omitempty" doc:"most of each extended resource (nvidia.com/gpu: 32) that all its workloads may request together: the sum of target x request per replica never exceeds it, and a lowered limit takes effect at once, below minReplicas if necessary. Minimums are kept first, then running replicas, then raises, by dominant share. Pods without a policy and replicas that still end stop raises only"`
	Bounds         *Bounds          `yaml:"bounds,omitempty" doc:"bounds of each of its policies"`
}

// ExporterSpec names pods that report about other pods. Prometheus stores what such a pod's page says of other pods in exported_namespace
// and exported_pod; every scraped pod can write these labels, so they count only where they come from a declared pod.
type Exporter struct {
	Type      string            `yaml:"type" required:"true" enum:"dcgm,kueue,karpenter,kube-state-metrics,vllm,sglang,triton,nim,ray,tgi" doc:"whose metrics it serves; an entry replaces the default of its type"`
	Namespace string            `yaml:"namespace" required:"true" doc:"the namespace of the exporter's pods; not one of a team"`
	PodLabels map[string]string `yaml:"podLabels,omitempty" doc:"labels of the exporter's pods; not for kueue, karpenter and kube-state-metrics, whose whole namespace counts" default:"dcgm: app=nvidia-dcgm-exporter or app.kubernetes.io/name=dcgm-exporter; other types require it"`
}

// QuerySpec is PromQL whose answer has one series per workload.
type Query struct {
	Name           string `yaml:"name" required:"true" doc:"the name that policies give as queryRef"`
	Source         string `yaml:"source,omitempty" doc:"a prometheus data source" default:"the default one"`
	Query          string `yaml:"query" required:"true" doc:"PromQL whose series carry the namespace and the workloadLabel"`
	WorkloadLabel  string `yaml:"workloadLabel" required:"true" doc:"the label that names the workload"`
	NamespaceLabel string `yaml:"namespaceLabel,omitempty" doc:"the label that names its namespace" default:"namespace"`
	ExistsAtZero   *bool  `yaml:"existsAtZero,omitempty" doc:"whether the series exist while a workload has no pods" default:"no where every metric in it comes from pods (vllm:..., DCGM_...), else yes"`
}

// DataSourceSpec is one place to read from. Which fields may be written depends on the type.
type DataSource struct {
	Name       string   `yaml:"name" required:"true" doc:"the name that policies give as source"`
	Type       string   `yaml:"type" required:"true" enum:"prometheus,redis,scrape,external" doc:"prometheus server, redis server, pods' own /metrics, or the cluster's external metrics API"`
	Default    bool     `yaml:"default,omitempty" doc:"the one of its type that is meant where a policy names none" default:"false"`
	Namespaces []string `yaml:"namespaces,omitempty" doc:"namespaces whose policies may name it" default:"all"`
	Interval   Duration `yaml:"interval,omitempty" doc:"time between two polls" default:"15s"`
	Timeout    Duration `yaml:"timeout,omitempty" doc:"time after which a poll has failed" default:"10s, at most the interval"`
	MaxBytes   Bytes    `yaml:"maxBytes,omitempty" doc:"prometheus, redis, scrape: an answer cut at this size counts as missing" default:"32Mi"`
	MaxSeries  int      `yaml:"maxSeries,omitempty" doc:"prometheus: an answer with more series counts as missing" default:"50000"`

	Address        string            `yaml:"address,omitempty" doc:"prometheus: http(s)://host:port/path. redis: host:port"`
	Matchers       map[string]string `yaml:"matchers,omitempty" doc:"prometheus: label values put into every query"`
	NamespaceLabel string            `yaml:"namespaceLabel,omitempty" doc:"prometheus: the label that names a series' namespace" default:"namespace"`
	PodLabel       string            `yaml:"podLabel,omitempty" doc:"prometheus: the label in which a scrape stores the name of the scraped pod; namespaceLabel stores its namespace" default:"pod"`
	HTTP           *HTTP             `yaml:"http,omitempty" doc:"prometheus, scrape: Prometheus' own HTTP client configuration; secrets come as files"`
	SigV4          *SigV4            `yaml:"sigv4,omitempty" doc:"prometheus: sign requests for Amazon Managed Prometheus"`

	Username     string `yaml:"username,omitempty" doc:"redis"`
	PasswordFile string `yaml:"passwordFile,omitempty" doc:"redis: a mounted file that holds the password"`
	Database     int    `yaml:"database,omitempty" doc:"redis: number of the database" default:"0"`
	TLS          *TLS   `yaml:"tls,omitempty" doc:"redis: speak TLS"`

	Profile   string            `yaml:"profile,omitempty" enum:"dcgm,vllm,sglang,triton,nim,ray,tgi" doc:"scrape: whose metrics these are" `
	Scheme    string            `yaml:"scheme,omitempty" enum:"http,https" doc:"scrape" default:"http"`
	Port      int               `yaml:"port,omitempty" doc:"scrape: port of /metrics" default:"the profile's own"`
	Path      string            `yaml:"path,omitempty" doc:"scrape" default:"/metrics"`
	PodLabels map[string]string `yaml:"podLabels,omitempty" doc:"scrape: labels of the pods that serve the metrics, where those are not the workload's own (dcgm-exporter)"`
	PodsIn    string            `yaml:"podsIn,omitempty" doc:"scrape: the namespace of those pods"`
}

// GroupSpec is a capacity group: NodePools that stand for one another.
type Group struct {
	Name                 string            `yaml:"name" required:"true" doc:"the name that policies give as capacityGroup"`
	Resource             string            `yaml:"resource" required:"true" doc:"what is counted: nvidia.com/gpu, nvidia.com/mig-1g.10gb, amd.com/gpu"`
	NodePools            map[string]string `yaml:"nodePools" required:"true" doc:"NodePool by karpenter.sh/capacity-type: spot, on-demand, reserved"`
	Mode                 string            `yaml:"mode,omitempty" enum:"auto,advisory" doc:"advisory reports what it would do to the nodes" default:"auto"`
	OnDemandBaseCapacity int64             `yaml:"onDemandBaseCapacity,omitempty" doc:"so much of the resource is on demand before any spot" default:"0"`
	SpotWaitTimeout      Duration          `yaml:"spotWaitTimeout,omitempty" doc:"wait this long for spot before on-demand may grow; above 0 needs the on-demand pool's limits handed over" default:"0, Karpenter's own fallback"`
	Fallback             string            `yaml:"fallback,omitempty" enum:"soft,hard" doc:"soft swaps weights; hard also limits the spot pool" default:"soft"`
	ReturnNodesPerHour   int64             `yaml:"returnNodesPerHour,omitempty" doc:"pace of the way back to spot" default:"30"`
	ZeroLimit            bool              `yaml:"zeroLimit,omitempty" doc:"set the limit of the NodePools to 0 while no pod and no policy needs the resource" default:"false"`
	ConsolidationFreeze  *bool             `yaml:"consolidationFreeze,omitempty" doc:"stop Karpenter's consolidation while demand is at its peak and before a known increase" default:"true"`
	StartupShield        bool              `yaml:"startupShield,omitempty" doc:"keep pods that still load from being disrupted" default:"false"`
	EmptyWholeNodes      bool              `yaml:"emptyWholeNodes,omitempty" doc:"let scale-in pick the pods that free whole nodes" default:"false"`
	LeadTime             Duration          `yaml:"leadTime,omitempty" doc:"time from an empty pool to a ready replica: floors are raised so much early, and consolidation is held" default:"0"`
	Buffer               bool              `yaml:"buffer,omitempty" doc:"from leadTime before a floor on, hold its nodes with a CapacityBuffer where the cluster serves one; a schedule with a shorter leadTime of its own then raises its replicas onto nodes that stand" default:"false"`
	Schedules            []GroupSchedule   `yaml:"schedules,omitempty" doc:"limits, weight and disruption in windows of time"`
}

// GroupScheduleSpec is a window of time in which fields of the group's NodePools differ.
type GroupSchedule struct {
	Name       string           `yaml:"name" required:"true" doc:"a short name"`
	Timezone   string           `yaml:"timezone" required:"true" doc:"an IANA zone"`
	Start      string           `yaml:"start,omitempty" doc:"five cron fields"`
	End        string           `yaml:"end,omitempty" doc:"five cron fields"`
	From       string           `yaml:"from,omitempty" doc:"not before this day or moment"`
	Until      string           `yaml:"until,omitempty" doc:"not after this day or moment"`
	NodePools  []string         `yaml:"nodePools,omitempty" doc:"the capacity types it applies to" default:"all of the group"`
	Limits     map[string]int64 `yaml:"limits,omitempty" doc:"the pools' limits meanwhile"`
	Weight     *int32           `yaml:"weight,omitempty" doc:"the pools' weight meanwhile, 1 to 100"`
	Disruption *Disruption      `yaml:"disruption,omitempty" doc:"the pools' disruption meanwhile"`
}

// DisruptionSpec holds Karpenter's words.
type Disruption struct {
	ConsolidationPolicy string `yaml:"consolidationPolicy,omitempty" enum:"WhenEmpty,WhenEmptyOrUnderutilized,Balanced" doc:"as in a NodePool"`
	ConsolidateAfter    string `yaml:"consolidateAfter,omitempty" doc:"a duration, or Never"`
}

// PricesSpec says what nodes cost.
type Prices struct {
	Source      string       `yaml:"source,omitempty" enum:"karpenter,book" doc:"Karpenter's own offering metric, or the price book" default:"karpenter"`
	Region      string       `yaml:"region,omitempty" doc:"region of the price book"`
	Book        string       `yaml:"book,omitempty" doc:"a mounted price book (kind PriceBook) instead of the built-in one"`
	Overrides   []Price      `yaml:"overrides,omitempty" doc:"prices that you know better"`
	Commitments []Commitment `yaml:"commitments,omitempty" doc:"capacity that is paid for whether used or not"`
}

// PriceSpec is one price.
type Price struct {
	InstanceType string   `yaml:"instanceType" required:"true" doc:"p5.48xlarge"`
	CapacityType string   `yaml:"capacityType" required:"true" enum:"spot,on-demand,reserved" doc:"capacity type"`
	Region       string   `yaml:"region,omitempty" doc:"region" default:"all"`
	Hourly       *float64 `yaml:"hourly" required:"true" doc:"price of one instance for an hour"`
}

// CommitmentSpec is a number of instances already paid for.
type Commitment struct {
	InstanceType string   `yaml:"instanceType" required:"true" doc:"p5.48xlarge"`
	Region       string   `yaml:"region,omitempty" doc:"region" default:"all"`
	Count        *int32   `yaml:"count" required:"true" doc:"how many"`
	Hourly       *float64 `yaml:"hourly" required:"true" doc:"what each costs an hour"`
}
