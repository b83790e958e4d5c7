package main

import (
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
)

// hashes is a set of hashes of states. For n states, two different states have the same hash with a probability of n*n/2^65, for example
// 1e-5 for 20 million states.
type hashes struct {
	shards [64]struct {
		mu    sync.Mutex
		slots []uint64 // open addressing; 0: empty
		used  int
	}
}

var seed = maphash.MakeSeed()

func hash(key []byte) uint64 { return max(maphash.Bytes(seed, key), 1) }

// add adds a hash and reports whether it is new.
func (h *hashes) add(at uint64) bool {
	s := &h.shards[at>>58]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used*4 >= len(s.slots)*3 {
		old := s.slots
		s.slots = make([]uint64, max(2*len(old), 1024))
		for _, v := range old {
			if v != 0 {
				s.slots[slot(s.slots, v)] = v
			}
		}
	}
	i := slot(s.slots, at)
	if s.slots[i] == at {
		return false
	}
	s.slots[i] = at
	s.used++
	return true
}

func (h *hashes) has(at uint64) bool {
	s := &h.shards[at>>58]
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots) > 0 && s.slots[slot(s.slots, at)] == at
}

// slot returns the index of a hash, or the index of the empty slot in which to store it.
func slot(slots []uint64, at uint64) uint64 {
	mask := uint64(len(slots) - 1)
	i := at & mask
	for slots[i] != 0 && slots[i] != at {
		i = (i + 1) & mask
	}
	return i
}

// node is a state of the current depth, with the path of actions to it.
type node struct {
	key  []byte
	path *path
}

// path is a list of actions that leads to a state: the last action, and the path before this action. nil is the empty path.
type path struct {
	before *path
	action action
}

// actions returns the actions of a path, from the first to the last.
func (p *path) actions() (all []action) {
	if p == nil {
		return nil
	}
	return append(p.before.actions(), p.action)
}

// finding is a violation of an invariant, with the actions that lead to it. If recovery is true, the violation occurs in the time without
// faults that follows these actions.
type finding struct {
	violation error
	path      []action
	recovery  bool
}

// exploration explores all states up to a depth, breadth first.
type exploration struct {
	model       *model
	seen        hashes
	level       []node
	depth       int
	states      int64 // number of different states found so far, at all depths
	transitions atomic.Int64
	expanded    atomic.Int64 // number of states of the current depth whose actions were run
	found       atomic.Pointer[finding]
}

// start returns an exploration at depth 0, which contains only the first state.
func start(m *model, first *state) *exploration {
	e := &exploration{model: m, states: 1}
	key, _ := first.key()
	e.seen.add(hash(key))
	e.level = []node{{key: key}}
	return e
}

// deepen runs every action in each state of the current depth. It stops at the first violation.
func (e *exploration) deepen() {
	workers := runtime.GOMAXPROCS(0)
	results, next := make([][]node, workers), atomic.Int64{}
	e.expanded.Store(0)
	var running sync.WaitGroup
	for worker := range workers {
		running.Go(func() {
			for e.found.Load() == nil {
				from := int(next.Add(batch)) - batch
				if from >= len(e.level) {
					return
				}
				for _, n := range e.level[from:min(from+batch, len(e.level))] {
					results[worker] = e.expand(n, results[worker])
				}
			}
		})
	}
	running.Wait()
	e.level = nil
	for _, r := range results {
		e.level = append(e.level, r...)
	}
	e.depth++
	e.states += int64(len(e.level))
}

// batch is the number of states that a worker goroutine takes from the current depth at a time.
const batch = 64

// expand runs every action in a state and appends the new states to out.
func (e *exploration) expand(n node, out []node) []node {
	s := decode(n.key)
	actions := e.model.enabled(s)
	for _, a := range actions {
		next, err := e.model.do(s, a)
		p := &path{n.path, a}
		if err != nil {
			e.found.CompareAndSwap(nil, &finding{violation: err, path: p.actions()})
			continue
		}
		key, _ := next.key()
		if !e.seen.add(hash(key)) {
			continue
		}
		if err := e.model.recovers(decode(key)); err != nil {
			e.found.CompareAndSwap(nil, &finding{violation: err, path: p.actions(), recovery: true})
			continue
		}
		out = append(out, node{key, p})
	}
	e.transitions.Add(int64(len(actions)))
	e.expanded.Add(1)
	return out
}
