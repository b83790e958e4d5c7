// Package lint judges whether what a policy reads is there, means what its author thinks, and reaches the pods it speaks of: before the
// policy goes live, by the label sets and names that a Prometheus server holds. What objects in the cluster do wrong is judged where
// they are read (cluster.Lint, cluster.LintNodePools), since the controller judges them all day; what is judged here needs questions
// that nobody should ask a server every few seconds, so it is a room of its own, which the controller does not reach.
//
// Every finding says what, why it hurts, and the fix. Nothing is found on suspicion: what is not known is not judged.
package lint

import (
	"cmp"
	"slices"
)

// Severity orders findings.
type Severity string

// The severities. Errors mean that something will not work as written.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one thing that somebody should know.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"` // stable: runbooks and pipelines may match it
	About    string   `json:"about"` // "ScalingPolicy team-chat/llama signal queue"
	What     string   `json:"what"`
	Why      string   `json:"why"`
	Fix      string   `json:"fix,omitempty"` // empty where there is nothing to mend
}

// The checks on a Prometheus server and on what is asked of it.
const (
	ServerSilent    = "PrometheusUnreachable"
	NoGPUMetrics    = "NoGPUMetrics"
	NoPodLabels     = "NoPodLabels"     // DCGM does not say which pod holds a GPU
	ExporterIsPod   = "ExporterIsPod"   // the pod label is the exporter's
	FreeGPUs        = "NoPodOnAnyGPU"   // labels are there, and empty
	UtilOnly        = "GPUUtilOnly"     // no profiling metrics
	UtilOnMIG       = "GPUUtilOnMIG"    // GPU_UTIL is a false zero there
	NotPromQL       = "NotPromQL"       // a query that no server reads
	MetricMissing   = "MetricMissing"   // nobody serves it
	MetricGone      = "MetricGone"      // it was there this week
	Renamed         = "RenamedMetric"   // it is served under another name
	NothingMatches  = "NothingMatches"  // the metric is there, and no series has these labels
	ExportedLabel   = "WrongPodLabel"   // pod is the exporter, the workload is in exported_pod
	CounterAsGauge  = "CounterAsGauge"  // it only ever rises
	GaugeAsCounter  = "GaugeAsCounter"  // rate() of what goes up and down
	UtilAlone       = "GPUUtilAlone"    // the duty cycle decides alone
	MemoryAsLoad    = "MemoryAsLoad"    // memory never falls
	EmptyAtZero     = "EmptyAtZero"     // it ends with the last pod
	NotInNamespace  = "NoPodReports"    // the metric is served, by no pod of the workload's namespace
	AnswerNotJoined = "AnswerNotJoined" // a query's answer has no label by which workloads are found
	NotInAnswer     = "WorkloadNotInAnswer"
	NoPodOnSeries   = "SeriesWithoutPod"
	SharedGPU       = "SharedGPU" // a GPU that several pods use does not raise a target
	NoStateMetrics  = "NoKubeStateMetrics"
	NoNodeMetrics   = "NoKarpenterMetrics"
)

// Sort puts the worst first.
func Sort(all []Finding) {
	rank := func(s Severity) int { return slices.Index([]Severity{Error, Warning, Info}, s) }
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(a.About, b.About), cmp.Compare(a.Check, b.Check))
	})
}

// Fresh makes warnings of what a new installation passes through, in place: metrics that nobody has served yet, since no pod runs that
// would, or nothing scrapes it. What is served under another name, or without the labels that it needs, is wrong on the first day too.
func Fresh(all []Finding) {
	for i := range all {
		if f := &all[i]; f.Severity == Error && (f.Check == MetricMissing || f.Check == NoGPUMetrics) {
			f.Severity, f.Why = Warning, f.Why+"; to be expected until the pods that serve it run and are scraped"
		}
	}
}

// Errors counts the findings that mean that something will not work.
func Errors(all []Finding) (n int) {
	for i := range all {
		if all[i].Severity == Error {
			n++
		}
	}
	return n
}

// list gathers findings, each once.
type list struct{ all []Finding }

func (l *list) add(f Finding) {
	if !slices.Contains(l.all, f) {
		l.all = append(l.all, f)
	}
}
