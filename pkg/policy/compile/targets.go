package compile

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// target compiles the fields target, activationTarget and metricType of a signal.
func (c *compiler) target(s *spec.Signal, p *decode.Path, metric policy.Metric, signal *scaling.Signal) {
	if s.Target == nil && c.Spec.Objective != nil {
		c.withoutTarget(s, p, metric, signal)
		return
	}
	if s.Target == nil {
		c.Reject(p.Key("target"), "is missing", "the target value of one replica: 10, 80% or 500ms; or an objective of the policy")
		signal.Target = 1
		return
	}
	if t := policy.SourceType(s.Type); t == policy.SourcePrometheus || t == policy.SourceExternal || t == policy.SourceKEDA {
		metric.Unit = max(metric.Unit, s.Target.Unit) // the unit of a query is unknown, so the unit of the target is used
	}
	signal.Unit = metric.Unit
	signal.Target = c.amount(s.Target, p.Key("target"), metric)
	if signal.Target <= 0 {
		c.Reject(p.Key("target"), "must be above 0", "more than 0; the reading is divided by it")
		signal.Target = 1
	}
	if s.ActivationTarget != nil {
		signal.Activation = c.amount(s.ActivationTarget, p.Key("activationTarget"), metric)
	}
	mean := metric.Mean || metric.Unit != scaling.Count || metric.Class == scaling.Latency
	switch {
	case s.MetricType == "Value" || s.MetricType == "" && mean:
		signal.Kind = scaling.Mean
	case metric.Class == scaling.Latency:
		c.Reject(p.Key("metricType"), "a latency is not a total that replicas share", "Value, the default for latencies")
	}
}

// amount returns a target or an activation target in the unit of the metric.
func (c *compiler) amount(a *spec.Amount, p *decode.Path, metric policy.Metric) float64 {
	switch {
	case metric.Unit == scaling.Percent && a.Unit == scaling.Count:
		if a.Value == 1 {
			c.Reject(p, "is ambiguous: write 1% or 100%", "70 or 70%")
		} else if a.Value > 0 && a.Value < 1 {
			c.Reject(p, fmt.Sprintf("is a fraction: write %g%%", a.Value*100), "70 or 70%")
		}
	case a.Unit == metric.Unit:
	case metric.Unit == scaling.Seconds && a.Unit == scaling.Count:
		if a.Value != float64(int64(a.Value)) {
			c.Reject(p, "is a fraction: write 500ms for half a second", "a time such as 500ms, or whole seconds")
		}
	default:
		c.Reject(p, "has another unit than the metric", unitWords[metric.Unit])
	}
	if metric.Unit == scaling.Percent {
		if a.Value > 100 {
			c.Reject(p, "is above 100%", "at most 100%")
		}
		return a.Value / 100
	}
	return a.Value
}

var unitWords = map[scaling.Unit]string{
	scaling.Count: "a number such as 10", scaling.Percent: "a percentage such as 80%", scaling.Seconds: "a time such as 500ms",
}
