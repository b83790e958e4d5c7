package snapshot

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// ReadNodes adds the Nodes of a cluster to the snapshot. If the Nodes cannot be listed, it adds the reason to Unread.
func (s *Snapshot) ReadNodes(ctx context.Context, client dynamic.Interface) {
	before := len(s.Unread)
	s.each(ctx, client.Resource(nodes), nodes, "", s.addNode)
	s.nodesRead = len(s.Unread) == before
}

// addNode adds a Node of the API server or of a file. A Node that cannot be decoded is ignored. Only the fields that the checks need are
// kept, so that a large cluster needs little memory.
func (s *Snapshot) addNode(u *unstructured.Unstructured) {
	n := &corev1.Node{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, n) == nil {
		s.nodesRead = true
		s.nodes = append(s.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels},
			Spec: corev1.NodeSpec{Taints: n.Spec.Taints}, Status: corev1.NodeStatus{Allocatable: n.Status.Allocatable}})
	}
}

// nearLabels is the maximum number of labels in objects.GroupNodes.Near. This field contains labels of nodes outside the group whose key is
// in the group's nodeSelector with another value, for example because the nodeSelector is misspelled.
const nearLabels = 5

// GroupNodes returns the Nodes of a capacity group that selects its nodes by a nodeSelector. known is false if Nodes were not read.
func (s *Snapshot) GroupNodes(g *capacity.Group, groups []*capacity.Group) (found objects.GroupNodes, known bool) {
	near := map[string]bool{}
	for _, n := range s.nodes {
		if !member(n, g, groups) {
			for key := range g.NodeSelector {
				if value, has := n.Labels[key]; has && value != g.NodeSelector[key] {
					near[key+"="+value] = true
				}
			}
			continue
		}
		units := allocatable(n, g.Resource)
		found.Nodes, found.Units, found.Largest = found.Nodes+1, found.Units+units, max(found.Largest, units)
	}
	found.Near = slices.Sorted(maps.Keys(near))
	found.Near = found.Near[:min(len(found.Near), nearLabels)]
	return found, s.nodesRead
}

// member reports whether a Node belongs to the group. A Node that Karpenter launched belongs to no group with a nodeSelector. A Node that
// matches the nodeSelector of several groups belongs to the first of these groups.
func member(n *corev1.Node, g *capacity.Group, groups []*capacity.Group) bool {
	first := capacity.FirstMatch(groups, n.Labels)
	return n.Labels[karpv1.NodePoolLabelKey] == "" && first != nil && first.Name == g.Name
}

func allocatable(n *corev1.Node, resource string) int64 {
	quantity := n.Status.Allocatable[corev1.ResourceName(resource)]
	return quantity.Value()
}

// Placement returns the Nodes on which the pods of a template can run, according to their node selector, required node affinity and
// tolerations. known is false if Nodes were not read.
func (s *Snapshot) Placement(template *corev1.PodSpec, g *capacity.Group, groups []*capacity.Group) (p objects.Placement, known bool) {
	pod := &corev1.Pod{Spec: *template}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	p.Tolerates = len(template.Tolerations) > 0
	for _, key := range slices.Sorted(maps.Keys(template.NodeSelector)) {
		if want, selected := g.NodeSelector[key]; selected && want != template.NodeSelector[key] {
			p.Label, p.LabelOfGroup = key+"="+template.NodeSelector[key], true
		}
	}
	for _, n := range s.nodes {
		matches, err := affinity.Match(n)
		matches = matches && err == nil
		taint, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, template.Tolerations,
			blocksScheduling, false)
		switch {
		case !member(n, g, groups):
			if matches && !untolerated && allocatable(n, g.Resource) > 0 {
				p.Elsewhere++
			}
		case matches && !untolerated:
			p.Accepted++
		case matches:
			p.Taint = taint.ToString()
		case p.Label == "":
			p.Label = missingLabel(template.NodeSelector, n.Labels)
		}
	}
	return p, s.nodesRead
}

// blocksScheduling reports whether a taint permanently keeps pods off a node. It ignores taints about a temporary condition, for example of
// a cordoned or unreachable node. It also ignores taints by which Cluster Autoscaler or a cloud provider marks a node that is starting or
// about to be removed.
func blocksScheduling(t *corev1.Taint) bool {
	transient := strings.HasPrefix(t.Key, "node.kubernetes.io/") || strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/") ||
		t.Key == "ToBeDeletedByClusterAutoscaler" || t.Key == "DeletionCandidateOfClusterAutoscaler"
	return !transient && t.Effect != corev1.TaintEffectPreferNoSchedule
}

// missingLabel returns the first label of a node selector that a node lacks, as key=value. It returns "" if the node has all these labels.
// In that case, the required node affinity excludes the node.
func missingLabel(selector, labels map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(selector)) {
		if value, has := labels[key]; !has || value != selector[key] {
			return key + "=" + selector[key]
		}
	}
	return ""
}
