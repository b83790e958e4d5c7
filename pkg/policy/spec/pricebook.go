package spec

// KindPriceBook is the kind of a price book. It stands in a file of its own: no workload is decided by it.
const KindPriceBook = "PriceBook"

// PriceBookSpec says what instance types cost where Karpenter does not say it. All prices are in dollars for an hour of an instance.
type PriceBook struct {
	Regions     []RegionPrices `yaml:"regions" required:"true" doc:"prices by region; a region that is not listed has no price"`
	Overrides   []Price        `yaml:"overrides,omitempty" doc:"prices that you know better"`
	Commitments []Commitment   `yaml:"commitments,omitempty" doc:"capacity that is paid for whether used or not"`
}

// RegionPricesSpec is the list of one region.
type RegionPrices struct {
	Name          string          `yaml:"name" required:"true" doc:"region, as in topology.kubernetes.io/region"`
	Source        string          `yaml:"source" required:"true" doc:"where the prices were read"`
	AsOf          string          `yaml:"asOf" required:"true" doc:"the day on which they held, 2026-07-20"`
	InstanceTypes []InstancePrice `yaml:"instanceTypes" required:"true" doc:"the instance types"`
}

// InstancePriceSpec is one instance type. A capacity type without a price has none: it is reported as unknown.
type InstancePrice struct {
	Name     string   `yaml:"name" required:"true" doc:"p5.48xlarge"`
	GPUs     *int32   `yaml:"gpus" required:"true" doc:"how many GPUs an instance has"`
	OnDemand *float64 `yaml:"on-demand,omitempty" doc:"price of one instance for an hour"`
	Spot     *float64 `yaml:"spot,omitempty" doc:"price of one instance for an hour"`
	Reserved *float64 `yaml:"reserved,omitempty" doc:"price of one instance for an hour"`
}

type PriceBookDocument struct {
	APIVersion string    `yaml:"apiVersion" required:"true" doc:"gpuscaler.io/v1alpha1"`
	Kind       string    `yaml:"kind" required:"true" doc:"PriceBook"`
	Metadata   Metadata  `yaml:"metadata" required:"true" doc:"name"`
	Spec       PriceBook `yaml:"spec" required:"true" doc:"the prices"`
}
