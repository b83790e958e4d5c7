package cost

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Capacity types, with the names of Karpenter.
const (
	Spot     = "spot"
	OnDemand = "on-demand"
	Reserved = "reserved"
)

// Offer is an instance type with a capacity type in a region and zone. An empty field is unknown.
type Offer struct {
	InstanceType string `json:"instanceType"`
	CapacityType string `json:"capacityType"`
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// PriceChange is the change of the price by a NodeOverlay of Karpenter: another price ("1.5"), an amount that is added or subtracted
	// ("+0.2", "-0.2"), or a percentage that is added or subtracted ("+10%", "-20%"). Empty: no change.
	PriceChange string `json:"priceChange,omitempty"`
}

// Price is the hourly price of one instance with its source. The zero Price means that the price is unknown.
type Price struct {
	Hourly float64 // price in dollars per hour, >= 0
	From   string  // source of the price
}

// Known reports whether the price is known. A known price can be 0, for example for a machine that the user owns.
func (p Price) Known() bool { return p.From != "" }

// Type is an instance type in one region.
type Type struct {
	Name, Region string
	GPUs         int                // number of whole GPUs of one instance; 0: unknown, or less than one
	Hourly       map[string]float64 // hourly price in dollars by capacity type
	From         string             // source of the prices and its date
}

// Override is a price that the platform team sets for an instance type with a capacity type. It replaces all other prices of such
// instances. An empty Region means every region.
type Override struct {
	InstanceType, CapacityType, Region string
	Hourly                             float64
}

// Commitment is a number of instances that the user pays for even while they do not run. An empty Region means every region.
type Commitment struct {
	InstanceType, Region string
	Count                int
	Hourly               float64 // hourly price of each instance in dollars
}

// Book contains the prices of offers. It is not changed after it is created. The zero Book has no prices.
type Book struct {
	types       map[[2]string]*Type // types by name and region
	gpus        map[string]int      // number of GPUs by name of the type; if it differs between regions, the highest number
	overrides   []Override
	commitments []Commitment
}

// NewBook returns a book. If two types have the same name and region, the last is used. If two overrides apply to an offer, the first is
// used.
func NewBook(types []Type, overrides []Override, commitments []Commitment) *Book {
	b := &Book{
		types: map[[2]string]*Type{}, gpus: map[string]int{},
		overrides: slices.Clone(overrides), commitments: slices.Clone(commitments),
	}
	for _, t := range types {
		b.types[[2]string{t.Name, t.Region}] = &t
		b.gpus[t.Name] = max(b.gpus[t.Name], t.GPUs)
	}
	return b
}

// Commitments returns the number of commitments.
func (b *Book) Commitments() int { return len(b.commitments) }

// With returns a copy of the book with additional overrides and commitments. The additional overrides have precedence.
func (b *Book) With(overrides []Override, commitments []Commitment) *Book {
	out := *b
	out.overrides = append(slices.Clone(overrides), b.overrides...)
	out.commitments = append(slices.Clone(commitments), b.commitments...)
	return &out
}

// GPUs returns the number of GPUs of an instance type, or 0 if it is unknown.
func (b *Book) GPUs(instanceType string) int { return b.gpus[instanceType] }

// Price returns the price of an instance without a commitment. Three sources are used in this order: the override, the observed price
// (Karpenter's metric, which contains the prices of the account), and the price of the type in the same region. Prices of other regions
// are not used. The PriceChange of the offer applies to all prices except an override.
func (b *Book) Price(o Offer, observed Price) Price {
	for _, v := range b.overrides {
		if v.InstanceType == o.InstanceType && v.CapacityType == o.CapacityType && (v.Region == "" || v.Region == o.Region) {
			return checked(v.Hourly, "override")
		}
	}
	return b.unchanged(o, observed).with(o.PriceChange)
}

// unchanged returns the price of an offer without overrides and without its PriceChange.
func (b *Book) unchanged(o Offer, observed Price) Price {
	// Karpenter reports 0 if its provider has no price, so an observed price of 0 means that the price is unknown.
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

// with returns the price after a change (see Offer.PriceChange). An invalid change has no effect. A relative change of an unknown price has
// no effect either.
func (p Price) with(change string) Price {
	number, share := strings.CutSuffix(change, "%")
	n, err := strconv.ParseFloat(number, 64)
	difference := strings.HasPrefix(change, "+") || strings.HasPrefix(change, "-")
	changed := Price{}
	switch {
	case err != nil, difference && !p.Known(), share && !difference:
		return p
	case !difference:
		changed = checked(n, "NodeOverlay")
	case share:
		changed = checked(max(p.Hourly+float64(p.Hourly*(n/100)), 0), p.From+", NodeOverlay")
	default:
		changed = checked(max(p.Hourly+n, 0), p.From+", NodeOverlay")
	}
	if !changed.Known() {
		return p
	}
	return changed
}

// checked returns the price, or the unknown price if the number is NaN, infinite or negative.
func checked(hourly float64, from string) Price {
	if !(hourly >= 0) || math.IsInf(hourly, 0) || from == "" {
		return Price{}
	}
	return Price{Hourly: hourly, From: from}
}
