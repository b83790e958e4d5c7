package karpenter

import (
	"fmt"
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// overlay returns a decoded NodeOverlay. spec contains its fields besides the weight. validated is the status of its condition
// ValidationSucceeded.
func overlay(t *testing.T, name string, weight int64, spec map[string]any, validated string) *NodeOverlay {
	t.Helper()
	spec["weight"] = weight
	o, err := TrimNodeOverlay(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": map[string]any{"name": name}, "spec": spec,
		"status": map[string]any{"conditions": []any{map[string]any{"type": "ValidationSucceeded", "status": validated}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return o.(*NodeOverlay)
}

// requires returns the requirements of a NodeOverlay that applies to nodes on which the label key has one of the values.
func requires(key string, values ...any) []any {
	return []any{map[string]any{"key": key, "operator": "In", "values": values}}
}

// A company pays 20% less for all instances, and a fixed price for p5 instances in one zone. A third NodeOverlay conflicts with another
// NodeOverlay, and a fourth NodeOverlay adds a resource and changes no price.
func TestNodeOverlaysChangePricesAsInKarpenter(t *testing.T) {
	const kind, zone = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
	everywhere := []any{map[string]any{"key": kind, "operator": "Exists"}}
	overlays := []*NodeOverlay{
		overlay(t, "discount", 1, map[string]any{"requirements": everywhere, "priceAdjustment": "-20%"}, "True"),
		overlay(t, "contract", 10, map[string]any{"price": "30.5",
			"requirements": append(requires(kind, "p5.48xlarge"), requires(zone, "use1-az1")...)}, "True"),
		overlay(t, "conflicting", 100, map[string]any{"requirements": everywhere, "price": "1"}, "False"),
		overlay(t, "hugepages", 100, map[string]any{"requirements": everywhere, "capacity": map[string]any{"hugepages-2Mi": "8Gi"}}, "True"),
		overlay(t, "another team", 50, map[string]any{"requirements": requires("karpenter.sh/nodepool", "batch"), "price": "2"}, "True"),
	}
	for _, c := range []struct {
		labels map[string]string
		want   string
	}{
		{map[string]string{kind: "g6e.xlarge", zone: "use1-az1"}, "-20%"},
		{map[string]string{kind: "p5.48xlarge", zone: "use1-az1"}, "30.5"},
		{map[string]string{kind: "p5.48xlarge", zone: "use1-az2"}, "-20%"},
		{map[string]string{kind: "p5.48xlarge", zone: "use1-az1", "karpenter.sh/nodepool": "batch"}, "2"},
		{map[string]string{zone: "use1-az1"}, ""},
	} {
		if got := PriceChange(overlays, c.labels); got != c.want {
			t.Errorf("%v: %q, want %q", c.labels, got, c.want)
		}
	}
	equal := []*NodeOverlay{overlay(t, "a", 1, map[string]any{"requirements": everywhere, "price": "1"}, "True"),
		overlay(t, "b", 1, map[string]any{"requirements": everywhere, "price": "2"}, "True")}
	if got := PriceChange(equal, map[string]string{kind: "g6e.xlarge"}); got != "2" {
		t.Errorf("equal weights: %q, want the last by name, as Karpenter", got)
	}
}

func TestUnreadableNodeOverlayChangesNoPrice(t *testing.T) {
	o, err := TrimNodeOverlay(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": map[string]any{"name": "broken"},
		"spec": map[string]any{"price": 7, "requirements": "all"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := PriceChange([]*NodeOverlay{o.(*NodeOverlay)}, map[string]string{"a": "b"}); got != "" {
		t.Errorf("%q", got)
	}
}

func TestChangedPriceIsKarpenters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := float64(rapid.IntRange(1, 100_000).Draw(t, "price")) / 1000
		change := fmt.Sprintf("%s%g%s", rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign"),
			float64(rapid.IntRange(0, 200_000).Draw(t, "change"))/1000, rapid.SampledFrom([]string{"", "%"}).Draw(t, "unit"))
		if rapid.IntRange(0, 3).Draw(t, "absolute") == 0 {
			change = fmt.Sprint(price / 2)
		}
		want := cloudprovider.AdjustedPrice(price, change)
		got := cost.NewBook(nil, nil, nil).Price(cost.Offer{PriceChange: change}, cost.Price{Hourly: price, From: "Karpenter"})
		if math.Abs(got.Hourly-want) > 1e-9 {
			t.Fatalf("%g with %s is %g, want %g", price, change, got.Hourly, want)
		}
	})
}
