package capacity

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
)

// observe returns the Observation of the simulated cluster, in the form in which package cluster builds it from a real cluster.
func (c *cluster) observe() Observation {
	o := Observation{Ahead: c.ahead, Lost: !c.known, Shields: true, Buffers: c.servesBuffers}
	index := map[*simNode][2]int{}
	for i, p := range c.pools {
		v := PoolView{Exists: !p.gone, Ready: p.ready, Failures: p.failures, Losses: p.losses, Quiet: p.quiet,
			LaunchesOnDemand: p.kind() == OnDemand, View: nodepool.View{
				UID: p.uid, Record: p.record, RecordOurs: p.record != "" && !p.copied, Consent: p.consent, Weight: p.fields["weight"],
				ConsolidateAfter: p.fields["disruption.consolidateAfter"], ConsolidationPolicy: p.fields["disruption.consolidationPolicy"],
				Budgets: p.fields["disruption.budgets"]}}
		v.Weight.Unsupported = p.unsupported
		if c.nodeGPUs {
			v.NodeGPUs = p.gpus
		}
		for name, f := range p.fields {
			if resource, ok := strings.CutPrefix(name, "limits["); ok && f.Value != "" {
				resource = strings.TrimSuffix(resource, "]")
				l := nodepool.LimitView{Resource: resource, FieldView: f, Used: float64(int64(len(p.nodes)) * p.size(resource))}
				if len(p.nodes) > 0 {
					l.Node = float64(p.size(resource))
				}
				v.Limits = append(v.Limits, l)
			}
		}
		slices.SortFunc(v.Limits, func(a, b nodepool.LimitView) int { return strings.Compare(a.Resource, b.Resource) })
		for j, n := range p.nodes {
			index[n] = [2]int{i, j}
			stage := Launched
			if n.usable {
				stage = Usable
			}
			kind := p.kind()
			if n.reserved {
				kind = Reserved
			}
			v.Nodes = append(v.Nodes, Node{Name: n.name, UID: n.name, Type: kind, Stage: stage, Ready: n.usable, GPUs: p.gpus, Used: c.used(n),
				Created: n.created, Hourly: p.hourly, Notice: n.notice, Drifted: n.drifted,
				Disrupted: n.disrupted, Voluntary: n.disrupted, DoNotDisrupt: n.kept, BlockingPods: n.blockingPods})
			v.Usage += p.gpus
		}
		p.seen = p.version
		o.Pools = append(o.Pools, v)
	}
	see := func(p *simPod, key string) Pod {
		namespace, _, _ := strings.Cut(key, "/")
		pod := Pod{UID: p.uid, Namespace: namespace, Name: p.name, Owner: p.owner, GPUs: p.gpus, Pool: -1, Pending: p.node == nil, Since: p.since,
			Ready: p.ready, Loading: p.node != nil && !p.ready, DeletionCost: p.cost, DoNotDisrupt: p.shield, UnknownPlacement: p.unsure,
			Idle: p.idle, Pinned: p.pinned, Claims: p.claims, Claimed: p.claimed}
		if at, ok := index[p.node]; ok {
			pod.Pool, pod.Node = at[0], at[1]
		}
		return pod
	}
	for _, l := range c.loads {
		w := Workload{Key: l.key, Uncapped: l.want + l.extra, Extra: l.extra, Current: l.current, GPUs: l.gpus, Known: !l.unknown,
			Paused: l.paused, Quota: l.quota, Claims: l.claims, Claimed: l.claimed, Buffer: l.buffer, Bounded: l.full,
			Infeasible: l.infeasible}
		for _, p := range l.pods {
			w.Pods = append(w.Pods, see(p, l.key))
		}
		o.Workloads = append(o.Workloads, w)
	}
	for _, p := range c.other {
		o.UnmanagedPods = append(o.UnmanagedPods, see(p, "jobs/"))
	}
	return o
}

// apply simulates the API server: it applies the actions of the last decision to the cluster.
func (c *cluster) apply() {
	patches := 0
	for _, a := range c.d.Actions {
		switch a := a.(type) {
		case NodePoolPatch:
			patches++
			c.patch(a)
		case PodAnnotation:
			c.annotate(a)
		case Buffer:
			for _, l := range c.loads {
				if l.key == a.Workload {
					l.buffer = a.Replicas
				}
			}
		default:
			c.t.Errorf("an action of the unknown type %T", a)
		}
	}
	c.most = max(c.most, patches)
}

// recordText is the content of the annotation that records the overrides of a NodePool.
type recordText struct {
	V               int
	Group, Resource string
	Revision        uint32
	Spot, Freeze    json.RawMessage
	Fields          []struct {
		Path string
		override.Override
	}
}

// recordOf parses the record annotation of a NodePool. ok is false if the text is not a record of this version.
func recordOf(text string) (r recordText, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return r, d.Decode(&r) == nil && r.V == override.Version
}

func (c *cluster) patch(a NodePoolPatch) {
	i := slices.IndexFunc(c.pools, func(p *simPool) bool { return p.Name == a.Pool })
	if i < 0 {
		c.t.Errorf("a patch for %s, which is not a NodePool of the group", a.Pool)
		return
	}
	pool := c.pools[i]
	if pool.version != pool.seen {
		return // the API server reports a conflict, because the patch is based on an old version of the NodePool
	}
	if c.refused != nil && c.refused(i) {
		return
	}
	pool.version++
	c.admit(pool, a)
	if !a.KeepsRecord {
		pool.record = a.Record
	}
	if len(a.Changes) > 0 {
		c.writes++
		c.log = append(c.log, c.clock()+" "+strings.TrimSpace(a.Text()))
	}
	for _, change := range a.Changes {
		name := change.Name()
		if !change.Restore {
			if !slices.ContainsFunc(a.Overrides, func(h override.Change) bool { return h.Name() == name && h.To == change.To }) {
				c.t.Errorf("%s: %s is written and is not an override", c.clock(), name)
			}
			continue
		}
		pool.fields[name] = nodepool.FieldView{Value: change.To, Owner: change.Owner}
		if c.sticky--; c.sticky >= 0 {
			pool.fields[name] = nodepool.FieldView{Value: change.To, Owner: change.Owner, Ours: true}
		}
	}
	if !a.KeepsRecord {
		pool.apply(c, a)
	}
}

// admit fails the test if the chart's admission policy would reject the patch of a NodePool.
func (c *cluster) admit(pool *simPool, a NodePoolPatch) {
	if pool.consent&nodepool.ConsentAny == 0 {
		c.t.Errorf("%s: a patch of %s without consent: %s", c.clock(), pool.Name, a.Text())
	}
	for _, change := range slices.Concat(a.Changes, a.Overrides) {
		if pool.consent&change.Field.Consent() == 0 && !pool.fields[change.Name()].Value.Same(change.To) {
			c.t.Errorf("%s: %s of %s changes to %s without consent", c.clock(), change.Name(), pool.Name, change.To)
		}
	}
}

// apply simulates the server-side apply of all overrides of a NodePool. It fails the test if the patch neither contains nor restores a
// field that gpuscaler owns, because the API server would then remove this field.
func (p *simPool) apply(c *cluster, a NodePoolPatch) {
	for name, f := range p.fields {
		restored := slices.ContainsFunc(a.Changes, func(r override.Change) bool { return r.Restore && r.Name() == name })
		if f.Ours && !restored && !slices.ContainsFunc(a.Overrides, func(h override.Change) bool { return h.Name() == name }) {
			c.t.Errorf("%s: an apply gives up %s of %s without a restore", c.clock(), name, p.Name)
		}
	}
	for _, h := range a.Overrides {
		p.fields[h.Name()] = nodepool.FieldView{Value: h.To, Ours: true}
	}
}

func (c *cluster) annotate(a PodAnnotation) {
	for _, p := range c.pods() {
		if p.uid != a.UID {
			continue
		}
		m := Annotation{a.Value, a.Value != ""}
		if a.Kind == DeletionCost {
			p.cost = m
		} else {
			p.shield = m
		}
	}
}

// edit changes a field of a NodePool as another field manager than gpuscaler.
func (c *cluster) edit(pool int, field string, v nodepool.Value) {
	c.pools[pool].fields[field] = nodepool.FieldView{Value: v, Owner: "kubectl-edit"}
	c.pools[pool].version++
}
