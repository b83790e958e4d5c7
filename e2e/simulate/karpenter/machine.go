package karpenter

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

// machine is the state of a NodeClaim in the model.
type machine struct {
	pool    *pool
	claim   string
	created time.Time
	stage   stage
	deleted time.Time
	empty   time.Time // time since which no pod runs on the node; zero: a pod runs on the node
}

// stage is how far a launch has progressed.
type stage uint8

const (
	requested stage = iota
	launched
	usable
)

// bind assigns each pending pod to a usable node without a pod, and makes a pod ready when its loadTime has passed.
func (c *Cluster) bind(running map[string]string) {
	now := c.around.Now()
	for _, p := range c.api.Pods() {
		switch {
		case p.Spec.NodeName == "":
			for _, name := range c.names() {
				m := c.machines[name]
				if m.stage < usable || !m.deleted.IsZero() || running[name] != "" || m.pool.Group != p.Spec.NodeSelector[GroupLabel] {
					continue
				}
				next := p.DeepCopy()
				next.Spec.NodeName, next.Status.PodIP, next.Status.StartTime = name, "10.0.0.1", new(metav1.NewTime(now))
				next.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
				c.api.Put(apiserver.KindPod, next)
				running[name] = p.Name
				break
			}
		case !apiserver.Ready(p) && now.Sub(p.Status.StartTime.Time) >= loadTime:
			next := p.DeepCopy()
			next.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			c.api.Put(apiserver.KindPod, next)
		}
	}
}

// putClaim writes the NodeClaim of a machine to the API server.
func (c *Cluster) putClaim(m *machine) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": apiserver.KindNodeClaim,
		"metadata": map[string]any{"name": m.claim, "labels": map[string]any{
			"karpenter.sh/nodepool": m.pool.Name, "karpenter.sh/capacity-type": m.pool.CapacityType, GroupLabel: m.pool.Group,
			"node.kubernetes.io/instance-type": "g6e.xlarge"}},
		"spec": map[string]any{
			"resources": map[string]any{"requests": map[string]any{Resource: "1"}}, "expireAfter": "Never",
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
			"requirements": []any{},
		},
	}}
	status := map[string]any{}
	condition := func(kind string) map[string]any { return map[string]any{"type": kind, "status": "True"} }
	var conditions []any
	if m.stage >= launched {
		status["providerID"], status["nodeName"] = "cloud://"+m.claim, m.claim
		status["capacity"] = map[string]any{Resource: "1"}
		conditions = append(conditions, condition("Launched"))
	}
	if m.stage == usable {
		conditions = append(conditions, condition("Initialized"))
	}
	if !m.deleted.IsZero() {
		conditions = append(conditions, condition("DisruptionReason"))
	}
	if conditions != nil {
		status["conditions"] = conditions
	}
	u.Object["status"] = status
	if live := c.api.Get(apiserver.KindNodeClaim, m.claim); live != nil {
		u.SetUID(live.GetUID())
		u.SetCreationTimestamp(live.GetCreationTimestamp())
	}
	if !m.deleted.IsZero() {
		u.SetDeletionTimestamp(new(metav1.NewTime(m.deleted)))
	}
	c.api.Put(apiserver.KindNodeClaim, u)
	m.pool.changed = c.around.Now()
}

// advance continues a launch or a termination: when the time of the current stage has passed, it moves the machine to its next stage, or
// removes it.
func (c *Cluster) advance(m *machine) {
	now := c.around.Now()
	age := now.Sub(m.created)
	switch {
	case !m.deleted.IsZero() && now.Sub(m.deleted) >= terminationTime:
		c.remove(m)
	case m.stage == requested && age >= launchTime:
		m.stage = launched
		c.putClaim(m)
	case m.stage == launched && age >= initializeTime:
		m.stage = usable
		c.putClaim(m)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.claim, Labels: map[string]string{GroupLabel: m.pool.Group}}}
		node.Status.Allocatable = corev1.ResourceList{Resource: resource.MustParse("1")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(now)}}
		c.api.Put(apiserver.KindNode, node)
	}
}

// remove deletes a node and its pods.
func (c *Cluster) remove(m *machine) {
	for _, p := range c.api.Pods() {
		if p.Spec.NodeName == m.claim {
			c.api.Remove(apiserver.KindPod, p.Namespace+"/"+p.Name)
		}
	}
	c.api.Remove(apiserver.KindNode, m.claim)
	c.api.Remove(apiserver.KindNodeClaim, m.claim)
	delete(c.machines, m.claim)
	m.pool.changed = c.around.Now()
}
