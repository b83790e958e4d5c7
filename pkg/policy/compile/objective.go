package compile

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// defaultPercentile is the percentile in most published SLOs of model servers.
const defaultPercentile = 99

// maxCapacity is the greatest capacityPerReplica that is accepted. It is far above the tokens per second of any replica.
const maxCapacity = 1e9

// objectiveTime is one of the time fields of an objective, with its allowed range.
type objectiveTime struct {
	field     string
	kind      objective.Kind
	written   *spec.Duration
	low, high time.Duration
}

func objectiveTimes(o *spec.Objective) [4]objectiveTime {
	return [4]objectiveTime{
		{"wait", objective.Wait, o.Wait, 100 * time.Millisecond, time.Hour},
		{"timeToFirstToken", objective.TimeToFirstToken, o.TimeToFirstToken, 10 * time.Millisecond, 10 * time.Minute},
		{"interTokenLatency", objective.InterTokenLatency, o.InterTokenLatency, time.Millisecond, 10 * time.Second},
		{"deadline", objective.Deadline, o.Deadline, time.Minute, 7 * 24 * time.Hour},
	}
}

// objective compiles the objective of the policy. It must be called before signals, because the compilation of signals depends on it.
func (c *compiler) objective() {
	written := c.Spec.Objective
	if written == nil {
		return
	}
	p, out := decode.Spec.Key("objective"), &objective.Objective{Percentile: defaultPercentile}
	var fields []string
	for _, t := range objectiveTimes(written) {
		if t.written == nil {
			continue
		}
		fields = append(fields, t.field)
		out.Kind, out.Limit = t.kind, time.Duration(*t.written)
		if out.Limit < t.low || out.Limit > t.high {
			c.Reject(p.Key(t.field), "is out of range", fmt.Sprintf("%s to %s", spec.Duration(t.low), spec.Duration(t.high)))
		}
	}
	switch {
	case len(fields) == 0:
		c.Reject(p, "states no time", "one of wait, timeToFirstToken, interTokenLatency and deadline")
	case len(fields) > 1:
		c.Reject(p, "states "+strings.Join(fields, " and "), "one of wait, timeToFirstToken, interTokenLatency and deadline")
	}
	if written.Percentile != nil {
		out.Percentile = float64(*written.Percentile)
	}
	if v := written.Capacity; v != nil {
		if out.Capacity = *v; !(*v > 0 && *v <= maxCapacity) {
			c.Reject(p.Key("capacityPerReplica"), "is out of range", "above 0, at most 1e9 per second")
		}
	}
	if v := written.ColdStart; v != nil {
		if out.ColdStart = time.Duration(*v); out.ColdStart < time.Second || out.ColdStart > time.Hour {
			c.Reject(p.Key("coldStart"), "is out of range", "1s to 1h")
		}
	}
	c.policy.Objective = out
}

var measures = map[string]scaling.Measure{"arrivals": scaling.MeasureArrivals, "queued": scaling.MeasureQueued,
	"inFlight": scaling.MeasureInFlight, "served": scaling.MeasureServed, "busy": scaling.MeasureBusy, "latency": scaling.MeasureLatency}

// latencyOf maps each kind of objective to the metric of model servers that measures the time of the objective.
var latencyOf = map[objective.Kind]string{objective.Wait: "queueTime", objective.TimeToFirstToken: "timeToFirstToken",
	objective.InterTokenLatency: "interTokenLatency"}

// measures sets signal.Measures, the quantity that the signal measures for the objective. This is the value of the field `measures`. If the
// field is not set, the type and the metric of the signal determine the quantity.
func (c *compiler) measures(s *spec.Signal, p *decode.Path, metric policy.Metric, signal *scaling.Signal, source *policy.Source) {
	if c.policy.Objective == nil {
		if s.Measures != "" {
			c.Reject(p.Key("measures"), "has no effect, because the policy has no objective", "measures together with an objective")
		}
		return
	}
	rate, isRate := promql.PerSecond(source.Query)
	switch m, said := measures[s.Measures]; {
	case said:
		if signal.Measures = m; m == scaling.MeasureLatency && metric.Class == scaling.Latency {
			c.quantileOfObjective(p, source)
		}
	case metric.Measures != scaling.MeasureNone:
		signal.Measures = metric.Measures
	case metric.Class == scaling.Latency:
		c.measuredLatency(s, p, metric, signal, source)
	case slices.Contains([]policy.SourceType{policy.SourceRedis, policy.SourceKueue, policy.SourceKEDA}, source.Type):
		signal.Measures = scaling.MeasureQueued
	case isRate && c.existsAtZero(*source):
		signal.Measures = scaling.MeasureArrivals
	case isRate: // a rate that pods of the workload export counts the work that they have served
		signal.Measures = scaling.MeasureServed
	}
	if isRate && (signal.Measures == scaling.MeasureArrivals || signal.Measures == scaling.MeasureServed) {
		signal.PerSecond, signal.WindowSeconds = rate.PerSecond, uint16(min(rate.Window.Seconds(), math.MaxUint16))
	}
}

// measuredLatency sets signal.Measures of a latency signal to MeasureLatency, if the signal measures the latency that the objective limits,
// at the objective's percentile. A mean or another percentile does not show whether the objective is met.
func (c *compiler) measuredLatency(s *spec.Signal, p *decode.Path, metric policy.Metric, signal *scaling.Signal, source *policy.Source) {
	if latencyOf[c.policy.Objective.Kind] != metric.Name || !metric.Histogram {
		return
	}
	if s.Target == nil && source.Quantile == 0 {
		source.Quantile = c.quantile()
	}
	if source.Quantile == c.quantile() {
		signal.Measures = scaling.MeasureLatency
	} else if s.Target == nil {
		c.quantileOfObjective(p, source)
		signal.Measures = scaling.MeasureLatency
	}
}

// quantile returns the percentile of the objective as a quantile.
func (c *compiler) quantile() float64 { return c.policy.Objective.Percentile / 100 }

// quantileOfObjective rejects a latency whose quantile differs from the quantile of the objective.
func (c *compiler) quantileOfObjective(p *decode.Path, source *policy.Source) {
	if source.Quantile != c.quantile() {
		c.Reject(p.Key("quantile"), "is not the percentile of the objective, so the latency does not show whether it is met",
			fmt.Sprintf("%g; or a target instead of measures", c.quantile()))
	}
}

// withoutTarget compiles a signal without a target. A signal without a target is allowed only if it measures a quantity for the objective
// (see measures).
func (c *compiler) withoutTarget(s *spec.Signal, p *decode.Path, metric policy.Metric, signal *scaling.Signal) {
	switch signal.Measures {
	case scaling.MeasureNone:
		c.notEvidence(s, p, metric)
	case scaling.MeasureBusy:
		metric.Unit, metric.Mean = scaling.Percent, true
	case scaling.MeasureLatency:
		metric.Unit, metric.Class = scaling.Seconds, scaling.Latency
	}
	signal.Unit, signal.Class = metric.Unit, metric.Class
	if signal.Measures == scaling.MeasureBusy {
		signal.Class = scaling.Utilization
	}
	if s.ActivationTarget != nil {
		signal.Activation = c.amount(s.ActivationTarget, p.Key("activationTarget"), metric)
	}
	if s.MetricType == "Value" || s.MetricType == "" && (metric.Mean || metric.Class == scaling.Latency) {
		signal.Kind = scaling.Mean
	} else if s.MetricType == "AverageValue" && (metric.Mean || metric.Class == scaling.Latency) {
		c.Reject(p.Key("metricType"), "a share or a time is not a total that replicas share", "Value, the default here")
	}
	if s.Forecast != nil {
		c.Reject(p.Key("forecast"), "has no effect without target, because the objective has its own forecast", "no forecast, or a target")
	}
	if s.Class != "" && !(s.Class == "latency" && policy.SourceType(s.Type) == policy.SourcePrometheus) {
		c.Reject(p.Key("class"), "has no effect without target", "no class; measures says what a value is evidence of")
	}
}

// notEvidence rejects a signal that has no target and measures no quantity for the objective.
func (c *compiler) notEvidence(s *spec.Signal, p *decode.Path, metric policy.Metric) {
	if c.FollowsFromDecoding(p.Key("measures").String()) || c.waits {
		return
	}
	o := c.policy.Objective
	if policy.SourceType(s.Type).ReadsPods() {
		allowed := "a target; or a metric that is evidence: " + wording.List(c.evidenceOf(policy.SourceType(s.Type)))
		c.Reject(p.Key("metric"), fmt.Sprintf("%s is no evidence for an objective of %s", metric.Name, o.Kind), allowed)
		return
	}
	c.Reject(p.Key("measures"), "is missing: the type does not show what the value measures, and the signal has no target",
		"arrivals, queued, inFlight, served, busy or latency; or a target")
}

// evidenceOf returns the names of the metrics of a type that a signal can measure for the objective of the policy.
func (c *compiler) evidenceOf(t policy.SourceType) (names []string) {
	for _, m := range policy.Metrics(t) {
		if m.Measures != scaling.MeasureNone || m.Histogram && m.Name == latencyOf[c.policy.Objective.Kind] {
			names = append(names, m.Name)
		}
	}
	return names
}

// checkEvidence checks that the signals together measure all quantities that the objective needs:
//
//   - Every objective needs a signal that measures arrivals, queued or inFlight.
//   - An interTokenLatency objective also needs a signal that measures latency.
//   - A deadline objective also needs a signal that measures queued.
//
// Several signals may measure queued and inFlight. For every other quantity, checkEvidence rejects a second signal. It warns if all signals
// measure inFlight: the number of requests in progress does not increase while other requests wait, so the target would stay too low.
func (c *compiler) checkEvidence() {
	o := c.policy.Objective
	if o == nil || len(c.policy.Signals) < len(c.Spec.Signals) || c.waits {
		return
	}
	count := map[scaling.Measure]int{}
	for i, s := range c.policy.Signals {
		count[s.Measures]++
		summed := s.Measures == scaling.MeasureNone || s.Measures == scaling.MeasureQueued || s.Measures == scaling.MeasureInFlight
		if count[s.Measures] > 1 && !summed {
			c.Reject(decode.Spec.Key("signals").At(i), "is a second signal that measures "+s.Measures.String(),
				"one signal that measures "+s.Measures.String()+"; several may measure queued and inFlight, which are added up")
		}
	}
	p := decode.Spec.Key("signals")
	switch {
	case count[scaling.MeasureArrivals]+count[scaling.MeasureQueued]+count[scaling.MeasureInFlight] == 0:
		c.Reject(p, "has no evidence of load for the objective: no signal measures arrivals, queued or inFlight",
			"at least one of: arrivals (a rate in Prometheus), queued (requestsWaiting, redis, kueue, keda), inFlight (requestsRunning)")
	case o.Kind == objective.InterTokenLatency && count[scaling.MeasureLatency] == 0:
		c.Reject(p, "has no signal that measures latency, which interTokenLatency needs",
			"a signal such as {type: vllm, metric: interTokenLatency}")
	case o.Kind == objective.Deadline && count[scaling.MeasureQueued] == 0:
		c.Reject(p, "has no signal that measures queued, which deadline needs",
			"a signal of type redis, kueue or keda, or one with measures: queued")
	case count[scaling.MeasureArrivals]+count[scaling.MeasureQueued] == 0:
		c.Warn(p, "measures only inFlight for the objective, so the target does not increase when requests wait",
			"also a signal that measures queued, such as {type: vllm, metric: requestsWaiting}")
	}
}
