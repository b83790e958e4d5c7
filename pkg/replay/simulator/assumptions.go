package simulator

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
)

// Assumptions are all constants of the simulator. Every report prints them. DefaultAssumptions has the source of each value.
type Assumptions struct {
	// Phases of a cold start. A replica on an existing node skips the first two phases and, if the node has the image, the third phase.
	NodeLaunch reproducible.Spread // from the request for a node until it is registered
	GPUReady   reproducible.Spread // from the registration until its GPUs can be allocated
	ImagePull  reproducible.Spread // duration of the image pull, once for each node and workload
	ModelLoad  reproducible.Spread // duration of the model load of a replica, unless its workload sets another value

	TerminationGrace time.Duration // grace period of a terminating replica; requests that are unfinished at its end return to the queue

	// Metrics.
	ScrapeInterval time.Duration // time between two samples
	ScrapeLag      time.Duration // delay until a query returns a sample
	PollInterval   time.Duration // time between two polls of gpuscaler
	// BusyActivity is the GPU activity (0..1) of a replica with many slots that serves one request. The activity is 1 if all slots are in
	// use.
	BusyActivity float64

	// Nodes, as Karpenter manages them.
	BatchWindow     time.Duration // time for which pending replicas are collected before nodes are launched for them
	ProvisionRetry  time.Duration // time until the next attempt to find nodes for pending replicas
	IceCache        time.Duration // time for which Karpenter does not retry an offering without capacity
	DisruptionLoop  time.Duration // time between two searches for nodes to remove
	Validation      time.Duration // time between the choice of a node to remove and its validation
	NodeTermination time.Duration // time from the decision until an empty node is not billed any more
	SpotNotice      time.Duration // time from the interruption notice until the spot node is lost
	// true: replicas are placed on the fullest node with room; false: on the emptiest node, as kube-scheduler does by default
	Pack bool
}

// DefaultAssumptions returns values for an 8B model on a cloud with Karpenter.
func DefaultAssumptions() Assumptions {
	return Assumptions{
		NodeLaunch: reproducible.Spread{Median: 60 * time.Second, Min: 20 * time.Second, Sigma: 0.2},
		GPUReady:   reproducible.Spread{Median: 60 * time.Second, Min: 10 * time.Second, Sigma: 0.3},
		ImagePull:  reproducible.Spread{Median: 130 * time.Second, Min: 10 * time.Second, Sigma: 0.1},
		ModelLoad:  reproducible.Spread{Median: 50 * time.Second, Min: 5 * time.Second, Sigma: 0.2},

		TerminationGrace: 30 * time.Second,

		ScrapeInterval: 15 * time.Second,
		ScrapeLag:      time.Second,
		PollInterval:   policy.DefaultInterval,
		BusyActivity:   0.5,

		BatchWindow:     time.Second,
		ProvisionRetry:  10 * time.Second,
		IceCache:        3 * time.Minute,
		DisruptionLoop:  10 * time.Second,
		Validation:      15 * time.Second,
		NodeTermination: 30 * time.Second,
		SpotNotice:      2 * time.Minute,
	}
}

// ofNodes returns the constants of the nodes.
func (a *Assumptions) ofNodes() karpenter.Assumptions {
	return karpenter.Assumptions{
		NodeLaunch: a.NodeLaunch, GPUReady: a.GPUReady, ImagePull: a.ImagePull, BatchWindow: a.BatchWindow, ProvisionRetry: a.ProvisionRetry,
		IceCache: a.IceCache, DisruptionLoop: a.DisruptionLoop, Validation: a.Validation, NodeTermination: a.NodeTermination,
		SpotNotice: a.SpotNotice, Pack: a.Pack,
	}
}

// Assumption is one line of the printed list.
type Assumption struct {
	Name   string `json:"name"`   // what is assumed
	Value  string `json:"value"`  // assumed value
	Source string `json:"source"` // source of the value
}

// List returns all assumptions with the source of their default values.
func (a *Assumptions) List() []Assumption {
	packing := "emptiest node first"
	if a.Pack {
		packing = "fullest node first"
	}
	return []Assumption{
		{"node launch", a.NodeLaunch.String(), "45-90 s for a generic EKS node (practitioners' figures)"},
		{"GPU ready", a.GPUReady.String(), "about a minute from node Ready to GPUs allocatable (karpenter-provider-gcp #148)"},
		{"image pull", a.ImagePull.String(), "130.8 s for a 9.35 GB vLLM image with containerd (karpenter-blueprints, soci-snapshotter)"},
		{"model load", a.ModelLoad.String(), "48 s for 8B weights from gp3 (NVIDIA Run:ai streamer benchmark)"},
		{"termination grace", a.TerminationGrace.String(), "Kubernetes' default terminationGracePeriodSeconds"},
		{"scrape interval", a.ScrapeInterval.String(), "kube-prometheus and the DCGM exporter's ServiceMonitor"},
		{"scrape lag", a.ScrapeLag.String(), "assumed"},
		{"poll interval", a.PollInterval.String(), "gpuscaler's default for a data source"},
		{"busy activity", fmt.Sprintf("%g%%", a.BusyActivity*100), "assumed: activity rises with the batch from here to 100%"},
		{"batch window", a.BatchWindow.String(), "Karpenter's batch idle duration"},
		{"provision retry", a.ProvisionRetry.String(), "Karpenter re-triggers pending pods every 10 s"},
		{"insufficient capacity cache", a.IceCache.String(), "karpenter-provider-aws UnavailableOfferingsTTL"},
		{"disruption loop", a.DisruptionLoop.String(), "Karpenter's polling period"},
		{"disruption validation", a.Validation.String(), "Karpenter's consolidation TTL"},
		{"node termination", a.NodeTermination.String(), "assumed"},
		{"spot notice", a.SpotNotice.String(), "AWS: two minutes"},
		{"packing", packing, "kube-scheduler NodeResourcesFit: LeastAllocated by default"},
		{"dispatch", "one FIFO queue per workload, to the replica with the fewest requests", "a gateway with least-request balancing"},
		{"scale-in order", "pods without a node, then not ready, then many on a node, then the youngest", "Kubernetes' ReplicaSet controller"},
		{"spot losses", "of the nodes that a trace removes, a share proportional to ours is ours", "assumed: the provider does not choose"},
		{"billing", "per second from the request for a node until it is removed", "AWS bills running instances by the second"},
		{"consolidation", "empty nodes, then one node at a time onto others or onto a cheaper one", "Karpenter without its multi-node step"},
		{"service", "tokens at the speed of a full batch, for any batch size", "conservative at low load"},
	}
}

// WriteText prints the list for a terminal.
func (a *Assumptions) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range a.List() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", line.Name, line.Value, line.Source)
	}
	return t.Flush()
}
