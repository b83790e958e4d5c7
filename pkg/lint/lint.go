// Package lint checks the metrics that policies, ScaledObjects and HPAs read, before a policy is applied. It checks whether each metric
// exists on a Prometheus server, whether the query uses it as its type requires (counter or gauge), and whether its series have the labels
// of the workload's pods. The checks send too many queries for the controller, which polls every few seconds. Therefore only `gpuscaler
// lint` uses this package. Checks of Kubernetes objects are in the sub-package objects, which the controller also uses.
//
// Each finding contains the problem, its effect and the fix. Checks that need an unknown fact are skipped.
package lint

import (
	"cmp"
	"slices"
)

// Severity is the severity of a finding.
type Severity string

// Possible values of Severity. Error means that something does not work as its author intended. Warning means that something can fail, or
// that its result is not exact. Info means that an optional component is missing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is a result of a check.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"` // name of the check; it never changes, because runbooks and pipelines match it
	About    string   `json:"about"` // kind and name of the object, for example "ScalingPolicy team-chat/llama signal queue"
	What     string   `json:"what"`  // description of the problem
	Why      string   `json:"why"`   // the effect of the problem
	Fix      string   `json:"fix,omitempty"`
}

// Checks of a Prometheus server and of queries.
const (
	ServerSilent    = "PrometheusUnreachable"
	NoGPUMetrics    = "NoGPUMetrics"
	NoPodLabels     = "NoPodLabels"     // DCGM does not export which pod uses a GPU
	ExporterIsPod   = "ExporterIsPod"   // the label pod contains the name of the exporter's pod
	FreeGPUs        = "NoPodOnAnyGPU"   // the pod labels are empty for all GPUs
	UtilOnly        = "GPUUtilOnly"     // there is no profiling metric, only GPU_UTIL
	UtilOnMIG       = "GPUUtilOnMIG"    // MIG is used, for which GPU_UTIL is 0 even if the GPU is in use
	NotPromQL       = "NotPromQL"       // the query cannot be parsed
	MetricMissing   = "MetricMissing"   // the metric has no series
	MetricGone      = "MetricGone"      // the metric has no series now, but had series within the last week
	Renamed         = "RenamedMetric"   // the metric exists under another name
	NothingMatches  = "NothingMatches"  // the metric exists, but no series has the labels that the query selects
	ExportedLabel   = "WrongPodLabel"   // the label pod contains the exporter's pod, and exported_pod contains the workload's pod
	CounterAsGauge  = "CounterAsGauge"  // the query uses a counter, whose value only increases, like a gauge
	GaugeAsCounter  = "GaugeAsCounter"  // the query applies rate() to a gauge, whose value can also decrease
	UtilAlone       = "GPUUtilAlone"    // GPU utilization is the only signal
	MemoryAsLoad    = "MemoryAsLoad"    // the signal reads the memory in use, which never decreases
	EmptyAtZero     = "EmptyAtZero"     // the signals have no series while there are no pods
	NotInNamespace  = "NoPodReports"    // no pod in the workload's namespace exports the metric
	AnswerNotJoined = "AnswerNotJoined" // the result of a query does not have the labels of the workload
	NotInAnswer     = "WorkloadNotInAnswer"
	NoPodOnSeries   = "SeriesWithoutPod"
	SharedGPU       = "SharedGPU" // several pods use one GPU, so its activity cannot raise a target
	NoStateMetrics  = "NoKubeStateMetrics"
	NoNodeMetrics   = "NoKarpenterMetrics"
)

// Sort sorts findings by severity, then by object and check. The most severe findings are first.
func Sort(all []Finding) {
	rank := func(s Severity) int { return slices.Index([]Severity{Error, Warning, Info}, s) }
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.About, b.About), cmp.Compare(a.Check, b.Check))
	})
}

// Fresh changes errors about missing metrics to warnings, in place. On a new installation, the pods that export these metrics may not be
// running. Errors about a renamed metric or a missing label remain errors.
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
