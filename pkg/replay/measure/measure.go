// Package measure names the quantities of a simulated workload that a signal can read, and infers which of them a signal of a policy reads.
package measure

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Measure is a quantity of a workload that a signal can read.
type Measure uint8

// Values of Measure.
const (
	Unmeasured Measure = iota
	Queue              // waiting requests, measured in front of the replicas (a gateway, a list), so it exists at zero replicas
	InSystem           // waiting and running requests, measured in front of the replicas (SQS with in-flight messages)
	Arrivals           // requests per second, measured in front of the replicas
	Waiting            // waiting requests, reported by the replicas; unknown at zero replicas
	Running            // running requests, reported by the replicas
	CacheUse           // mean use of the KV caches, 0..1
	Activity           // mean GPU activity over the last scrape interval
	QueueTime          // mean wait of the requests that started in the last scrape interval
	Count              // number of measures, for the length of arrays
)

// OfPods reports whether the measure is unknown without a ready replica.
func (m Measure) OfPods() bool { return m >= Waiting }

// Meaning is the quantity that a signal is assumed to measure.
type Meaning struct {
	Measure Measure
	Units   float64 // factor from the measure to the signal's value; 1 except for rates per minute or similar
	Each    bool    // the value is divided by the number of ready replicas
	// Window is the time over which a query computes the rate of arrivals. 0 means the time between the two newest scrapes.
	Window time.Duration
	Why    string // reason for this assumption, for the report
}

// Of returns what a signal of a policy measures in the simulator. byName contains the measure of some signals by signal name. For the other
// signals, Of infers the measure from the source. It infers from the query whether a rate is a sum or a mean per replica, or from the
// policy if the query does not aggregate. If the query returns a sum but the policy treats it as a mean, the simulated workload has too
// many replicas, as a workload in a cluster has with that policy.
func Of(c *policy.Compiled, signal int, byName map[string]Measure) Meaning {
	s, source := &c.Workload.Policy.Signals[signal], &c.Sources[signal]
	rate, grows := promql.PerSecond(source.Query)
	out := Meaning{Units: 1, Why: "set by name"}
	var is bool
	if out.Measure, is = byName[s.Name]; !is {
		out.Measure, out.Why = measureOf(source, grows)
	}
	if out.Measure == Arrivals {
		out.Each = rate.Aggregation == promql.PerSeries || rate.Aggregation == promql.Unaggregated && s.Kind == scaling.Mean
		if grows {
			out.Units, out.Window = rate.PerSecond, rate.Window
		}
	}
	return out
}

// measureOf returns what a source measures in the simulator. grows is true if its query computes the rate of a counter.
func measureOf(s *policy.Source, grows bool) (of Measure, why string) {
	switch s.Type {
	case policy.SourcePrometheus:
		switch {
		case s.Window > 0:
			return QueueTime, "its metric is a latency"
		case grows:
			return Arrivals, "its query computes the rate of a counter: assumed to count requests, unless set by name"
		}
		return byMetricName(s.Query, "a query")
	case policy.SourceExternal:
		return byMetricName(s.Metric, string(s.Type))
	case policy.SourceRedis, policy.SourceKueue, policy.SourceKEDA:
		return Queue, "assumed for " + string(s.Type) + ", unless set by name"
	case policy.SourceDCGM:
		return Activity, "its source"
	}
	switch s.Metric {
	case "", "requestsWaiting", "queuedQueries":
		of = Waiting
	case "requestsRunning", "processingQueries":
		of = Running
	case "kvCacheUsage":
		of = CacheUse
	case "gpuUtilization":
		of = Activity
	case "queueTime", "timeToFirstToken":
		of = QueueTime
	}
	return of, "its source"
}

// Patterns for the names of metrics without their labels. Metrics that match runningInPods are reported by the model servers in the
// replicas.
var (
	labels        = regexp.MustCompile(`\{[^}]*\}`)
	runningInPods = regexp.MustCompile(`(?i)num_requests_running|num_running_reqs|batch_current_size|processing_queries`)
	inFlight      = regexp.MustCompile(`(?i)in[-_]?flight|_active\b|active_requests|concurren|ongoing|outstanding|in[-_]progress`)
	waitingWords  = regexp.MustCompile(`(?i)waiting|queue|pending|backlog|depth|_lag\b`)
)

// byMetricName infers what a metric of unknown origin measures from its name. A metric of requests in flight includes running requests, and
// a metric of a queue does not. kind is the kind of source.
func byMetricName(name, kind string) (of Measure, why string) {
	name = labels.ReplaceAllString(name, "")
	running, flight, waiting := runningInPods.MatchString(name), inFlight.MatchString(name), waitingWords.MatchString(name)
	switch {
	case flight || running && waiting:
		return InSystem, "its name counts requests in flight, unless set by name"
	case running:
		return Running, "its name counts running requests, unless set by name"
	}
	return Queue, "assumed for " + kind + ", unless set by name"
}

// String describes for the report what the signal measures, for example "requests per second per ready replica".
func (m Meaning) String() string {
	text := m.Measure.String()
	if m.Each {
		text += " per ready replica"
	}
	if m.Window > 0 {
		text += " over " + spec.Duration(m.Window).String()
	}
	if m.Units != 1 {
		text += ", times " + strconv.FormatFloat(m.Units, 'g', 6, 64)
	}
	return text
}

// measureWords contains the name of each measure in flags and scenarios, and its description.
var measureWords = [Count]struct{ name, words string }{
	Unmeasured: {"", "nothing"},
	Queue:      {"queue", "waiting requests"},
	InSystem:   {"inSystem", "waiting and running requests"},
	Arrivals:   {"arrivals", "requests per second"},
	Waiting:    {"waiting", "waiting requests, reported by the replicas"},
	Running:    {"running", "running requests, reported by the replicas"},
	CacheUse:   {"cacheUse", "mean usage of the KV caches"},
	Activity:   {"activity", "mean GPU activity"},
	QueueTime:  {"queueTime", "wait of the requests that started recently"},
}

// String returns the name of the measure with its description.
func (m Measure) String() string {
	if m >= Count || m == Unmeasured {
		return "nothing"
	}
	return measureWords[m].name + ": " + measureWords[m].words
}

// Parse parses the measures of custom signals, by signal name.
func Parse(texts map[string]string) (map[string]Measure, error) {
	out := map[string]Measure{}
next:
	for signal, text := range texts {
		for m := Queue; m < Count; m++ {
			if measureWords[m].name == text {
				out[signal] = m
				continue next
			}
		}
		return nil, fmt.Errorf("%s=%s: want queue, inSystem, arrivals, waiting, running, cacheUse, activity or queueTime", signal, text)
	}
	return out, nil
}
