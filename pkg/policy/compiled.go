// Package policy is what people write: YAML files and annotations, strictly decoded, defaulted, validated and compiled into the
// plain values that the brain is handed. CEL and cron text end here.
//
//	files.go      the bytes of files and directories, ConfigMap volumes among them
//	document.go   a file cut into documents, each with a name
//	decode.go     YAML nodes -> the structs of spec.go and platformspec.go, whose tags are the format
//	compile.go    structs + Platform -> Compiled, one file for each part (signals, sources, schedule, behavior, formula)
//	annotations.go, objects.go   the same policies out of a ScaledObject's or an HPA's annotations
//	load.go, force.go, store.go  which version of what is in force, published as one value; holdend.go tells when a hold ended
//	seen.go, squeeze.go   ten thousand policies in little memory: what they share is there once, their texts are kept squeezed
//
// Three rules hold everywhere. Whatever is wrong is a Problem with its place, what was found and what is allowed, and all of them are
// told at once. What is wrong holds back itself alone, and its last good version stays in force. What the platform allows always
// wins, also over a last good version.
//
// Nothing here depends on today: a policy that was accepted yesterday is accepted after tonight's restart.
package policy

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Compiled is one policy document ready for the loop: the workload with the numbers that decide, and where its signals come from.
// It is immutable; a new version of the document is a new value.
type Compiled struct {
	Workload scaling.Workload
	Sources  []Source // parallel to Workload.Policy.Signals
	Team     string   // the PlatformConfig team that the namespace belongs to; empty: none

	OwnMode scaling.Mode // of the policy alone
}

// SourceType names how a signal is read; the words are those of a signal's `type`.
type SourceType string

const (
	SourcePrometheus SourceType = "prometheus" // a query of PlatformConfig, or a structured selector
	SourceDCGM       SourceType = "dcgm"       // GPU activity of the workload's pods
	SourceVLLM       SourceType = "vllm"       // model servers: metrics of the workload's pods
	SourceSGLang     SourceType = "sglang"
	SourceTriton     SourceType = "triton"
	SourceNIM        SourceType = "nim"
	SourceRay        SourceType = "ray"
	SourceTGI        SourceType = "tgi"
	SourceRedis      SourceType = "redis"    // length of a list, or entries of a stream not yet acknowledged
	SourceKueue      SourceType = "kueue"    // pending workloads of a queue, active only
	SourceExternal   SourceType = "external" // any metric of the cluster's external metrics API
	SourceKEDA       SourceType = "keda"     // a trigger of the same ScaledObject, read through the external metrics API
)

// Source says where one signal's readings come from. Only the fields of its Type are set.
type Source struct {
	Type SourceType
	// DataSource is a name in PlatformConfig.dataSources; the default one is filled in. Empty: the PlatformConfig declares none that
	// fits, and the signal is read in the built-in way (pods scraped directly by the profile of Type; the cluster's own API).
	DataSource string

	// prometheus with QueryName: Query is PromQL written by the platform team; one query serves every workload that names it. The
	// result is matched back by NamespaceLabel and WorkloadLabel, whose value is LabelValue (empty: the target's name). Without
	// QueryName: Query was built from a selector of the tenant's, for its namespace alone, and WorkloadLabel is empty. Query holds the
	// data source's matchers already.
	QueryName, Query          string
	WorkloadLabel, LabelValue string
	NamespaceLabel            string // the label of the answer that holds the workload's namespace

	// Metric of a model server (requestsWaiting, requestsRunning, kvCacheUsage, timeToFirstToken, ...), of dcgm (activity, memory,
	// ...), or the name of an external metric.
	Metric string
	// Quantile of a latency histogram, 0..1 exclusive; 0 asks for the mean. Window is what it looks back over.
	Quantile float64
	Window   time.Duration

	// redis
	ListName, Stream, ConsumerGroup string
	// kueue: a LocalQueue in the workload's namespace, or a ClusterQueue.
	LocalQueue, ClusterQueue string
	// external: label selector of the metric, e.g. "queue=embed".
	Selector string
	// keda: the trigger's name in the ScaledObject that owns the workload.
	Trigger string

	// Denied says why the platform no longer allows the source to this workload, whose last good version is in force meanwhile.
	// Nothing is read then, and the reading is CauseForbidden. Empty: allowed.
	Denied string
}

// fingerprint is the same number for the same source in every process, and never 0.
func (s Source) Fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%#v", s)
	return max(h.Sum64(), 1)
}
