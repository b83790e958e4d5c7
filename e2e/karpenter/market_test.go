package karpenter_test

import (
	"sync"
	"testing"

	"github.com/gpuscaler/gpuscaler/e2e/karpenter"
)

// market contains the instance type of each test with a capacity shortage, by the name of the test. The tests share one cluster, and a
// shortage applies to an instance type. Therefore each test has its own instance type.
var market = map[string]karpenter.InstanceType{
	"day":   {Name: "g6e.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.78, "on-demand": 1.861}},
	"zone":  {Name: "g5.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.42, "on-demand": 1.006}, Zones: []string{"zone-a", "zone-b"}},
	"trace": {Name: "g4dn.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.19, "on-demand": 0.526}},
	"stuck": {Name: "g6f.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.2, "on-demand": 0.6}},
	"six": {Name: "p5.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 1.1, "on-demand": 2.9},
		Zones: []string{"zone-a", "zone-b", "zone-c"}},
	"half":  {Name: "half.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.6, "on-demand": 1}},
	"third": {Name: "third.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.3, "on-demand": 1}},

	"pack":   {Name: "pair.xlarge", GPUs: 2, Prices: map[string]float64{"spot": 0.64, "on-demand": 1.61}},
	"unpack": {Name: "twin.xlarge", GPUs: 2, Prices: map[string]float64{"spot": 0.64, "on-demand": 1.61}},

	"crashfallback": {Name: "fall.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.3, "on-demand": 1}},
	"crashprobe":    {Name: "probe.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.3, "on-demand": 1}},
	"crashmove":     {Name: "move.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.3, "on-demand": 1}},
}

var (
	common = karpenter.InstanceType{Name: "g6.xlarge", GPUs: 1, Prices: map[string]float64{"spot": 0.32, "on-demand": 0.805}}
	cpu    = karpenter.InstanceType{Name: "c7i.xlarge", Prices: map[string]float64{"spot": 0.07, "on-demand": 0.178}}
)

func offered() []karpenter.InstanceType {
	types := []karpenter.InstanceType{common, cpu}
	for _, own := range market {
		types = append(types, own)
	}
	return types
}

var shortages struct {
	sync.Mutex
	of map[string][]karpenter.Shortage // shortages by the name of the test
}

// scarce sets the shortages of a test until the next call of scarce or the end of the test.
func scarce(t *testing.T, of ...karpenter.Shortage) {
	t.Helper()
	if err := short(t.Name(), of); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = short(t.Name(), nil) }) // the next test sets its own shortages
}

func short(test string, of []karpenter.Shortage) error {
	shortages.Lock()
	defer shortages.Unlock()
	if shortages.of == nil {
		shortages.of = map[string][]karpenter.Shortage{}
	}
	shortages.of[test] = of
	var all []karpenter.Shortage
	for _, of := range shortages.of {
		all = append(all, of...)
	}
	return suite.karpenter.Scarce(all...)
}
