package cache

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/manual"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// refresh recomputes the view, the list of pods and the refusal of the entry. It allocates new slices, because readers can still use the
// slices of the previous result. The caller holds the lock of the cache.
func (e *entry) refresh() {
	v := engine.View{}
	v.MinReplicas, v.MaxReplicas = e.bounds()
	operators := make([]*manual.Operator, 0, 2)
	e.readSize()
	if e.target != nil {
		e.extended, e.perPod, e.unknown = e.effectiveResources()
		v.Replicas, v.GPUs = e.target.Replicas, e.gpus()
		e.countReplicas(&v)
		v.Version = e.softwareVersion(e.view.Version)
		e.setStarted(&v)
		if v.Rejection = e.rejection(); v.Rejection.Kind != "" {
			// if no replica is missing, the API server rejected an additional pod of a rolling update
			v.Rejected = max(e.missingReplicas(), 1)
		}
		operators = append(operators, &e.target.operator)
	}
	for _, name := range slices.Sorted(maps.Keys(e.hpas)) {
		operators = append(operators, &e.hpas[name].operator)
	}
	if e.scaledObject != nil {
		operators = append(operators, &e.scaledObject.operator)
	}
	v.Operator, v.OperatorBy = manual.Merge(operators...)
	if e.scaledObject != nil && e.target != nil {
		v.Operator, v.OperatorBy = e.scaledObject.pause.Over(v.Operator, v.OperatorBy, v.Replicas)
	}
	v.ManagedHPA, e.policy = e.managedHPA()
	e.view = v
	e.list = e.listPods()
	e.refusal = e.refuse()
}

// refuse returns the reason why gpuscaler computes no target, or an empty string. Only kinds that are read through /scale can be refused,
// because /scale does not report how many pods a replica has: if each of several pods counted as a replica, every target would be too high.
// refuse returns a reason if there are at least twice as many pods as replicas, where the number of replicas is the greater of
// spec.replicas and status.replicas. During a rolling update, refuse may return a reason until status.replicas includes the new pods.
func (e *entry) refuse() string {
	t := e.target
	switch {
	case t == nil || !t.ReadScale && t.undescribed == "":
		return ""
	case t.undescribed != "":
		return t.undescribed + ": no target is computed"
	case e.unsized() != "":
		return fmt.Sprintf("%s: pod %s has no environment variable %s with a number from 1 to %d, which scaleKinds names as podsPerReplica "+
			"of the kind: no target is computed", t.Ref, e.unsized(), t.SizeVariable, gpupods.MaxGPUs)
	}
	pods, replicas := len(e.list), max(t.Replicas, t.StatusReplicas, 1)
	switch {
	case t.Size > 1 && e.unnamed() != "":
		return fmt.Sprintf("%s: pod %s has no label %s, which scaleKinds names as replicaLabel of the kind: no target is computed", t.Ref,
			e.unnamed(), t.ReplicaLabel)
	case pods < 2*int(replicas)*int(t.Size):
		return ""
	case t.Size > 1:
		return fmt.Sprintf("%s has %d pods for %d replicas, and scaleKinds describes %d pods per replica of the kind: no target is computed",
			t.Ref, pods, replicas, t.Size)
	}
	return fmt.Sprintf("%s has %d pods for %d replicas, and /scale does not report how many pods a replica has: describe the kind with "+
		"podsPerReplica and replicaLabel in scaleKinds of the chart; no target is computed", t.Ref, pods, replicas)
}

// podsByReplica returns the pods that have neither finished nor are terminating, by the value of the label that identifies their replica.
// For a kind without such a label, all pods have the key "".
func (e *entry) podsByReplica() map[string][]*Pod {
	pods := map[string][]*Pod{}
	for _, p := range e.pods {
		if p.phase != ended {
			replica := p.Labels[e.target.ReplicaLabel]
			pods[replica] = append(pods[replica], p)
		}
	}
	return pods
}

// unnamed returns the first pod, by name, that lacks the label that identifies its replica, or "" if no pod lacks it.
func (e *entry) unnamed() (name string) {
	for _, p := range e.podsByReplica()[""] {
		if name == "" || p.Name < name {
			name = p.Name
		}
	}
	return name
}

// countReplicas sets the numbers of ready, loading, pending and crashing replicas in v. Pods that have finished or are terminating are not
// counted.
func (e *entry) countReplicas(v *engine.View) {
	for _, p := range e.pods {
		if p.phase == inCrashLoop && (v.CrashingPod == "" || p.Name < v.CrashingPod) {
			v.CrashingPod = p.Name
		}
	}
	if e.target.Size > 1 {
		e.countGroups(v)
		return
	}
	for _, p := range e.pods {
		switch p.phase {
		case ready:
			v.Ready++
		case loading:
			v.Loading++
		case pending:
			v.Pending++
		case inCrashLoop:
			v.Crashing++
		}
	}
}

// countGroups sets the numbers of ready, loading, pending and crashing replicas in v, for replicas with several pods. The state of a
// replica is the first matching state of this list:
//
//   - crashing: one of its pods is in a crash loop
//   - pending: one of its pods has no node
//   - ready: all of its pods are ready
//   - loading: any other replica, for example a replica whose workers are not created yet (startupPolicy LeaderReady)
func (e *entry) countGroups(v *engine.View) {
	for _, pods := range e.podsByReplica() {
		switch {
		case countPhase(pods, inCrashLoop) > 0:
			v.Crashing++
		case countPhase(pods, pending) > 0:
			v.Pending++
		case countPhase(pods, ready) >= e.sizeOf(pods):
			v.Ready++
		default:
			v.Loading++
		}
	}
}

// countPhase returns the number of pods in a phase.
func countPhase(pods []*Pod, of phase) (n int32) {
	for _, p := range pods {
		if p.phase == of {
			n++
		}
	}
	return n
}

// listPods returns the pods from which metrics can be read, sorted by name. Pods that have finished or are terminating are excluded.
func (e *entry) listPods() []engine.Pod {
	list := make([]engine.Pod, 0, len(e.pods))
	for _, p := range e.pods {
		if p.phase != ended {
			list = append(list, p.pod)
		}
	}
	slices.SortFunc(list, func(a, b engine.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
