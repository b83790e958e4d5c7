package metrics_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/metrics"
)

// The collectors read the decision store of an engine at each scrape.
func ExampleNewPolicyCollectors() {
	service := explaintest.New(nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewPolicyCollectors(service.Engine.Decisions())...)
	service.Tick(0)
	service.ScaleUp()

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		if f.GetName() == "gpuscaler_target_replicas" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: gpuscaler_target_replicas 9
}
