package externalmetrics_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// decisions serves the same target for every policy.
type decisions struct{ engine.Served }

func (d decisions) Lookup(scaling.Key, time.Time) (engine.Served, error) { return d.Served, nil }

// KEDA reads the target of the policy with the name of the ScaledObject. The metric's target value per replica is 1, so the desired
// replicas of the HPA are equal to the metric's value.
func ExampleScaler() {
	scaler := externalmetrics.NewScaler(decisions{engine.Served{Replicas: 7}}, time.Now)
	object := &externalscaler.ScaledObjectRef{Namespace: "team-chat", Name: "llama-chat"}
	metrics, err := scaler.GetMetrics(context.Background(), &externalscaler.GetMetricsRequest{ScaledObjectRef: object})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(metrics.MetricValues[0].MetricName, metrics.MetricValues[0].MetricValueFloat)
	// Output: gpuscaler-desired-replicas 7
}
