package spec

// KindPriceBook is the kind of a price book, which users write in a separate file.
const KindPriceBook = "PriceBook"

// PriceBook contains prices of instance types for clusters in which Karpenter does not export prices. All prices are in US dollars per hour
// and instance.
type PriceBook struct {
	Regions     []RegionPrices `yaml:"regions" required:"true"`
	Overrides   []Price        `yaml:"overrides,omitempty"`
	Commitments []Commitment   `yaml:"commitments,omitempty"`
}

// RegionPrices lists the prices of one region.
type RegionPrices struct {
	Name          string          `yaml:"name" required:"true"`
	Source        string          `yaml:"source" required:"true"`
	AsOf          string          `yaml:"asOf" required:"true"`
	InstanceTypes []InstancePrice `yaml:"instanceTypes" required:"true"`
}

// InstancePrice contains the prices of one instance type. If a capacity type has no price, its price is unknown.
type InstancePrice struct {
	Name     string   `yaml:"name" required:"true"`
	GPUs     *int32   `yaml:"gpus" required:"true"`
	OnDemand *float64 `yaml:"on-demand,omitempty"`
	Spot     *float64 `yaml:"spot,omitempty"`
	Reserved *float64 `yaml:"reserved,omitempty"`
}

// PriceBookDocument is a document of kind PriceBook: its header and its spec.
type PriceBookDocument struct {
	APIVersion string    `yaml:"apiVersion" required:"true"`
	Kind       string    `yaml:"kind" required:"true"`
	Metadata   Metadata  `yaml:"metadata" required:"true"`
	Spec       PriceBook `yaml:"spec" required:"true"`
}
