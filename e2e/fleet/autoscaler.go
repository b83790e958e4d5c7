package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// autoscaler simulates Cluster Autoscaler for this test: it adds and removes the nodes of one node group. Each rule is quoted from the
// FAQ of Cluster Autoscaler (github.com/kubernetes/autoscaler, cluster-autoscaler/FAQ.md, commit
// 0024f2540ecebb95ac72ceb28da995f1f7bc0491) or from its code. Only the times are shorter. The simulation omits rules that the test does
// not need: expanders, PodDisruptionBudgets, local storage, DaemonSets.
type autoscaler struct {
	client client.Client
	group  nodeGroup

	mu       sync.Mutex
	created  int                  // number of nodes that were ever created
	most     int                  // the greatest number of nodes that existed at the same time
	unneeded map[string]time.Time // time since which a node is unneeded, by node
	booked   bool                 // a ProvisioningRequest reserves the nodes
}

// nodeGroup is a group of identical nodes, such as an instance group of a cloud provider.
type nodeGroup struct {
	name   string // prefix of the names of its nodes
	labels map[string]string
	gpus   int64 // number of GPUs of each node
	max    int   // maximum number of nodes: "sets min,max size [...] for a node group" (parameter nodes)
}

const (
	// "How often cluster is reevaluated for scale up or down": scan-interval, by default 10 seconds.
	scanInterval = 500 * time.Millisecond
	// "How long a node should be unneeded before it is eligible for scale down": scale-down-unneeded-time, by default 10 minutes.
	unneededTime = 4 * time.Second
	// The utilization "below which a node can be considered for scale down": scale-down-utilization-threshold, by default 0.5.
	utilizationThreshold = 0.5
	// "Pods that have the following annotation set" to "false" prevent the removal of their node.
	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// "Default priority cutoff is -10": pods with a lower priority "don't trigger scale-ups" and "don't prevent scale-downs".
	priorityCutoff = -10
	// A node is considered for removal if "it doesn't have scale-down disabled annotation".
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// run scans the cluster until ctx ends.
func (a *autoscaler) run(ctx context.Context) {
	a.unneeded = map[string]time.Time{}
	for ctx.Err() == nil {
		if err := a.scan(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "autoscaler:", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(scanInterval):
		}
	}
}

// state is the result of reading the cluster for one scan: the nodes of the group, their pods, and the pending pods that could run on a
// node of the group.
type state struct {
	nodes   []corev1.Node
	pods    map[string][]corev1.Pod // pods on each node
	waiting int64                   // GPUs of unschedulable pods that a node of the group would accept
}

func (a *autoscaler) scan(ctx context.Context) error {
	s, err := a.read(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.most = max(a.most, len(s.nodes))
	a.mu.Unlock()
	// "if no scale-up is needed, Cluster Autoscaler checks which nodes are unneeded"
	if s.waiting > 0 {
		clear(a.unneeded)
		return a.scaleUp(ctx, s)
	}
	return a.scaleDown(ctx, s)
}

func (a *autoscaler) read(ctx context.Context) (*state, error) {
	var nodes corev1.NodeList
	if err := a.client.List(ctx, &nodes, client.MatchingLabels(a.group.labels)); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := a.client.List(ctx, &pods); err != nil {
		return nil, err
	}
	s := &state{nodes: nodes.Items, pods: map[string][]corev1.Pod{}}
	for _, p := range pods.Items {
		switch {
		case p.Spec.Priority != nil && *p.Spec.Priority < priorityCutoff:
		case p.Spec.NodeName != "":
			s.pods[p.Spec.NodeName] = append(s.pods[p.Spec.NodeName], p)
		case unschedulable(&p) && a.fits(&p):
			s.waiting += gpusOf(&p)
		}
	}
	return s, nil
}

// unschedulable reports whether a pod is unschedulable by these rules: "Unschedulable pods are recognized by their PodCondition. Whenever a
// Kubernetes scheduler fails to find a place to run a pod, it sets "schedulable" PodCondition to false and reason to "unschedulable"."
//
// "Cluster Autoscaler also doesn't trigger scale-up if an unschedulable pod is already waiting for a lower priority pod preemption."
func unschedulable(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Status.NominatedNodeName != "" {
		return false
	}
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// fits reports whether a pod could run on a new node of the group: "Cluster Autoscaler creates template nodes for each of the node groups
// and checks if any of the unschedulable pods would fit on a new node." It "respects nodeSelector".
func (a *autoscaler) fits(p *corev1.Pod) bool {
	for key, value := range p.Spec.NodeSelector {
		if a.group.labels[key] != value {
			return false
		}
	}
	return len(p.Spec.NodeSelector) > 0 && gpusOf(p) <= a.group.gpus
}

func gpusOf(p *corev1.Pod) (gpus int64) {
	for _, c := range p.Spec.Containers {
		gpus += c.Resources.Limits.Name(stack.GPU, resource.DecimalSI).Value()
	}
	return gpus
}

// scaleUp adds as many nodes as the unschedulable pods need in addition to the nodes that are still starting, up to the maximum of the
// group.
func (a *autoscaler) scaleUp(ctx context.Context, s *state) error {
	free := int64(0)
	for i := range s.nodes {
		free += a.free(s, s.nodes[i].Name)
	}
	for short := s.waiting - free; short > 0 && len(s.nodes) < a.group.max; short -= a.group.gpus {
		node := a.template()
		if err := a.client.Create(ctx, node); err != nil {
			return err
		}
		s.nodes = append(s.nodes, *node)
	}
	return nil
}

func (a *autoscaler) free(s *state, node string) int64 { return a.group.gpus - used(s.pods[node]) }

func used(pods []corev1.Pod) (gpus int64) {
	for i := range pods {
		gpus += gpusOf(&pods[i])
	}
	return gpus
}

// template returns a new node of the group: "Inside a node group, all machines have identical capacity and have the same set of assigned
// labels."
func (a *autoscaler) template() *corev1.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.created++
	name := a.group.name + "-" + strconv.Itoa(a.created)
	labels := map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "type": "kwok"}
	for key, value := range a.group.labels {
		labels[key] = value
	}
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods: resource.MustParse("110"), stack.GPU: *resource.NewQuantity(a.group.gpus, resource.DecimalSI)}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
}

// scaleDown removes one node that was unneeded for unneededTime: "If a node is unneeded for more than 10 minutes, it will be terminated."
// "Cluster Autoscaler terminates one non-empty node at a time to reduce the risk of creating new unschedulable pods."
func (a *autoscaler) scaleDown(ctx context.Context, s *state) error {
	now := time.Now()
	for i := range s.nodes {
		name := s.nodes[i].Name
		if !a.removable(s, &s.nodes[i]) {
			delete(a.unneeded, name)
			continue
		}
		if since, known := a.unneeded[name]; !known {
			a.unneeded[name] = now
		} else if now.Sub(since) > unneededTime {
			clear(a.unneeded) // the other nodes are examined again, because the evicted pods will run on them
			return a.drain(ctx, &s.nodes[i], s.pods[name])
		}
	}
	return nil
}

// removable reports whether a node may be removed: "A node is considered for removal when all below conditions hold: The sum of [...]
// requests of all pods running on this node [is] smaller than 50% of the node's allocatable. All pods running on the node [...] can be
// moved to other nodes. It doesn't have scale-down disabled annotation." Of a node with GPUs only the GPUs count: "Skips cpu and memory
// utilization calculation for node with GPU" (cluster-autoscaler/simulator/utilization/info.go, commit
// 1acc8c203c25e68b4918c04e3afe3243b70bd513).
func (a *autoscaler) removable(s *state, n *corev1.Node) bool {
	gpus := used(s.pods[n.Name])
	if a.isBooked() || n.Annotations[scaleDownDisabled] == "true" || float64(gpus) >= utilizationThreshold*float64(a.group.gpus) {
		return false
	}
	for _, p := range s.pods[n.Name] {
		if p.Annotations[safeToEvict] == "false" {
			return false
		}
	}
	elsewhere := int64(0)
	for i := range s.nodes {
		if s.nodes[i].Name != n.Name {
			elsewhere += a.free(s, s.nodes[i].Name) // each free GPU has space for one pod, because each pod of this test requests one GPU
		}
	}
	return gpus <= elsewhere
}

func (a *autoscaler) isBooked() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.booked
}

// book sets whether a ProvisioningRequest currently reserves the nodes.
func (a *autoscaler) book(booked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.booked = booked
}

// drain evicts the pods of a node that is removed: "all pods should be migrated elsewhere. Cluster Autoscaler does this by evicting them
// and tainting the node". The Node object is deleted by the cloud node controller.
func (a *autoscaler) drain(ctx context.Context, n *corev1.Node, pods []corev1.Pod) error {
	tainted, leaves := n.DeepCopy(), corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}
	tainted.Spec.Taints = append(tainted.Spec.Taints, leaves)
	if err := a.client.Patch(ctx, tainted, client.MergeFrom(n)); err != nil {
		return err
	}
	for i := range pods {
		if err := a.client.SubResource("eviction").Create(ctx, &pods[i], &policyv1.Eviction{}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return a.client.Delete(ctx, n)
}

// lose removes a node and its pods at once, as if its machine failed. The pods are deleted as the pod garbage collector would delete
// them.
func (a *autoscaler) lose(ctx context.Context, node string) error {
	s, err := a.read(ctx)
	if err != nil {
		return err
	}
	err = a.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	for i := range s.pods[node] {
		err = errors.Join(err, client.IgnoreNotFound(a.client.Delete(ctx, &s.pods[node][i], client.GracePeriodSeconds(0))))
	}
	return err
}

// greatest returns the greatest number of nodes that the group had at the same time.
func (a *autoscaler) greatest() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most
}
