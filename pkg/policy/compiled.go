// Package policy contains the compiled forms of the documents that users write: Compiled for a ScalingPolicy, and Platform for the
// PlatformConfig. It also contains Problem, which describes a defect in a document. The parsers are in the sub-packages:
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
//	store        loads and reloads files, keeps the last valid version of each document, publishes one snapshot of all policies
//	wording      the wording of found and allowed values in problems
//
// Three rules apply in all sub-packages:
//   - Every defect is a Problem with its file, line and field, the found value and the allowed values. All problems of a document are
//     reported in one run.
//   - A defect affects only its own document. gpuscaler continues to use the last valid version of that document.
//   - The bounds and permissions of the PlatformConfig always apply, even to a last valid version.
//
// The result of the compilation does not depend on the current time. A policy that was accepted once is therefore accepted again after a
// restart.
package policy

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Compiled is one compiled policy. It contains the workload with the parameters of its decisions, and the source of each signal. It is
// immutable: a new version of the document is compiled to a new Compiled.
type Compiled struct {
	Workload scaling.Workload
	Sources  []Source // source of each of Workload.Policy.Signals, in the same order
	// Polls is the time between two polls of each source; nil: DefaultInterval for all sources. It is not part of Source, because a source
	// that is polled at another interval measures the same quantity.
	Polls []time.Duration
	Team  string // name of the team to which the namespace belongs; empty: the namespace belongs to no team

	OwnMode scaling.Mode // the mode in the policy, before the PlatformConfig's mode is applied
}

// SourceType is the type of a signal's source. It has the values of the field `type` of a signal.
type SourceType string

// Possible values of SourceType.
const (
	SourcePrometheus SourceType = "prometheus" // a query of the PlatformConfig, or a metric with labels
	SourceDCGM       SourceType = "dcgm"       // GPU metrics of the workload's pods, from the DCGM exporter
	SourceVLLM       SourceType = "vllm"       // metrics of the workload's pods, from a model server; also for the following types
	SourceSGLang     SourceType = "sglang"
	SourceTriton     SourceType = "triton"
	SourceNIM        SourceType = "nim"
	SourceRay        SourceType = "ray"
	SourceTGI        SourceType = "tgi"
	SourceTRTLLM     SourceType = "trtllm"   // trtllm-serve of TensorRT-LLM; for TensorRT-LLM in Triton, use triton
	SourceDynamo     SourceType = "dynamo"   // workers of NVIDIA Dynamo, with any inference engine
	SourceRedis      SourceType = "redis"    // length of a list, or number of stream entries that are not acknowledged
	SourceKueue      SourceType = "kueue"    // pending workloads of a queue that Kueue could admit; other pending workloads are not counted
	SourceExternal   SourceType = "external" // a metric of the cluster's external metrics API
	SourceKEDA       SourceType = "keda"     // a trigger of the same ScaledObject, read through the external metrics API
)

// Source describes where the readings of one signal are read. Only the fields of its Type are set.
type Source struct {
	Type SourceType
	// DataSource is the name of a data source of the PlatformConfig: either the name in the policy, or the default. It is empty if the
	// PlatformConfig has no suitable data source. The poller then scrapes the pods with the profile of Type, or reads the API of the cluster.
	DataSource string

	// Query is the PromQL of a signal of type prometheus. It contains the matchers of the data source.
	//
	// If QueryName is set, Query is a query of the PlatformConfig that many workloads share. Two labels identify the series of a workload:
	// NamespaceLabel contains the workload's namespace, and WorkloadLabel contains LabelValue or, if LabelValue is empty, the name of the
	// scale target.
	//
	// If QueryName is empty, Query was built from the metric and labels in the policy. It selects only series of the policy's namespace, and
	// WorkloadLabel is empty.
	QueryName, Query          string
	WorkloadLabel, LabelValue string
	NamespaceLabel            string // label of the result that contains the namespace of the workload

	// Metric is the short name of a metric of a model server (requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, ...) or
	// of dcgm (activity, memory, ...), or the name of an external metric.
	Metric string
	// Quantile is the quantile of a latency histogram, greater than 0 and less than 1. 0 means the mean. Window is the time range from which
	// the latency is computed.
	Quantile float64
	Window   time.Duration

	// for type redis
	ListName, Stream, ConsumerGroup string
	// for type kueue: a LocalQueue in the namespace of the workload, or a ClusterQueue
	LocalQueue, ClusterQueue string
	// for type external: label selector of the metric, for example "queue=embed"
	Selector string
	// for type keda: name of the trigger in the ScaledObject of the workload
	Trigger string

	// Denied is the reason why the PlatformConfig no longer permits this workload to read the source. Empty: it permits the source. Denied can
	// be set only in a last valid version of a policy. A denied source is not read, and its readings have the cause CauseDenied.
	Denied string
}

// Fingerprint returns a number that is the same for equal sources in every process. It is never 0.
func (s Source) Fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%#v", s)
	return max(h.Sum64(), 1)
}
