package nodes

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// starts contains the start times of the nodes that Karpenter launched. It has a lock in addition to the lock of Cache to prevent a
// deadlock: the cache of pods reads starts while the cache of pods is locked, and Cache.Observe locks the cache of pods.
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

// remove removes the start times of the node of a NodeClaim, unless a node of the same name belongs to another NodeClaim.
func (s *starts) remove(c *karpenter.NodeClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[c.Node].claim == c.UID {
		delete(s.nodes, c.Node)
	}
}

// StartOf returns the times at which a node started. They are zero for a node without a NodeClaim. StartOf can be called while the cache of
// workloads is locked.
func (n *Cache) StartOf(node string) karpenter.StartTimes {
	n.starts.mu.RLock()
	defer n.starts.mu.RUnlock()
	return n.starts.nodes[node].times
}
