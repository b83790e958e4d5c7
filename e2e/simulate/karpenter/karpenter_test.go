package karpenter

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

// story is a cluster with a spot NodePool of weight 20 and an on-demand NodePool of weight 10. It implements Surroundings.
type story struct {
	t       *testing.T
	api     *apiserver.Server
	cluster *Cluster
	now     time.Time
	refused string // the NodePool whose launches the cloud refuses
}

func newStory(t *testing.T) *story {
	s := &story{t: t, now: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}
	s.api = apiserver.New(s.Now)
	s.put("spot", 20, "2", "30s", "100%")
	s.put("on-demand", 10, "2", "30s", "100%")
	s.cluster = New(s.api, s, []NodePool{{"spot", "llm", "spot"}, {"on-demand", "llm", "on-demand"}})
	return s
}

func (s *story) put(name string, weight int64, limit, consolidateAfter, budget string) {
	s.api.Put(apiserver.KindNodePool, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": apiserver.KindNodePool, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"weight": weight, "limits": map[string]any{Resource: limit}, "disruption": map[string]any{
			"consolidateAfter": consolidateAfter, "budgets": []any{map[string]any{"nodes": budget}}}},
	}})
}

func (s *story) Now() time.Time               { return s.now }
func (s *story) Refuses(nodePool string) bool { return nodePool == s.refused }
func (s *story) Note(string, ...any)          {}

func (s *story) pods(names ...string) {
	for _, name := range names {
		s.api.Put(apiserver.KindPod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{GroupLabel: "llm"}}})
	}
}

func (s *story) runs(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(time.Second) {
		s.cluster.Run()
	}
}

func (s *story) expect(what string, spot, onDemand int64, ready int) {
	s.t.Helper()
	n := 0
	for _, p := range s.api.Pods() {
		if apiserver.Ready(p) {
			n++
		}
	}
	if a, b := s.cluster.Nodes("spot"), s.cluster.Nodes("on-demand"); a != spot || b != onDemand || n != ready {
		s.t.Errorf("%s: %d spot nodes, %d on-demand nodes and %d ready pods, want %d, %d and %d", what, a, b, n, spot, onDemand, ready)
	}
}

// TestNodesFollowThePods checks that Karpenter launches nodes in the NodePool with the greater weight up to its limit, and deletes them
// when they are empty.
func TestNodesFollowThePods(t *testing.T) {
	s := newStory(t)
	s.pods("a", "b", "c")
	s.runs(batchTime)
	s.expect("pods are batched", 0, 0, 0)
	s.runs(time.Second)
	s.expect("the limit of spot is 2", 2, 1, 0)
	s.runs(initializeTime + loadTime)
	s.expect("after the start", 2, 1, 3)

	s.cluster.Interrupt(0)
	s.expect("an interruption removes a node with its pod", 1, 1, 2)
	for _, p := range s.api.Pods() {
		s.api.Remove(apiserver.KindPod, p.Namespace+"/"+p.Name)
	}
	s.put("on-demand", 10, "2", "30s", "0")
	s.runs(30*time.Second + terminationTime + 2*time.Second)
	s.expect("a budget keeps the empty on-demand node", 0, 1, 0)
	s.put("on-demand", 10, "2", "30s", "100%")
	s.runs(terminationTime + 2*time.Second)
	s.expect("without the budget", 0, 0, 0)
}

// TestRefusedLaunches checks that the on-demand NodePool is used after a refused launch in the spot NodePool, and that a limit of 0 permits
// no node.
func TestRefusedLaunches(t *testing.T) {
	s := newStory(t)
	s.refused = "spot"
	s.pods("a")
	s.runs(batchTime + 2*time.Second)
	s.expect("the cloud has no spot capacity", 0, 1, 0)
	s.put("on-demand", 10, "0", "30s", "100%")
	s.pods("b")
	s.runs(time.Minute)
	s.expect("limit 0", 0, 1, 0)
	s.refused = ""
	s.runs(launchRetry)
	s.expect("the cloud has capacity again", 1, 1, 1)
	s.cluster.DeleteNodes("spot")
	if n := s.cluster.Changing("llm"); n != 1 {
		t.Errorf("%d changing nodes after the deletion of the NodePool, want 1", n)
	}
	s.runs(terminationTime + time.Second)
	s.expect("a new node replaces the deleted one", 1, 1, 1)
}
