// Package policy holds the compiled forms of what users write: Compiled for a ScalingPolicy and Platform for the PlatformConfig, with
// the problems that were found in the text. It contains no parser; the sub-packages produce these values.
//
//	spec         the structs that users write in YAML, their scalar types and the field table
//	decode       YAML into these structs, with the line, column and field of every problem
//	annotations  the same policies from the annotations of a ScaledObject, an HPA or a KEDA trigger; pause and override
//	compile      spec and Platform into Compiled, with all checks
//	formula      CEL into a function of the signals
//	promql       checks of queries, queries built from a metric and labels
//	schedule     cron windows into calendar windows
//	pricebook    the price book
//	schema       the JSON Schemas and the reference of the format
//	store        loads and reloads files, keeps the last valid version, publishes one snapshot
//	wording      the wording of found and allowed values in problems
//
// Three rules hold in all of them. Every defect is a Problem with its place, the found value and the allowed values, and all problems
// of a text are reported together. A defect affects only its own document, whose last valid version stays in force. The
// PlatformConfig's bounds and permissions apply always, also to a last valid version.
//
// The result does not depend on the present time: a policy that was accepted is accepted again after a restart.
package policy

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Compiled is one compiled policy: the workload with its decision parameters, and the source of each signal. It is immutable; a new
// version of the document is a new value.
type Compiled struct {
	Workload scaling.Workload
	Sources  []Source // parallel to Workload.Policy.Signals
	Team     string   // the team of the PlatformConfig that the namespace belongs to; empty if there is none

	OwnMode scaling.Mode // the mode of the policy alone, before the PlatformConfig's mode
}

// SourceType is how a signal is read. Its values are those of the field `type` of a signal.
type SourceType string

// Values of SourceType.
const (
	SourcePrometheus SourceType = "prometheus" // a query of the PlatformConfig, or a metric with labels
	SourceDCGM       SourceType = "dcgm"       // GPU metrics of the workload's pods, from the DCGM exporter
	SourceVLLM       SourceType = "vllm"       // model servers: metrics of the workload's pods
	SourceSGLang     SourceType = "sglang"
	SourceTriton     SourceType = "triton"
	SourceNIM        SourceType = "nim"
	SourceRay        SourceType = "ray"
	SourceTGI        SourceType = "tgi"
	SourceRedis      SourceType = "redis"    // length of a list, or number of stream entries that are not acknowledged
	SourceKueue      SourceType = "kueue"    // pending workloads of a queue; active queues only
	SourceExternal   SourceType = "external" // a metric of the cluster's external metrics API
	SourceKEDA       SourceType = "keda"     // a trigger of the same ScaledObject, read through the external metrics API
)

// Source is where the readings of one signal come from. Only the fields of its Type are set.
type Source struct {
	Type SourceType
	// DataSource is the name of a data source of the PlatformConfig, with the default filled in. If it is empty, the PlatformConfig
	// declares no suitable one, and the poller uses the built-in way: it scrapes the pods by the profile of Type, or asks the cluster's
	// own API.
	DataSource string

	// Query is PromQL of a prometheus signal; it contains the matchers of the data source. With a QueryName the platform team wrote it,
	// and one query serves every workload that refers to it: the series of a workload has its namespace in NamespaceLabel and
	// LabelValue (if empty, the name of the scale target) in WorkloadLabel. Without a QueryName the query was built from the metric and
	// labels of the policy, selects its namespace only, and WorkloadLabel is empty.
	QueryName, Query          string
	WorkloadLabel, LabelValue string
	NamespaceLabel            string // label of the result that contains the namespace of the workload

	// Metric is the short name of a metric of a model server (requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, ...) or
	// of dcgm (activity, memory, ...), or the name of an external metric.
	Metric string
	// Quantile of a latency histogram is between 0 and 1, both excluded; 0 means the mean. Window is the time that the histogram is
	// read over.
	Quantile float64
	Window   time.Duration

	// redis
	ListName, Stream, ConsumerGroup string
	// kueue: a LocalQueue in the namespace of the workload, or a ClusterQueue
	LocalQueue, ClusterQueue string
	// external: label selector of the metric, for example "queue=embed"
	Selector string
	// keda: name of the trigger in the ScaledObject of the workload
	Trigger string

	// Denied is why the PlatformConfig no longer permits the source to this workload, whose last valid version is in force; empty if it
	// is permitted. A denied source is not read, and its readings have CauseForbidden.
	Denied string
}

// Fingerprint returns the same number for the same source in every process. It is never 0.
func (s Source) Fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%#v", s)
	return max(h.Sum64(), 1)
}
