package policy

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// KindPriceBook is the kind of a price book. It stands in a file of its own: no workload is decided by it.
const KindPriceBook = "PriceBook"

// PriceBookSpec says what instance types cost where Karpenter does not say it. All prices are in dollars for an hour of an instance.
type PriceBookSpec struct {
	Regions     []RegionPricesSpec `yaml:"regions" required:"true" doc:"prices by region; a region that is not listed has no price"`
	Overrides   []PriceSpec        `yaml:"overrides,omitempty" doc:"prices that you know better"`
	Commitments []CommitmentSpec   `yaml:"commitments,omitempty" doc:"capacity that is paid for whether used or not"`
}

// RegionPricesSpec is the list of one region.
type RegionPricesSpec struct {
	Name          string              `yaml:"name" required:"true" doc:"region, as in topology.kubernetes.io/region"`
	Source        string              `yaml:"source" required:"true" doc:"where the prices were read"`
	AsOf          string              `yaml:"asOf" required:"true" doc:"the day on which they held, 2026-07-20"`
	InstanceTypes []InstancePriceSpec `yaml:"instanceTypes" required:"true" doc:"the instance types"`
}

// InstancePriceSpec is one instance type. A capacity type without a price has none: it is reported as unknown.
type InstancePriceSpec struct {
	Name     string   `yaml:"name" required:"true" doc:"p5.48xlarge"`
	GPUs     *int32   `yaml:"gpus" required:"true" doc:"how many GPUs an instance has"`
	OnDemand *float64 `yaml:"on-demand,omitempty" doc:"price of one instance for an hour"`
	Spot     *float64 `yaml:"spot,omitempty" doc:"price of one instance for an hour"`
	Reserved *float64 `yaml:"reserved,omitempty" doc:"price of one instance for an hour"`
}

type priceBookDocument struct {
	APIVersion string        `yaml:"apiVersion" required:"true" doc:"gpuscaler.io/v1alpha1"`
	Kind       string        `yaml:"kind" required:"true" doc:"PriceBook"`
	Metadata   metadata      `yaml:"metadata" required:"true" doc:"name"`
	Spec       PriceBookSpec `yaml:"spec" required:"true" doc:"the prices"`
}

// PriceBook reads a price book as strictly as a policy: one document of kind PriceBook, each problem with its line and field. The book
// is nil where a problem is more than a warning.
func PriceBook(file string, text []byte) (*cost.Book, []Problem) {
	whole := newDocument(file, part{text: text})
	book := whole.priceBook()
	sortProblems(whole.problems)
	if whole.failed() {
		return nil, whole.problems
	}
	return book, whole.problems
}

// isPriceBook tells a price book from policies by its first document's kind.
func isPriceBook(text []byte) (is bool) {
	defer newDocument("", part{text: text}).survive(&is) // PriceBook tells what is wrong with it
	for _, p := range split(text) {
		d := newDocument("", p)
		if !d.parse() {
			continue
		}
		n, exact := locate(d.root, (*yamlPath)(nil).key("kind"))
		return exact && n.Value == KindPriceBook
	}
	return false
}

// priceBook reads the one document of a file; all problems end up with the file.
func (d *document) priceBook() (book *cost.Book) {
	done := false
	defer d.survive(&done)
	var only *document
	for _, p := range split(d.text) {
		next := newDocument(d.file, p)
		if !next.parse() {
			continue
		}
		if only != nil {
			d.problems = append(d.problems, Problem{File: d.file, Line: next.above + 1, Message: "another document begins here", Allowed: "one " + KindPriceBook + " in a file"})
			break
		}
		only = next
	}
	if only == nil {
		d.problems = append(d.problems, Problem{File: d.file, Message: "holds no document", Allowed: "a " + KindPriceBook})
		return nil
	}
	defer func() { d.problems = append(d.problems, only.problems...) }()
	if only.root == nil {
		return nil
	}
	var all priceBookDocument
	only.decode(&all)
	root := (*yamlPath)(nil)
	if all.Kind != KindPriceBook && all.Kind != "" {
		only.bad(root.key("kind"), "is not a price book", KindPriceBook)
	}
	if all.APIVersion != APIVersion && all.APIVersion != "" {
		only.bad(root.key("apiVersion"), "is not a version of ours", APIVersion)
	}
	return only.book(&all.Spec)
}

func (d *document) book(spec *PriceBookSpec) *cost.Book {
	var types []cost.Type
	seen := map[[2]string]bool{}
	for i := range spec.Regions {
		r, at := &spec.Regions[i], specPath.key("regions").at(i)
		if _, err := time.Parse(time.DateOnly, r.AsOf); err != nil && r.AsOf != "" {
			d.bad(at.key("asOf"), "is not a day", "2026-07-20")
		}
		from := fmt.Sprintf("%s, %s", r.Source, r.AsOf)
		for j := range r.InstanceTypes {
			t, at := &r.InstanceTypes[j], at.key("instanceTypes").at(j)
			if key := [2]string{t.Name, r.Name}; seen[key] {
				d.bad(at, "this instance type is listed twice in its region", "once")
			} else {
				seen[key] = true
			}
			types = append(types, d.instanceType(t, cost.Type{Name: t.Name, Region: r.Name, From: from}, at))
		}
	}
	overrides, commitments := costsOf(spec.Overrides, spec.Commitments)
	d.uniquePrices(spec.Overrides, specPath.key("overrides"))
	return cost.NewBook(types, overrides, commitments)
}

func (d *document) instanceType(t *InstancePriceSpec, out cost.Type, at *yamlPath) cost.Type {
	out.Hourly = map[string]float64{}
	for kind, hourly := range map[string]*float64{cost.OnDemand: t.OnDemand, cost.Spot: t.Spot, cost.Reserved: t.Reserved} {
		if hourly == nil {
			continue
		}
		if *hourly == 0 {
			// Nobody rents for nothing: a price that is not known is left out, and one's own machine is an override.
			d.bad(at.key(kind), "a listed price of 0 is not known", "leave it out, or use spec.overrides for a machine that costs nothing")
		}
		out.Hourly[kind] = *hourly
	}
	if len(out.Hourly) == 0 && t.Name != "" {
		d.bad(at, "has no price", "on-demand, spot or reserved")
	}
	if t.GPUs != nil {
		out.GPUs = int(*t.GPUs)
	}
	return out
}

// uniquePrices finds the same price given twice.
func (f *findings) uniquePrices(overrides []PriceSpec, p *yamlPath) {
	type price struct{ kind, capacity, region string }
	seen := map[price]bool{}
	for i, o := range overrides {
		if k := (price{o.InstanceType, o.CapacityType, o.Region}); seen[k] {
			f.bad(p.at(i), "this price is given twice", "one price for an instance type, capacity type and region")
		} else {
			seen[k] = true
		}
	}
}

func costsOf(overrides []PriceSpec, commitments []CommitmentSpec) (o []cost.Override, c []cost.Commitment) {
	for _, v := range overrides {
		if v.Hourly != nil {
			o = append(o, cost.Override{InstanceType: v.InstanceType, CapacityType: v.CapacityType, Region: v.Region, Hourly: *v.Hourly})
		}
	}
	for _, v := range commitments {
		if v.Hourly != nil && v.Count != nil {
			c = append(c, cost.Commitment{InstanceType: v.InstanceType, Region: v.Region, Count: int(*v.Count), Hourly: *v.Hourly})
		}
	}
	return o, c
}

// Book returns the book with what the PlatformConfig says of prices put before it.
func (p *Platform) Book(base *cost.Book) *cost.Book {
	return base.With(costsOf(p.Prices.Overrides, p.Prices.Commitments))
}
