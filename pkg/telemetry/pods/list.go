// Package pods combines what the pods of workloads report into one reading for each signal.
//
// A [List] contains the pods of the workloads of one poll. A row of a List is one pod of one workload. [Gauges] and [GPUs] collect the
// samples of a poll for each row, from a Prometheus query or from scraped pages, and combine them. [Totals] keeps the total of each
// workload between polls. The queue of a terminated pod is included until the samples of all other pods are newer than its termination.
package pods

import (
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Exporters lists pods that do not belong to a workload, such as the DCGM exporter on each node. Package cluster implements it.
type Exporters interface {
	Exporters(namespace string, labels map[string]string) []engine.Pod
}

// Nodes reports whether a node divides its GPUs into shares (time-slicing, MPS). Package cluster implements it.
type Nodes interface {
	SharesGPUs(node string) bool
}

// Cluster provides the pods and nodes of the cluster. If a field is nil, there are no pods, no exporters or no shared GPUs.
type Cluster struct {
	Pods      engine.Pods
	Exporters Exporters
	Nodes     Nodes
}

// List contains the pods of the workloads of one poll, indexed by name. A pod that several policies select has one row for each policy.
type List struct {
	Workloads []Workload
	Rows      []Row
	index     map[exposition.Owner]int32 // first row of each pod; Row.next is the next row of the same pod
}

// Workload contains the requests of one workload in a poll, and the range of the rows of its pods.
type Workload struct {
	Requests []source.Request
	Offset   int // index of Requests[0] in the requests of the poll

	first, end int   // range of the rows of its pods in List.Rows
	ready      int32 // number of ready pods
	replicas   int32 // number of ready replicas; a replica may be a group of several pods
}

// Row is one pod of one workload.
type Row struct {
	Pod   engine.Pod
	Fault scaling.Cause // why the pod has no sample; CauseNone if no reason is known

	workload int32
	next     int32 // next row of the same pod; -1: there is none

	value   float64 // value of the pod in the last reading that combine computed
	counted bool    // whether the last reading that combine computed includes the value
}

// New returns a List of the pods of the workloads in requests. The requests of one workload must be adjacent. If a replica is a group of
// pods, only its leader serves the metrics of the engine: with leadersOnly, the list contains only the leader of each group. For GPU
// metrics set leadersOnly to false, because every pod of a group can have GPUs.
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

// Find returns the first row of a pod. It returns -1 if the pod does not belong to a workload of the list.
func (l *List) Find(o exposition.Owner) int32 {
	if row, ok := l.index[o]; ok {
		return row
	}
	return -1
}

// Next returns the next row of the same pod, or -1 if there is none.
func (l *List) Next(row int32) int32 { return l.Rows[row].next }

// Owner returns the namespace and the name of the pod in a row.
func (l *List) Owner(row int) exposition.Owner {
	return exposition.Owner{Namespace: l.of(row).Requests[0].Namespace(), Pod: l.Rows[row].Pod.Name}
}

func (l *List) of(row int) *Workload { return &l.Workloads[l.Rows[row].workload] }

// OnNode calls the function each with every row of the pod o if the pod runs on the given node. If the parameter node is empty, the pod
// may run on any node. If the pod runs on another node, OnNode does not call each, but sets the fault CauseUndeclared in the rows,
// because an exporter must not report about pods of other nodes.
func (l *List) OnNode(o exposition.Owner, node string, each func(row int32)) {
	for row := l.Find(o); row >= 0; row = l.Next(row) {
		if node != "" && l.Rows[row].Pod.Node != node {
			l.setUndeclared(row)
			continue
		}
		each(row)
	}
}

// Refuse sets the fault CauseUndeclared in the rows of the pod o, except in rows that already have a fault. It is called for a series that
// names the pod o, but was served by another pod that is not a declared exporter.
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
