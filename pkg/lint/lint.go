// Package lint checks the metrics that policies, ScaledObjects and HPAs read, before a policy is in force. It checks whether each metric
// exists on a Prometheus server, whether the query uses it according to its type, and whether its series have the labels of the workload's
// pods. The checks send more queries than the controller can send every few seconds, so only `gpuscaler lint` uses this package. Checks of
// Kubernetes objects are in the sub-package objects, which the controller also uses.
//
// Each finding states the problem, its effect and the fix. If a fact is not known, the checks that need it are skipped.
package lint

import (
	"cmp"
	"slices"
)

// Severity is the severity of a finding.
type Severity string

// The severities. An error means that something does not work as written.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is a result of a check.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"` // name of the check; it does not change, because runbooks and pipelines can match it
	About    string   `json:"about"` // kind and name of the object, for example "ScalingPolicy team-chat/llama signal queue"
	What     string   `json:"what"`  // what is wrong
	Why      string   `json:"why"`   // the effect of the problem
	Fix      string   `json:"fix,omitempty"`
}

// Checks of a Prometheus server and of queries.
const (
	ServerSilent    = "PrometheusUnreachable"
	NoGPUMetrics    = "NoGPUMetrics"
	NoPodLabels     = "NoPodLabels"     // DCGM does not report which pod uses a GPU
	ExporterIsPod   = "ExporterIsPod"   // the label pod contains the name of the exporter's pod
	FreeGPUs        = "NoPodOnAnyGPU"   // the labels for the pod are empty on all GPUs
	UtilOnly        = "GPUUtilOnly"     // there is no profiling metric
	UtilOnMIG       = "GPUUtilOnMIG"    // with MIG, GPU_UTIL is 0 although the GPU is in use
	NotPromQL       = "NotPromQL"       // the query cannot be parsed
	MetricMissing   = "MetricMissing"   // the metric has no series
	MetricGone      = "MetricGone"      // the metric had series within the last week
	Renamed         = "RenamedMetric"   // the metric exists under another name
	NothingMatches  = "NothingMatches"  // the metric exists, and no series has these labels
	ExportedLabel   = "WrongPodLabel"   // the label pod is the exporter's pod, and exported_pod is the workload's pod
	CounterAsGauge  = "CounterAsGauge"  // the query reads a counter, whose value only increases, like a gauge
	GaugeAsCounter  = "GaugeAsCounter"  // the query applies rate() to a gauge, whose value also decreases
	UtilAlone       = "GPUUtilAlone"    // GPU utilization is the only signal
	MemoryAsLoad    = "MemoryAsLoad"    // the memory in use never decreases
	EmptyAtZero     = "EmptyAtZero"     // the signals have no series without pods
	NotInNamespace  = "NoPodReports"    // no pod of the workload's namespace has the metric
	AnswerNotJoined = "AnswerNotJoined" // the result of a query has no label of the workload
	NotInAnswer     = "WorkloadNotInAnswer"
	NoPodOnSeries   = "SeriesWithoutPod"
	SharedGPU       = "SharedGPU" // several pods use the GPU, so its activity does not raise a target
	NoStateMetrics  = "NoKubeStateMetrics"
	NoNodeMetrics   = "NoKarpenterMetrics"
)

// Sort sorts findings by severity, the most severe first, then by object and check.
func Sort(all []Finding) {
	rank := func(s Severity) int { return slices.Index([]Severity{Error, Warning, Info}, s) }
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.About, b.About), cmp.Compare(a.Check, b.Check))
	})
}

// Fresh changes errors about missing metrics to warnings, in place. On a new installation, the pods that export these metrics may not run
// yet. A renamed metric or a missing label remains an error.
func Fresh(all []Finding) {
	for i := range all {
		if f := &all[i]; f.Severity == Error && (f.Check == MetricMissing || f.Check == NoGPUMetrics) {
			f.Severity, f.Why = Warning, f.Why+"; this is expected until pods with the metric run and are scraped"
		}
	}
}

// Errors returns the number of findings with the severity Error.
func Errors(all []Finding) (n int) {
	for i := range all {
		if all[i].Severity == Error {
			n++
		}
	}
	return n
}

// list contains findings without duplicates.
type list struct{ all []Finding }

func (l *list) add(f Finding) {
	if !slices.Contains(l.all, f) {
		l.all = append(l.all, f)
	}
}
