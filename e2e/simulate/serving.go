package main

import (
	"context"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
)

// serve returns the target of a workload from the server that its autoscaler reads: the external metrics API, or KEDA's external scaler.
func (r *replica) serve(w *workload) (int32, error) {
	if w.keda {
		answer, err := r.scaler.GetMetrics(context.Background(), &externalscaler.GetMetricsRequest{
			ScaledObjectRef: w.scaledObjectRef(), MetricName: externalmetrics.MetricName})
		if err != nil {
			return 0, err
		}
		return int32(answer.MetricValues[0].MetricValue), nil
	}
	list, err := r.metrics.GetExternalMetric(context.Background(), namespace,
		labels.SelectorFromSet(labels.Set{externalmetrics.PolicyLabel: w.name}), provider.ExternalMetricInfo{Metric: externalmetrics.MetricName})
	if err != nil {
		return 0, err
	}
	return int32(list.Items[0].Value.Value()), nil
}

// active reports whether KEDA scales the workload from zero. known is false if the trigger failed.
func (r *replica) active(w *workload) (active, known bool) {
	answer, err := r.scaler.IsActive(context.Background(), w.scaledObjectRef())
	if err != nil {
		return false, false
	}
	return answer.Result, true
}

func (w *workload) scaledObjectRef() *externalscaler.ScaledObjectRef {
	return &externalscaler.ScaledObjectRef{Namespace: namespace, Name: w.name,
		ScalerMetadata: map[string]string{externalmetrics.PolicyMetadata: w.name}}
}
