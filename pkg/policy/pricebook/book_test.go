package pricebook

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

const wellBook = `apiVersion: gpuscaler.io/v1alpha1
kind: PriceBook
metadata: {name: ours}
spec:
  regions:
  - name: us-east-1
    source: invoice
    asOf: "2026-07-20"
    instanceTypes:
    - {name: p5.48xlarge, gpus: 8, on-demand: 55.04, spot: 26}
  overrides:
  - {instanceType: g5.xlarge, capacityType: on-demand, hourly: 0}
  commitments:
  - {instanceType: p5.48xlarge, count: 2, hourly: 30}
`

func TestAPriceBookIsDecoded(t *testing.T) {
	book, problems := Read("prices.yaml", []byte(wellBook))
	if len(problems) > 0 {
		t.Fatal(policy.Render(problems))
	}
	for offer, want := range map[cost.Offer]cost.Price{
		{InstanceType: "p5.48xlarge", CapacityType: "on-demand", Region: "us-east-1"}: {Hourly: 55.04, From: "invoice, 2026-07-20"},
		{InstanceType: "p5.48xlarge", CapacityType: "spot", Region: "us-east-1"}:      {Hourly: 26, From: "invoice, 2026-07-20"},
		{InstanceType: "p5.48xlarge", CapacityType: "reserved", Region: "us-east-1"}:  {},
		{InstanceType: "p5.48xlarge", CapacityType: "spot", Region: "eu-west-1"}:      {},
		{InstanceType: "g5.xlarge", CapacityType: "on-demand", Region: "anywhere"}:    {Hourly: 0, From: "override"},
	} {
		if got := book.Price(offer, cost.Price{}); got != want {
			t.Errorf("%+v costs %+v, want %+v", offer, got, want)
		}
	}
	if book.GPUs("p5.48xlarge") != 8 {
		t.Error("the number of GPUs is lost")
	}
}

func TestTheBuiltInPriceBookIsValid(t *testing.T) {
	text, err := os.ReadFile("../../../config/prices.yaml")
	if err != nil {
		t.Fatal(err)
	}
	book, problems := Read("config/prices.yaml", text)
	if len(problems) > 0 {
		t.Fatal(policy.Render(problems))
	}
	got := book.Price(cost.Offer{InstanceType: "g6e.12xlarge", CapacityType: cost.OnDemand, Region: "us-east-1"}, cost.Price{})
	if got.Hourly != 10.493 || !strings.Contains(got.From, "2026-07-20") || book.GPUs("g6e.12xlarge") != 4 {
		t.Errorf("%+v", got)
	}
}

func TestEachMistakeInAPriceBookIsReportedWithItsPlace(t *testing.T) {
	for _, c := range []struct{ name, old, wrong, want string }{
		{"a field that is none", "gpus: 8,", "gpu_count: 8,",
			"prices.yaml:10:27: spec.regions[0].instanceTypes[0].gpu_count: there is no such field"},
		{"a price in words", "on-demand: 55.04", "on-demand: $55",
			"prices.yaml:10:47: spec.regions[0].instanceTypes[0].on-demand: is not a valid value"},
		{"a negative price", "on-demand: 55.04", "on-demand: -1", "on-demand: is not a valid value"},
		{"infinity", "on-demand: 55.04", "on-demand: .inf", "on-demand: is not a valid value"},
		{"a price of 0", "on-demand: 55.04", "on-demand: 0", "a price of 0 means that it is unknown"},
		{"no price", ", on-demand: 55.04, spot: 26", "", "spec.regions[0].instanceTypes[0]: has no price"},
		{"no GPUs", "gpus: 8, ", "", "spec.regions[0].instanceTypes[0].gpus: is missing"},
		{"twice in a region", "    - {name: p5", "    - {name: p5.48xlarge, gpus: 8, spot: 1}\n    - {name: p5", "is listed twice"},
		{"no day", `"2026-07-20"`, `"last summer"`, "prices.yaml:8:11: spec.regions[0].asOf: is not a day"},
		{"another kind", "kind: PriceBook", "kind: Prices", "prices.yaml:2:7: kind: is not a price book"},
		{"another version", "v1alpha1", "v9", "apiVersion: is not a supported version"},
		{"a capacity type that is none", "capacityType: on-demand", "capacityType: ondemand", `did you mean "on-demand"?`},
		{"an override twice", "  commitments:", "  - {instanceType: g5.xlarge, capacityType: on-demand, hourly: 1}\n  commitments:",
			"this price is set twice"},
		{"two documents", "  commitments:", "---\nkind: PriceBook\n---\n  commitments:", "prices.yaml:13: another document begins here"},
		{"no YAML", "metadata: {", "metadata: {{", "is not YAML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(wellBook, c.old) {
				t.Fatalf("%q is not in the book", c.old)
			}
			book, problems := Read("prices.yaml", []byte(strings.Replace(wellBook, c.old, c.wrong, 1)))
			if text := policy.Render(problems); book != nil || !strings.Contains(text, c.want) {
				t.Errorf("book %v, problems:\n%swant %q", book != nil, text, c.want)
			}
		})
	}
	if _, problems := Read("prices.yaml", []byte("# nothing\n---\n")); len(problems) != 1 ||
		!strings.Contains(problems[0].String(), "contains no document") {
		t.Errorf("an empty file: %v", problems)
	}
}

func TestPricesOfThePlatformTakePrecedence(t *testing.T) {
	hourly := 36.9
	p := &policy.Platform{Prices: spec.Prices{Overrides: []spec.Price{{InstanceType: "p5.48xlarge", CapacityType: "on-demand",
		Hourly: &hourly}}}}
	book, _ := Read("prices.yaml", []byte(wellBook))
	got := p.Book(book).Price(cost.Offer{InstanceType: "p5.48xlarge", CapacityType: cost.OnDemand, Region: "us-east-1"},
		cost.Price{Hourly: 1, From: "karpenter"})
	if got != (cost.Price{Hourly: 36.9, From: "override"}) {
		t.Errorf("%+v", got)
	}
}

// FuzzPriceBook checks that Read never panics, never returns both a book and an error, and returns no negative price.
func FuzzPriceBook(f *testing.F) {
	f.Add([]byte(wellBook))
	f.Add([]byte("a: &a [*a]\n---\nkind: PriceBook"))
	f.Add([]byte(strings.Replace(wellBook, "55.04", "1e308", 1)))
	f.Add([]byte(strings.Replace(wellBook, "spot: 26", "spot: &x 1e-308, reserved: *x", 1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		book, problems := Read("prices.yaml", text)
		if (book == nil) != (policy.Errors(problems) > 0) {
			t.Fatalf("book %v, problems %v", book != nil, problems)
		}
		for _, p := range problems {
			if p.File != "prices.yaml" || p.Message == "" || strings.Contains(p.Message, decode.InternalError) {
				t.Fatalf("%+v", p)
			}
		}
		if book == nil {
			return
		}
		for _, kind := range []string{cost.OnDemand, cost.Spot, cost.Reserved} {
			if p := book.Price(cost.Offer{InstanceType: "p5.48xlarge", CapacityType: kind, Region: "us-east-1"}, cost.Price{}); p.Known() &&
				!(p.Hourly >= 0) {
				t.Fatalf("%+v", p)
			}
		}
	})
}
