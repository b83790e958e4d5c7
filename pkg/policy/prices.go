package policy

import (
	"cmp"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// Hourly returns the price per hour that the PlatformConfig sets for an instance type in its overrides, or 0 if it sets no price.
func (p *Platform) Hourly(instanceType, capacityType string) float64 {
	region := strings.TrimSpace(p.Prices.Region)
	for i := range p.Prices.Overrides {
		o := &p.Prices.Overrides[i]
		if o.InstanceType == instanceType && o.CapacityType == capacityType && cmp.Or(o.Region, region) == region && o.Hourly != nil {
			return *o.Hourly
		}
	}
	return 0
}

// Costs converts overrides and commitments to the types of package cost. It omits elements with missing fields, because these were reported
// as problems.
func Costs(overrides []spec.Price, commitments []spec.Commitment) (o []cost.Override, c []cost.Commitment) {
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

// Book returns a price book with the prices of base and with the overrides and commitments of the PlatformConfig. Overrides take precedence
// over prices of base.
func (p *Platform) Book(base *cost.Book) *cost.Book {
	return base.With(Costs(p.Prices.Overrides, p.Prices.Commitments))
}
