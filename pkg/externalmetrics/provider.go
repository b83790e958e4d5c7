// Package externalmetrics serves decisions: to HPAs as the aggregated external.metrics.k8s.io API, and to KEDA as an external
// scaler. It reads the engine's board and nothing else, so that no request ever waits for I/O of ours.
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
	// MetricName is the one metric that HPAs follow: the replicas a workload should have, a whole number.
	MetricName = "gpuscaler-desired-replicas"
	// PolicyLabel is the selector that names the policy, in the HPA's own namespace.
	PolicyLabel = "gpuscaler.io/policy"
)

// Decisions is the part of the engine's board that the servers read.
type Decisions = engine.Decisions

// Provider answers reads of the external metrics API from the board.
type Provider struct {
	decisions Decisions
	clock     func() time.Time
}

// NewProvider returns a provider over the board; clock is the process's clock (the demo's runs faster).
func NewProvider(d Decisions, clock func() time.Time) *Provider {
	return &Provider{decisions: d, clock: clock}
}

var metricResource = external.Resource("externalmetrics")

// GetExternalMetric returns exactly one item, because an HPA adds up all that it gets. A selector that does not name one policy is a
// bad request: an HPA sends an empty one where its manifest has none. A number that must not be used is an error, never 0.
func (p *Provider) GetExternalMetric(_ context.Context, namespace string, selector labels.Selector, info provider.ExternalMetricInfo) (*external.ExternalMetricValueList, error) {
	if info.Metric != MetricName {
		return nil, provider.NewMetricNotFoundError(metricResource, info.Metric)
	}
	name, ok := onePolicy(selector)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("selector %q must name a policy: set matchLabels {%s: <name>} in the HPA's metric", selector, PolicyLabel))
	}
	key := scaling.Key{Namespace: namespace, Name: name}
	served, err := p.lookup(namespace, name)
	switch {
	case errors.Is(err, engine.ErrUnknown):
		return nil, provider.NewMetricNotFoundForError(metricResource, info.Metric, key.String())
	case err != nil:
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("policy %s: %v; replicas stay as they are", key, err))
	}
	return &external.ExternalMetricValueList{Items: []external.ExternalMetricValue{{
		MetricName:   MetricName,
		MetricLabels: map[string]string{PolicyLabel: name},
		Timestamp:    metav1.NewTime(served.At),
		Value:        quantity(served),
	}}}, nil
}

// onePolicy returns the policy that a selector names. One that names two is refused, also where the other could match nothing.
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

// ListAllExternalMetrics is what discovery shows: the one name, however many policies there are.
func (p *Provider) ListAllExternalMetrics() []provider.ExternalMetricInfo {
	return []provider.ExternalMetricInfo{{Metric: MetricName}}
}
