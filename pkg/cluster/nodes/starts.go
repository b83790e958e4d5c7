package nodes

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// starts contains the starts of the nodes that Karpenter launched. It has its own lock, because the cache of pods reads it while it is
// locked, and Cache.Observe locks the cache of pods.
type starts struct {
	mu    sync.RWMutex
	nodes map[string]nodeStart // key: name of the node
}

type nodeStart struct {
	claim types.UID
	times karpenter.StartTimes
}

func (s *starts) put(c *karpenter.NodeClaim) {
	if c.Node == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[c.Node] = nodeStart{c.UID, c.Start}
}

// remove removes the start of the node of a NodeClaim, unless the node already belongs to another NodeClaim.
func (s *starts) remove(c *karpenter.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[c.Node].claim == c.UID {
		delete(s.nodes, c.Node)
	}
}

// StartOf returns the times of the start of a node. They are zero for a node without a NodeClaim. It can be called while the cache of
// workloads is locked.
func (n *Cache) StartOf(node string) karpenter.StartTimes {
	n.starts.mu.RLock()
	defer n.starts.mu.RUnlock()
	return n.starts.nodes[node].times
}
