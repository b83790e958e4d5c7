package policy

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Metric is a metric that a policy can select with the field `metric` of a signal. Package telemetry maps Name to the names that the
// versions of a model server use.
type Metric struct {
	Name  string
	Unit  scaling.Unit
	Class scaling.Class
	// Mean is true if the metric is a mean over replicas, and false if it is a total. If it is true, the default of metricType is Value.
	Mean bool
	// Histogram is true if the server exports the latency as a histogram, from which a quantile can be computed.
	Histogram bool
	// Measures is the quantity that a signal with this metric measures for an objective.
	Measures scaling.Measure
}

// GPUMemory is the name of the metric for the share of the GPU memory that is in use.
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

// LatencyMetric returns a metric that is a latency with a histogram.
func LatencyMetric(name string) Metric {
	return Metric{Name: name, Unit: scaling.Seconds, Class: scaling.Latency, Mean: true, Histogram: true}
}

func share(name string) Metric {
	return Metric{Name: name, Unit: scaling.Percent, Class: scaling.Utilization, Mean: true}
}

// metricsOf lists the metrics of each signal type whose source is the pods of the workload. The first metric is the default of the type.
var metricsOf = map[SourceType][]Metric{
	SourceDCGM:   {gpuActivity, share("tensorActivity"), share("dramActivity"), share(GPUMemory)},
	SourceVLLM:   {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceSGLang: {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceNIM:    {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceTGI:    {requestsWaiting, requestsRunning, interToken, requestLatency, queueTime},
	SourceTRTLLM: {requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, interToken, requestLatency, queueTime},
	SourceDynamo: {requestsRunning, kvCacheUsage, requestLatency},
	// Triton exports sums of times but no histograms. A mean can therefore be computed, but no quantile.
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

// Metrics returns the metrics that a policy can name for a type, with the default first. It returns nil for a type whose metrics can have
// any name.
func Metrics(t SourceType) []Metric { return slices.Clone(metricsOf[t]) }

// ReadsPods reports whether the series of the type are exported by or about the workload's own pods. Such series disappear with the last
// replica.
func (t SourceType) ReadsPods() bool { return metricsOf[t] != nil }
