package policy

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Metric is a short name that policies use for what a type of source can measure. Package telemetry knows what each engine
// calls it, in which version.
type Metric struct {
	Name  string
	Unit  scaling.Unit
	Class scaling.Class
	// Mean marks what is already a mean over replicas: its metricType is Value unless said.
	Mean bool
	// Histogram marks times that the source keeps as a histogram, so that a quantile can be asked for.
	Histogram bool
}

// gpuMemory is the short name of the share of GPU memory in use.
const GpuMemory = "memory"

var (
	requestsWaiting  = Metric{Name: "requestsWaiting"}
	requestsRunning  = Metric{Name: "requestsRunning"}
	kvCacheUsage     = Metric{Name: "kvCacheUsage", Unit: scaling.Percent, Class: scaling.Utilization, Mean: true}
	gpuActivity      = Metric{Name: "activity", Unit: scaling.Percent, Class: scaling.Utilization, Mean: true}
	timeToFirstToken = LatencyMetric("timeToFirstToken")
	interToken       = LatencyMetric("interTokenLatency")
	requestLatency   = LatencyMetric("requestLatency")
	queueTime        = LatencyMetric("queueTime")
)

func LatencyMetric(name string) Metric {
	return Metric{Name: name, Unit: scaling.Seconds, Class: scaling.Latency, Mean: true, Histogram: true}
}

func share(name string) Metric {
	return Metric{Name: name, Unit: scaling.Percent, Class: scaling.Utilization, Mean: true}
}

// metricsOf lists, for each type that reads pods, the metrics that a policy may name; the first is meant where it names none.
var metricsOf = map[SourceType][]Metric{
	SourceDCGM:   {gpuActivity, share("tensorActivity"), share("dramActivity"), share(GpuMemory)},
	SourceVLLM:   {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceSGLang: {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceNIM:    {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceTGI:    {requestsWaiting, requestsRunning, interToken, requestLatency, queueTime},
	// Triton keeps sums of times and no histograms: a mean can be asked for, a quantile cannot.
	SourceTriton: {requestsWaiting, requestsRunning, kvCacheUsage, share("gpuUtilization"),
		{Name: "queueTime", Unit: scaling.Seconds, Class: scaling.Latency, Mean: true},
		{Name: "requestLatency", Unit: scaling.Seconds, Class: scaling.Latency, Mean: true}},
	SourceRay: {requestsWaiting, requestsRunning, kvCacheUsage, {Name: "queuedQueries"}, {Name: "processingQueries"},
		timeToFirstToken, interToken, requestLatency, queueTime},
}

// Metrics returns what policies may name as metric for a type, the default first; nil for types whose metrics have names of
// their own.
func Metrics(t SourceType) []Metric { return slices.Clone(metricsOf[t]) }

// readsPods tells the types whose series come from the workload's own pods: they vanish with the last replica.
func (t SourceType) ReadsPods() bool { return metricsOf[t] != nil }
