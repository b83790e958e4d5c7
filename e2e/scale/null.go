package main

import (
	"context"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/external_metrics"
	basecmd "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

// nullCommand is the argument with which this program runs the null adapter.
const nullCommand = "null-adapter"

// null is an adapter that returns the value 1 for every metric. No other adapter that uses the same library needs less CPU time.
type null struct{}

func (null) GetExternalMetric(
	_ context.Context, _ string, _ labels.Selector, info provider.ExternalMetricInfo,
) (*external_metrics.ExternalMetricValueList, error) {
	return &external_metrics.ExternalMetricValueList{Items: []external_metrics.ExternalMetricValue{{
		MetricName: info.Metric, Timestamp: metav1.Now(), Value: *resource.NewQuantity(1, resource.DecimalSI),
	}}}, nil
}

func (null) ListAllExternalMetrics() []provider.ExternalMetricInfo {
	return []provider.ExternalMetricInfo{{Metric: metric}}
}

// runNull runs the null adapter with the flags of the library until it is killed.
func runNull(args []string) error {
	adapter := &basecmd.AdapterBase{Name: nullCommand}
	adapter.WithExternalMetrics(null{})
	if err := adapter.Flags().Parse(args); err != nil {
		return err
	}
	return adapter.Run(context.Background())
}
