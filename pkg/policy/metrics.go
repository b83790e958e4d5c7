package policy

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Metric is a metric that a policy can select with the field `metric` of a signal. Package telemetry maps Name to the metric names of each
// version of a model server.
type Metric struct {
	Name  string
	Unit  scaling.Unit
	Class scaling.Class
	// Mean is true if the metric is a mean over replicas, and false if it is a total of all replicas. If it is true, the default of metricType
	// is Value.
	Mean bool
	// Histogram is true if the model server exports the latency as a histogram, from which a quantile can be computed.
	Histogram bool
	// Measures is the quantity that a signal with this metric measures for an objective.
	Measures scaling.Measure
}

// GPUMemory is the name of the metric with the share of the GPU memory that is in use.
const GPUMemory = "memory"

var (
	requestsWaiting  = Metric{Name: "requestsWaiting", Measures: scaling.MeasureQueued}
	requestsRunning  = Metric{Name: "requestsRunning", Measures: scaling.MeasureInFlight}
	kvCacheUsage     = Metric{Name: "kvCacheUsage", Unit: scaling.Percent, Class: scaling.Utilization, Mean: true}
	gpuActivity      = Metric{Name: "activity", Unit: scaling.Percent, Class: scaling.Utilization, Mean: true, Measures: scaling.MeasureBusy}
	timeToFirstToken = LatencyMetric("timeToFirstToken")
	interToken       = LatencyMetric("interTokenLatency")
	requestLatency   = LatencyMetric("requestLatency")
	queueTime        = LatencyMetric("queueTime")
)

// LatencyMetric returns a latency metric that is exported as a histogram.
func LatencyMetric(name string) Metric {
	return Metric{Name: name, Unit: scaling.Seconds, Class: scaling.Latency, Mean: true, Histogram: true}
}

func share(name string) Metric {
	return Metric{Name: name, Unit: scaling.Percent, Class: scaling.Utilization, Mean: true}
}

// metricsOf lists the metrics of each signal type whose source is the pods of the workload. The first metric of a type is its default.
var metricsOf = map[SourceType][]Metric{
	SourceDCGM:   {gpuActivity, share("tensorActivity"), share("dramActivity"), share(GPUMemory)},
	SourceVLLM:   {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceSGLang: {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceNIM:    {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceTGI:    {requestsWaiting, requestsRunning, interToken, requestLatency, queueTime},
	SourceTRTLLM: {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceDynamo: {requestsRunning, kvCacheUsage, requestLatency},
	// Triton exports sums of times but no histograms, so a mean can be computed but no quantile.
	SourceTriton: {requestsWaiting, requestsRunning, kvCacheUsage,
		{Name: "gpuUtilization", Unit: scaling.Percent, Class: scaling.Utilization, Mean: true, Measures: scaling.MeasureBusy},
		{Name: "queueTime", Unit: scaling.Seconds, Class: scaling.Latency, Mean: true},
		{Name: "requestLatency", Unit: scaling.Seconds, Class: scaling.Latency, Mean: true}},
	SourceRay: {requestsWaiting, requestsRunning, kvCacheUsage, {Name: "queuedQueries", Measures: scaling.MeasureQueued},
		{Name: "processingQueries", Measures: scaling.MeasureInFlight},
		timeToFirstToken, interToken, requestLatency, queueTime},
}

// ModelServers returns the types of model servers.
func ModelServers() []SourceType {
	return []SourceType{SourceVLLM, SourceSGLang, SourceTriton, SourceNIM, SourceRay, SourceTGI, SourceTRTLLM, SourceDynamo}
}

// Metrics returns the metrics that a policy can name for a type. The default metric is first. It returns nil for a type whose metrics can
// have any name.
func Metrics(t SourceType) []Metric { return slices.Clone(metricsOf[t]) }

// ReadsPods reports whether series of the type are exported by the workload's pods, or by an exporter about these pods. Such series
// disappear when the last replica is removed.
func (t SourceType) ReadsPods() bool { return metricsOf[t] != nil }
