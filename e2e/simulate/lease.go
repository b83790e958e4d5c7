package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
)

// The durations of the chart's leader election.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = leaseDuration * 2 / 3
	retryPeriod   = leaseDuration * 2 / 15
)

// lease is the Lease in the API server.
type lease struct {
	holder  string
	renewed time.Time
	serial  int
}

// campaign is the leader election of one replica: the rules of client-go's leaderelection and of package leader, without their jitter.
type campaign struct {
	replica  *replica
	holds    bool
	renewed  time.Time // when this process last wrote the Lease
	tried    time.Time
	observed int       // serial of the Lease that was last read
	since    time.Time // when that serial was first read
}

// leading reports whether this process may write and serve: it leads, and its last write of the Lease is less than its duration ago.
func (c *campaign) leading() bool {
	return c.holds && c.replica.sim.now.Sub(c.renewed) < leaseDuration
}

// step acquires or renews the Lease when it is due.
func (c *campaign) step() {
	r, now := c.replica, c.replica.sim.now
	if !r.up {
		return
	}
	if c.holds && now.Sub(c.renewed) >= renewDeadline && (now.Before(r.cut) || now.Sub(c.renewed) >= leaseDuration) {
		c.lose("it was not renewed")
	}
	if now.Sub(c.tried) < retryPeriod || now.Before(r.cut) {
		return
	}
	c.tried = now
	l := &r.sim.lease
	if l.serial != c.observed || c.since.IsZero() {
		c.observed, c.since = l.serial, now
	}
	if l.holder != "" && l.holder != r.name {
		if c.holds {
			c.lose("another replica holds it")
		}
		if now.Before(c.since.Add(leaseDuration)) {
			return
		}
	}
	if !r.stopping.IsZero() && !c.holds {
		return
	}
	*l = lease{holder: r.name, renewed: now, serial: l.serial + 1}
	c.observed, c.since, c.renewed = l.serial, now, now
	if !c.holds {
		c.holds = true
		r.sim.trace("%s: leads", r.name)
	}
}

func (c *campaign) lose(why string) {
	c.holds = false
	c.replica.engine.Reset()
	c.replica.sim.trace("%s: leads no more: %s", c.replica.name, why)
}

// release clears the holder of the Lease, so that a standby does not wait for the Lease to expire.
func (c *campaign) release() {
	if r := c.replica; c.holds && r.sim.lease.holder == r.name && !r.sim.now.Before(r.cut) {
		r.sim.lease = lease{serial: r.sim.lease.serial + 1}
	}
	c.holds = false
}

// holderIs reports whether a replica holds the Lease in the API server.
func (s *simulation) holderIs(r *replica) bool {
	return s.lease.holder == r.name && s.now.Sub(s.lease.renewed) < leaseDuration
}

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
