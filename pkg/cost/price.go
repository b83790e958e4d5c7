package cost

import (
	"cmp"
	"math"
	"slices"
)

// The capacity types, as Karpenter names them.
const (
	Spot     = "spot"
	OnDemand = "on-demand"
	Reserved = "reserved"
)

// Offer is what is rented: an instance type at a place, under terms. An empty field is unknown.
type Offer struct {
	InstanceType string `json:"instanceType"`
	CapacityType string `json:"capacityType"`
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
}

// Price is what one instance costs for an hour, and who says so. The zero Price is unknown.
type Price struct {
	Hourly float64 // >= 0
	From   string
}

// Known tells whether anybody named the price. A known price of 0 is a machine that is paid for already.
func (p Price) Known() bool { return p.From != "" }

// Type is an instance type in one region.
type Type struct {
	Name, Region string
	GPUs         int                // whole GPUs of one instance; 0: unknown, or less than one
	Hourly       map[string]float64 // by capacity type
	From         string             // who says so, and of which day
}

// Override is a price that the platform team knows better. An empty Region is all of them.
type Override struct {
	InstanceType, CapacityType, Region string
	Hourly                             float64
}

// Commitment is a number of instances that are paid for whether they run or not. An empty Region is all of them.
type Commitment struct {
	InstanceType, Region string
	Count                int
	Hourly               float64 // of each
}

// Book answers what an offer costs. The zero Book knows nothing. It is immutable.
type Book struct {
	types       map[[2]string]*Type // by name and region
	gpus        map[string]int      // by name, whichever the region
	overrides   []Override
	commitments []Commitment
}

// NewBook makes a book; of two types of one name and region the later counts, of two overrides for one offer the first.
func NewBook(types []Type, overrides []Override, commitments []Commitment) *Book {
	b := &Book{types: map[[2]string]*Type{}, gpus: map[string]int{}, overrides: slices.Clone(overrides), commitments: slices.Clone(commitments)}
	for _, t := range types {
		b.types[[2]string{t.Name, t.Region}] = &t
		b.gpus[t.Name] = max(b.gpus[t.Name], t.GPUs)
	}
	return b
}

// With returns the book with these overrides before its own, and these commitments beside its own.
func (b *Book) With(overrides []Override, commitments []Commitment) *Book {
	out := *b
	out.overrides = append(slices.Clone(overrides), b.overrides...)
	out.commitments = append(slices.Clone(commitments), b.commitments...)
	return &out
}

// GPUs returns how many GPUs an instance of the type has; 0 where the book does not know.
func (b *Book) GPUs(instanceType string) int { return b.gpus[instanceType] }

// Price returns what an instance costs, unless a commitment pays for it: the platform team's override, else what was observed (by
// Karpenter, which knows the account's own prices), else the book of the same region. Another region's price is another price: an
// offer of a region that nobody listed is unknown.
func (b *Book) Price(o Offer, observed Price) Price {
	for _, v := range b.overrides {
		if v.InstanceType == o.InstanceType && v.CapacityType == o.CapacityType && (v.Region == "" || v.Region == o.Region) {
			return checked(v.Hourly, "override")
		}
	}
	// Karpenter writes 0 where its provider knows no price.
	if p := checked(observed.Hourly, observed.From); p.Known() && p.Hourly > 0 {
		return p
	}
	if t := b.types[[2]string{o.InstanceType, o.Region}]; t != nil {
		if hourly, ok := t.Hourly[o.CapacityType]; ok {
			return checked(hourly, cmp.Or(t.From, "price book"))
		}
	}
	return Price{}
}

// checked is the price, or unknown where the number is none: NaN, an infinity, or below 0.
func checked(hourly float64, from string) Price {
	if !(hourly >= 0) || math.IsInf(hourly, 0) || from == "" {
		return Price{}
	}
	return Price{Hourly: hourly, From: from}
}
