package simulator

import (
	"fmt"
	"strconv"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Measure is something that can be measured of a workload.
type Measure uint8

const (
	Unmeasured Measure = iota
	Queue              // requests that wait, seen from before the replicas (a gateway, a list): it exists at zero replicas
	InSystem           // those that wait and those that are served, seen from before the replicas (SQS with in-flight messages)
	Arrivals           // requests per second, seen from before the replicas
	Waiting            // requests that wait, as the replicas report it: none does at zero replicas
	Running            // requests that are served, as the replicas report it
	CacheUse           // mean share of the KV caches that is taken
	Activity           // mean GPU activity over the last scrape interval
	QueueTime          // mean wait of the requests that started in the last scrape interval
	numMeasures
)

// ofPods tells measures that vanish with the last ready replica.
func (m Measure) ofPods() bool { return m >= Waiting }

// Meaning is what a signal's value is taken for.
type Meaning struct {
	Measure Measure
	Units   float64 // of the signal's value that are one of the measure's; 1 but for rates that are asked for by the minute or the like
	Each    bool    // divided by the ready replicas: what one of them has
	Why     string  // what says so, for the report
}

// MeaningOf is what a policy's signal means in this world: as told by its name, and else by its source. Whether a rate is the whole or one
// replica's part its query says, and where it does not, what the policy takes it for: a sum that is taken for a mean runs away here as it
// would in a cluster.
func MeaningOf(c *policy.Compiled, signal int, told map[string]Measure) Meaning {
	s, source := &c.Workload.Policy.Signals[signal], &c.Sources[signal]
	growth, grows := source.PerSecond()
	out := Meaning{Units: 1, Why: "told by name"}
	var is bool
	if out.Measure, is = told[s.Name]; !is {
		out.Measure, out.Why = measureOf(source, grows)
	}
	if out.Measure == Arrivals {
		out.Each = growth.Of == policy.OfOne || growth.Of == policy.Unsaid && s.Kind == scaling.Mean
		if grows {
			out.Units = growth.Units
		}
	}
	return out
}

// measureOf finds what a source measures in this world; grows tells that its query asks how fast a counter grows.
func measureOf(s *policy.Source, grows bool) (of Measure, why string) {
	switch s.Type {
	case policy.SourcePrometheus:
		switch {
		case s.Window > 0:
			return QueueTime, "its metric is a latency"
		case grows:
			return Arrivals, "its query asks how fast a counter grows: of requests, unless told otherwise by its name"
		}
		return Queue, "assumed of a query, unless told otherwise by its name"
	case policy.SourceRedis, policy.SourceKueue, policy.SourceKEDA, policy.SourceExternal:
		return Queue, "assumed of " + string(s.Type) + ", unless told otherwise by its name"
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

// String says what is measured, for the report.
func (m Meaning) String() string {
	text := m.Measure.String()
	if m.Each {
		text += " and ready replica"
	}
	if m.Units != 1 {
		text += ", times " + strconv.FormatFloat(m.Units, 'g', 6, 64)
	}
	return text
}

// measureWords are the words that flags and scenarios use, and what they stand for.
var measureWords = [numMeasures]struct{ name, words string }{
	Unmeasured: {"", "nothing"},
	Queue:      {"queue", "requests that wait"},
	InSystem:   {"inSystem", "requests that wait or are served"},
	Arrivals:   {"arrivals", "requests a second"},
	Waiting:    {"waiting", "requests that wait, as the replicas report them"},
	Running:    {"running", "requests that are served, as the replicas report them"},
	CacheUse:   {"cacheUse", "mean share of the KV caches that is taken"},
	Activity:   {"activity", "mean GPU activity"},
	QueueTime:  {"queueTime", "wait of the requests that started lately"},
}

// String is the measure's word, and what it stands for.
func (m Measure) String() string {
	if m >= numMeasures || m == Unmeasured {
		return "nothing"
	}
	return measureWords[m].name + ": " + measureWords[m].words
}

// ParseMeasures reads what signals of one's own measure, by the signal's name.
func ParseMeasures(texts map[string]string) (map[string]Measure, error) {
	out := map[string]Measure{}
next:
	for signal, text := range texts {
		for m := Queue; m < numMeasures; m++ {
			if measureWords[m].name == text {
				out[signal] = m
				continue next
			}
		}
		return nil, fmt.Errorf("%s=%s: want queue, inSystem, arrivals, waiting, running, cacheUse, activity or queueTime", signal, text)
	}
	return out, nil
}
