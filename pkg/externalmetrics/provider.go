// Package externalmetrics serves targets to HPAs through the aggregated API external.metrics.k8s.io, and to KEDA as an external scaler. It
// reads only the engine's decisions in memory, so that no request waits for I/O.
package externalmetrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	external "k8s.io/metrics/pkg/apis/external_metrics"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// MetricName is the metric that HPAs read: the target replicas of a workload, an integer.
	MetricName = "gpuscaler-desired-replicas"
	// PolicyLabel is the label in the metric selector of an HPA. Its value is the name of the policy, in the namespace of the HPA.
	PolicyLabel = "gpuscaler.io/policy"
)

// Decisions returns the targets to serve. The engine's decision store implements it.
type Decisions = engine.Decisions

// Provider serves the external metrics API from the decisions in memory.
type Provider struct {
	decisions Decisions
	clock     func() time.Time
}

// NewProvider returns a provider of the given decisions. clock returns the current time. In `gpuscaler demo`, this is the simulated time.
func NewProvider(d Decisions, clock func() time.Time) *Provider {
	return &Provider{decisions: d, clock: clock}
}

var metricResource = external.Resource("externalmetrics")

// GetExternalMetric returns exactly one item, because an HPA adds up the values of all items. It returns a bad request error if the
// selector does not select one policy by name, for example an empty selector of an HPA. If no target is available, it returns an error. It
// never replaces a missing target by 0, because the HPA would then scale down.
func (p *Provider) GetExternalMetric(
	_ context.Context, namespace string, selector labels.Selector, info provider.ExternalMetricInfo,
) (*external.ExternalMetricValueList, error) {
	if info.Metric != MetricName {
		return nil, provider.NewMetricNotFoundError(metricResource, info.Metric)
	}
	name, ok := onePolicy(selector)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("selector %q must name a policy: set matchLabels {%s: <name>} in the HPA's "+
			"metric", selector, PolicyLabel))
	}
	key := scaling.Key{Namespace: namespace, Name: name}
	served, err := p.lookup(namespace, name)
	switch {
	case errors.Is(err, engine.ErrUnknown):
		return nil, provider.NewMetricNotFoundForError(metricResource, info.Metric, key.String())
	case err != nil:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("policy %s: %v; an HPA keeps its replicas", key, err))
	}
	return &external.ExternalMetricValueList{Items: []external.ExternalMetricValue{{
		MetricName:   MetricName,
		MetricLabels: map[string]string{PolicyLabel: name},
		Timestamp:    metav1.NewTime(served.At),
		Value:        quantity(served),
	}}}, nil
}

// onePolicy returns the name of the policy that a selector selects. ok is true only if the selector has exactly one requirement on
// PolicyLabel and this requirement allows exactly one value.
func onePolicy(s labels.Selector) (name string, ok bool) {
	requirements, _ := s.Requirements()
	named := 0
	for i := range requirements {
		if requirements[i].Key() == PolicyLabel {
			named++
		}
	}
	name, ok = s.RequiresExactMatch(PolicyLabel)
	return name, ok && named == 1
}

func (p *Provider) lookup(namespace, name string) (engine.Served, error) {
	return engine.LookupNow(p.decisions, scaling.Key{Namespace: namespace, Name: name}, p.clock)
}

func quantity(s engine.Served) resource.Quantity {
	return *resource.NewQuantity(int64(s.Replicas), resource.DecimalSI)
}

// ListAllExternalMetrics returns the metrics for API discovery: one metric, which all policies share.
func (p *Provider) ListAllExternalMetrics() []provider.ExternalMetricInfo {
	return []provider.ExternalMetricInfo{{Metric: MetricName}}
}
