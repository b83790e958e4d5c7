package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

// Durations of the model of Karpenter and of the model servers.
const (
	launchTime      = 20 * time.Second // from the creation of a NodeClaim to its instance
	initializeTime  = 50 * time.Second // from the creation of a NodeClaim to a usable node
	loadTime        = 25 * time.Second // from the assignment of a pod to a node to its readiness
	terminationTime = 10 * time.Second // from the deletion of a NodeClaim to the removal of its node
	launchRetry     = 15 * time.Second // between two launches that the cloud refuses
)

// machine is what the model knows about a NodeClaim.
type machine struct {
	pool    *pool
	claim   string
	created time.Time
	stage   int // 0: requested, 1: launched, 2: usable
	deleted time.Time
	empty   time.Time // time since which no pod runs on the node; zero: a pod runs on the node
}

// whole converts each float64 in a map to int64, because the API server returns whole numbers as int64. All numbers in the manifests are
// whole.
func whole(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any:
			whole(v)
		case float64:
			m[k] = int64(v)
		}
	}
}

func sortedMachines(m map[string]*machine) []string { return slices.Sorted(maps.Keys(m)) }

func (s *simulation) nodePool(p *pool) *unstructured.Unstructured {
	u, _ := s.api.Get(apiserver.KindNodePool, p.name).(*unstructured.Unstructured)
	return u
}

// overridable contains the paths of the fields that gpuscaler may override.
var overridable = [][]string{
	{"spec", "weight"}, {"spec", "limits", gpuResource}, {"spec", "disruption", "consolidateAfter"},
	{"spec", "disruption", "consolidationPolicy"}, {"spec", "disruption", "budgets"},
}

// ownedFields returns the values of the overridable fields of a NodePool as JSON, by path; empty: the field is not set.
func ownedFields(u *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, path := range overridable {
		out[strings.Join(path, ".")] = apiserver.FieldText(u, path...)
	}
	return out
}

// gpuLimit returns the number of GPUs in spec.limits of a NodePool; -1: the NodePool has no such limit.
func gpuLimit(u *unstructured.Unstructured) int64 {
	value, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "limits", gpuResource)
	if !found {
		return -1
	}
	q := resource.MustParse(fmt.Sprint(value))
	return q.Value()
}

// runKarpenter binds pods to nodes, launches nodes for pending pods, removes empty nodes and advances the launches.
func (s *simulation) runKarpenter() {
	for _, name := range sortedMachines(s.machines) {
		s.advance(s.machines[name])
	}
	running := map[string]string{}
	for _, p := range s.pods() {
		if p.Spec.NodeName != "" {
			running[p.Spec.NodeName] = p.Name
		}
	}
	s.bind(running)
	s.launch()
	s.consolidate(running)
}

// bind assigns each pending pod to a usable node without a pod, and makes a pod ready when its loadTime has passed.
func (s *simulation) bind(running map[string]string) {
	for _, p := range s.pods() {
		switch {
		case p.Spec.NodeName == "":
			for _, name := range sortedMachines(s.machines) {
				m := s.machines[name]
				if m.stage < 2 || !m.deleted.IsZero() || running[name] != "" || m.pool.group != p.Spec.NodeSelector[poolLabel] {
					continue
				}
				next := p.DeepCopy()
				next.Spec.NodeName, next.Status.PodIP, next.Status.StartTime = name, "10.0.0.1", new(metav1.NewTime(s.now))
				next.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
				s.api.Put(apiserver.KindPod, next)
				running[name] = p.Name
				break
			}
		case !podReady(p) && s.now.Sub(p.Status.StartTime.Time) >= loadTime:
			next := p.DeepCopy()
			next.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			s.api.Put(apiserver.KindPod, next)
		}
	}
}

// launch counts the pending pods of each group, subtracts the nodes that are already being launched, and creates a NodeClaim for each
// remaining pod. Each NodeClaim belongs to the NodePool with the greatest weight whose limit permits one more node.
func (s *simulation) launch() {
	for _, group := range groupNames {
		missing := 0
		for _, p := range s.pods() {
			if p.Spec.NodeName == "" && p.Spec.NodeSelector[poolLabel] == group && s.now.Sub(p.CreationTimestamp.Time) >= 2*time.Second {
				missing++
			}
		}
		for _, m := range s.machines {
			if m.pool.group == group && m.stage < 2 && m.deleted.IsZero() {
				missing--
			}
		}
		for range missing {
			p := s.choosePool(group)
			if p == nil {
				break
			}
			s.request(p)
		}
	}
}

func (s *simulation) choosePool(group string) (best *pool) {
	greatest := int64(-1)
	for _, p := range s.pools {
		u := s.nodePool(p)
		if p.group != group || u == nil || s.now.Sub(p.refused) < launchRetry {
			continue
		}
		if limit := gpuLimit(u); limit >= 0 && s.machinesOf(p) >= limit {
			continue
		}
		if weight, _, _ := unstructured.NestedInt64(u.Object, "spec", "weight"); weight > greatest {
			best, greatest = p, weight
		}
	}
	return best
}

func (s *simulation) machinesOf(p *pool) (n int64) {
	for _, m := range s.machines {
		if m.pool == p {
			n++
		}
	}
	return n
}

// request creates a NodeClaim. The cloud refuses it at once if it has no capacity.
func (s *simulation) request(p *pool) {
	s.claims++
	name := fmt.Sprintf("%s-%04d", p.name, s.claims)
	refused := s.faults.refusesLaunch(p, s.now)
	m := &machine{pool: p, claim: name, created: s.now}
	s.putClaim(m)
	if refused {
		p.refused = s.now
		s.trace("the cloud refuses a node of %s", p.name)
		s.api.Remove(apiserver.KindNodeClaim, name)
		return
	}
	s.machines[name] = m
}

// putClaim writes the NodeClaim of a machine.
func (s *simulation) putClaim(m *machine) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": apiserver.KindNodeClaim,
		"metadata": map[string]any{"name": m.claim, "labels": map[string]any{
			"karpenter.sh/nodepool": m.pool.name, "karpenter.sh/capacity-type": m.pool.capacityType, poolLabel: m.pool.group,
			"node.kubernetes.io/instance-type": "g6e.xlarge"}},
		"spec": map[string]any{
			"resources": map[string]any{"requests": map[string]any{gpuResource: "1"}}, "expireAfter": "Never",
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
			"requirements": []any{},
		},
	}}
	status := map[string]any{}
	condition := func(kind string) map[string]any { return map[string]any{"type": kind, "status": "True"} }
	var conditions []any
	if m.stage >= 1 {
		status["providerID"], status["nodeName"] = "cloud://"+m.claim, m.claim
		status["capacity"] = map[string]any{gpuResource: "1"}
		conditions = append(conditions, condition("Launched"))
	}
	if m.stage == 2 {
		conditions = append(conditions, condition("Initialized"))
	}
	if !m.deleted.IsZero() {
		conditions = append(conditions, condition("DisruptionReason"))
	}
	if conditions != nil {
		status["conditions"] = conditions
	}
	u.Object["status"] = status
	if live := s.api.Get(apiserver.KindNodeClaim, m.claim); live != nil {
		u.SetUID(live.GetUID())
		u.SetCreationTimestamp(live.GetCreationTimestamp())
	}
	if !m.deleted.IsZero() {
		u.SetDeletionTimestamp(new(metav1.NewTime(m.deleted)))
	}
	s.api.Put(apiserver.KindNodeClaim, u)
}

// advance continues a launch or a termination: it moves the machine to its next stage, or removes it, when the time for this has passed.
func (s *simulation) advance(m *machine) {
	age := s.now.Sub(m.created)
	switch {
	case !m.deleted.IsZero() && s.now.Sub(m.deleted) >= terminationTime:
		s.removeMachine(m)
	case m.stage == 0 && age >= launchTime:
		m.stage = 1
		s.putClaim(m)
	case m.stage == 1 && age >= initializeTime:
		m.stage = 2
		s.putClaim(m)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.claim, Labels: map[string]string{poolLabel: m.pool.group}}}
		node.Status.Allocatable = corev1.ResourceList{gpuResource: resource.MustParse("1")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(s.now)}}
		s.api.Put(apiserver.KindNode, node)
	}
}

// removeMachine deletes a node and its pods.
func (s *simulation) removeMachine(m *machine) {
	for _, p := range s.pods() {
		if p.Spec.NodeName == m.claim {
			s.api.Remove(apiserver.KindPod, namespace+"/"+p.Name)
		}
	}
	s.api.Remove(apiserver.KindNode, m.claim)
	s.api.Remove(apiserver.KindNodeClaim, m.claim)
	delete(s.machines, m.claim)
}

// consolidate deletes nodes without pods after consolidateAfter, unless a budget permits no disruption.
func (s *simulation) consolidate(running map[string]string) {
	for _, name := range sortedMachines(s.machines) {
		m := s.machines[name]
		switch {
		case running[name] != "" || m.stage < 2 || !m.deleted.IsZero():
			m.empty = time.Time{}
			continue
		case m.empty.IsZero():
			m.empty = s.now
		}
		u := s.nodePool(m.pool)
		if u == nil {
			continue
		}
		after, _, _ := unstructured.NestedString(u.Object, "spec", "disruption", "consolidateAfter")
		wait, err := time.ParseDuration(after)
		if err != nil || s.now.Sub(m.empty) < wait || blocked(u) {
			continue
		}
		m.deleted = s.now
		s.putClaim(m)
	}
}

// blocked reports whether a budget permits no disruption of empty nodes. Budgets with a schedule are ignored.
func blocked(u *unstructured.Unstructured) bool {
	budgets, _, _ := unstructured.NestedSlice(u.Object, "spec", "disruption", "budgets")
	for _, b := range budgets {
		if m, ok := b.(map[string]any); ok && m["nodes"] == "0" && m["schedule"] == nil {
			return true
		}
	}
	return false
}

// interrupt removes a usable spot node and its pods, as if the cloud interrupts the instance. The index of the node is n modulo the number
// of usable spot nodes.
func (s *simulation) interrupt(n int) {
	names := sortedMachines(s.machines)
	names = slices.DeleteFunc(names, func(name string) bool {
		return s.machines[name].pool.capacityType != "spot" || s.machines[name].stage < 2
	})
	if len(names) == 0 {
		return
	}
	m := s.machines[names[n%len(names)]]
	s.trace("the cloud takes node %s", m.claim)
	s.removeMachine(m)
}
