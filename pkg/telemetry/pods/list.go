// Package pods combines what the pods of workloads report into one reading for each signal.
//
// A [List] has the pods of the workloads of one poll. [Gauges] and [GPUs] collect the samples of a poll by pod, from a Prometheus query or
// from scraped pages, and combine them. [Totals] keeps the total of each workload between polls, so that the queue of a pod that
// terminates is counted until the samples of the other pods are newer.
package pods

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Exporters lists pods that belong to no workload, such as the DCGM exporters, of which one runs on each node. Package cluster implements
// it.
type Exporters interface {
	Exporters(namespace string, labels map[string]string) []engine.Pod
}

// Nodes reports which nodes offer shares of their GPUs (time-slicing, MPS). Package cluster implements it.
type Nodes interface {
	SharesGPUs(node string) bool
}

// Cluster provides the pods and nodes of the cluster to the sources. If a field is nil, the sources see no pods, no exporters or no shared
// GPUs.
type Cluster struct {
	Pods      engine.Pods
	Exporters Exporters
	Nodes     Nodes
}

// List contains the pods of the workloads of one poll, indexed by name. A pod that several policies select has one row for each policy.
type List struct {
	Workloads []Workload
	Rows      []Row
	index     map[exposition.Owner]int32 // the first row of each pod; further rows of the same pod are linked by next
}

// Workload is one workload of a poll: its requests and the rows of its pods.
type Workload struct {
	Requests []source.Request
	Offset   int // index of Requests[0] in the requests of the poll

	first, end int   // range of its rows
	ready      int32 // number of ready pods
	replicas   int32 // number of ready replicas; a replica may be a group of several pods
}

// Row is one pod of one workload.
type Row struct {
	Pod   engine.Pod
	Fault scaling.Cause // why the pod has no sample, if that is known

	workload int32
	next     int32 // next row of the same pod; -1: there is none

	value   float64 // value of the pod in the last combined reading
	counted bool    // value is part of that reading
}

// New returns a List of the pods of the workloads in requests. The requests of one workload must be adjacent. If a replica is a group of
// pods with a leader, leadersOnly leaves out the other pods, because only the leader serves the metrics of the engine. Set it to false for
// GPU metrics, because every pod of a group can have GPUs.
func New(requests []source.Request, pods engine.Pods, leadersOnly bool) *List {
	l := &List{index: map[exposition.Owner]int32{}}
	for start := 0; start < len(requests); {
		end := start + 1
		for end < len(requests) && requests[end].Workload == requests[start].Workload {
			end++
		}
		l.add(Workload{Requests: requests[start:end], Offset: start}, pods, leadersOnly)
		start = end
	}
	return l
}

func (l *List) add(w Workload, pods engine.Pods, leadersOnly bool) {
	w.first = len(l.Rows)
	var list []engine.Pod
	if pods != nil {
		list = pods.Pods(w.Requests[0].Workload)
	}
	groups := slices.ContainsFunc(list, func(p engine.Pod) bool { return p.Leader })
	leadersOnly = leadersOnly && groups
	for _, p := range list {
		if p.Ready && (p.Leader || !groups) {
			w.replicas++
		}
		if leadersOnly && !p.Leader {
			continue
		}
		if p.Ready {
			w.ready++
		}
		owner := exposition.Owner{Namespace: w.Requests[0].Namespace(), Pod: p.Name}
		next := l.Find(owner)
		l.index[owner] = int32(len(l.Rows))
		l.Rows = append(l.Rows, Row{Pod: p, workload: int32(len(l.Workloads)), next: next})
	}
	w.end = len(l.Rows)
	l.Workloads = append(l.Workloads, w)
}

// Find returns the first row of a pod, or -1 where the pod belongs to no workload of the list.
func (l *List) Find(o exposition.Owner) int32 {
	if row, ok := l.index[o]; ok {
		return row
	}
	return -1
}

// Next returns the next row of the same pod, or -1.
func (l *List) Next(row int32) int32 { return l.Rows[row].next }

// Owner returns the namespace and name of a row's pod.
func (l *List) Owner(row int) exposition.Owner {
	return exposition.Owner{Namespace: l.of(row).Requests[0].Namespace(), Pod: l.Rows[row].Pod.Name}
}

func (l *List) of(row int) *Workload { return &l.Workloads[l.Rows[row].workload] }

// OnNode calls each with the rows of the pod o, if the pod runs on the node. An empty node permits any node. If the pod runs on another
// node, its rows get the fault CauseUndeclared instead, because an exporter must not report about the pods of other nodes.
func (l *List) OnNode(o exposition.Owner, node string, each func(row int32)) {
	for row := l.Find(o); row >= 0; row = l.Next(row) {
		if node != "" && l.Rows[row].Pod.Node != node {
			l.setUndeclared(row)
			continue
		}
		each(row)
	}
}

// Refuse sets the fault CauseUndeclared in the rows of a pod, unless they have a fault. It is called for a pod that is named in a series of
// another pod, if that other pod is not a declared exporter.
func (l *List) Refuse(o exposition.Owner) {
	for row := l.Find(o); row >= 0; row = l.Next(row) {
		l.setUndeclared(row)
	}
}

func (l *List) setUndeclared(row int32) {
	if l.Rows[row].Fault == scaling.CauseNone {
		l.Rows[row].Fault = scaling.CauseUndeclared
	}
}

// mostRequests returns the greatest number of requests of one workload.
func (l *List) mostRequests() int {
	n := 0
	for i := range l.Workloads {
		n = max(n, len(l.Workloads[i].Requests))
	}
	return n
}
