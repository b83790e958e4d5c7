package pricebook_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy/pricebook"
)

func ExampleRead() {
	book, problems := pricebook.Read("prices.yaml", []byte(`apiVersion: gpuscaler.io/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  regions:
  - name: us-east-1
    source: invoice
    asOf: "2026-07-20"
    instanceTypes:
    - {name: p5.48xlarge, gpus: 8, on-demand: 55.04}
`))
	price := book.Price(cost.Offer{InstanceType: "p5.48xlarge", CapacityType: cost.OnDemand, Region: "us-east-1"}, cost.Price{})
	fmt.Println(price.Hourly, price.From, len(problems))
	// Output: 55.04 invoice, 2026-07-20 0
}
