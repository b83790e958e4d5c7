package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
)

const (
	resource  = "nvidia.com/gpu"
	poolName  = "gpu"
	groupName = "gpus"
	release   = "gpuscaler-system/gpuscaler"
)

// model runs the product's code for each state of the exploration, and caches the results in tables. Several goroutines can use it
// concurrently.
type model struct {
	contents table[content]
	memories table[memory]
	patches  table[capacity.NodePoolPatch]

	objects memo[version, *unstructured.Unstructured]
	pools   memo[version, *karpenter.NodePool]
	aged    memo[aging, int32]
	ticks   memo[observed, ticked]
	steps   memo[string, step]
	writes  memo[received, input]
	edits   memo[edit, version]

	recovered hashes // hashes of pairs of a state and a round; from each of them, the remaining rounds of a recovery violated no invariant

	group   *capacity.Group    // the group in the policy files
	orphans [2]*capacity.Group // the group with which a NodePool of a removed group is restored; [0]: its record is readable, [1]: it is not
	created int32              // number of the NodePool's content when its owner creates it

	callers sync.Pool // contains *caller
	managed sync.Pool // contains *apiserver.FieldManagers, each for one goroutine at a time
}

// newModel returns a model of a group with zero limits and one NodePool.
func newModel() *model {
	m := &model{}
	m.callers.New = func() any { return newCaller() }
	m.managed.New = func() any { return apiserver.New(time.Now).Managed }
	var err error
	m.group, err = capacity.NewGroup(capacity.Group{Name: groupName, Resource: resource, ZeroLimit: true,
		Pools: []capacity.Pool{{Name: poolName, Type: capacity.OnDemand}}})
	if err != nil {
		panic(err)
	}
	for i, record := range []string{fmt.Sprintf(`{"v":1,"group":%q,"resource":%q,"fields":[]}`, groupName, resource), ""} {
		g, known := capacity.Orphan(poolName, record)
		if !known { // without a readable record, package engine also creates a group with the name of the NodePool
			if g, err = capacity.NewGroup(capacity.Group{Name: poolName, Resource: resource, Pools: []capacity.Pool{{Name: poolName}}}); err != nil {
				panic(err)
			}
		}
		m.orphans[i] = g
	}
	m.created = m.newNodePool()
	return m
}

// observed contains everything on which a tick depends. There is only one NodePool and one pod, so these values determine the engine's
// observation.
type observed struct {
	memory, content int32
	demand, policy  bool
	same            bool // the memory is about the NodePool in the cache, not about a deleted one with the same name; true without a memory
}

// ticked is the result of a tick: the number of the new memory in model.memories, and the number of the patch in model.patches (0: no
// patch).
type ticked struct{ memory, patch int32 }

// tick runs the decision of a replica, as package engine does: it decides for the group, or restores a NodePool whose group was removed.
func (m *model) tick(o observed) ticked {
	return m.ticks.get(o, func() ticked {
		var view capacity.PoolView
		ours, record := false, ""
		if o.content != 0 {
			p := m.decoded(version{content: o.content, serial: 1})
			view, ours, record = p.View(m.group, nil, crd), p.Ours, p.Record()
		}
		kind := ofGroup
		if !o.policy {
			if !ours {
				return ticked{}
			}
			kind = m.orphanKind(o.memory, record)
		}
		var state capacity.State
		if o.memory != 0 {
			if before := m.memories.at(o.memory); before.kind == kind {
				state = before.state
			}
		}
		if view.UID = "1"; !o.same {
			view.UID = "2"
		}
		observation := capacity.Observation{Pools: []capacity.PoolView{view}}
		if o.demand {
			observation.UnmanagedPods = []capacity.Pod{{UID: "pod", Namespace: "default", Name: "pod", GPUs: 1, Pool: -1, Node: -1, Pending: true,
				Since: present.Add(-time.Minute)}}
		}
		var decision capacity.Decision
		if kind == ofGroup {
			state.Decide(m.group, &observation, present, &decision)
		} else {
			state.Release(m.orphans[kind-ofOrphan], &observation, present, &decision)
		}
		out := ticked{memory: m.remember(kind, &state)}
		for _, action := range decision.Actions {
			out.patch = m.patch(action.(capacity.NodePoolPatch))
		}
		return out
	})
}

// crd is a schema of the NodePool CRD with all fields that gpuscaler can override.
var crd = karpenter.Schema{Known: true, Limits: true, Weight: true, ConsolidateAfter: true, ConsolidationPolicy: true, Budgets: true}

// orphanKind returns the memory.kind for a NodePool whose group was removed. At the first observation, package engine derives the group
// from the record annotation.
func (m *model) orphanKind(before int32, record string) uint8 {
	if before != 0 && m.memories.at(before).kind != ofGroup {
		return m.memories.at(before).kind
	}
	if _, known := capacity.Orphan(poolName, record); known {
		return ofOrphan
	}
	return ofOrphanNoText
}

// step is the next step of a write, which sends a request or ends. The field added contains the inputs that the write read before this
// step.
type step struct {
	request *apiserver.Request
	added   []input
}

// next returns the next step of a write. The parameter leading is the result of the replica's option Leading, and cached is the NodePool
// in the cache of the replica. The writer runs from the beginning each time, with the inputs received so far. Therefore no goroutine has
// to wait for an answer.
func (m *model) next(w *write, leading bool, cached version) step {
	return m.steps.get(stepKey(w, leading, cached), func() step {
		c := m.callers.Get().(*caller)
		defer m.callers.Put(c)
		*c = caller{model: m, writer: c.writer, inputs: w.inputs, leads: leading, cached: cached}
		c.writer.Write(m.patches.at(w.patch), m.decoded(w.base))
		if len(c.inputs) > 0 {
			panic("the writer sent fewer requests than before")
		}
		return step{c.sent, c.added}
	})
}

func stepKey(w *write, leading bool, cached version) string {
	c := coder{}
	at := *w
	at.progress, at.answer, at.old = notSent, input{}, false
	c.write(&at)
	c.flags(&leading)
	if n := len(w.inputs); n > 0 && w.inputs[n-1].kind == answerConflict {
		c.version(&cached) // the writer reads the cache only after a conflict, so only then is the cached version part of the key
	}
	return string(c.bytes)
}

// caller runs the product's writer once. It implements the client and everything else that the writer calls.
type caller struct {
	model  *model
	writer *nodepoolwriter.Writer
	inputs []input // the inputs that the writer has not read yet
	leads  bool
	cached version
	sent   *apiserver.Request // the request that has no answer yet
	added  []input
}

func newCaller() *caller {
	c := &caller{}
	c.writer = nodepoolwriter.New(nodepoolwriter.Options{
		Client: client{caller: c}, Release: release, Leading: c.leading, Current: c.current,
		OverriddenByOther: func(context.Context, *karpenter.NodePool) string { return "" },
		Event:             func(corev1.ObjectReference, string, string, string) {},
		Writes:            nodepoolwriter.NewWritesMetric(), Log: slog.New(slog.DiscardHandler),
	})
	return c
}

// leading is the option Leading of the writer. While the writer repeats requests whose answers are known, the result is true, because the
// replica led when it sent these requests.
func (c *caller) leading() bool { return len(c.inputs) > 0 || c.leads }

// current is the option Current of the writer. It returns the NodePool in the cache.
func (c *caller) current(string) *karpenter.NodePool {
	at := c.cached
	if len(c.inputs) > 0 {
		at, c.inputs = c.inputs[0].version, c.inputs[1:]
	} else {
		c.added = append(c.added, input{cacheRead, at})
	}
	if !at.exists() {
		return nil
	}
	return c.model.decoded(at)
}
