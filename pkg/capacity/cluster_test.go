package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// cluster simulates Karpenter, kube-scheduler, the ReplicaSet controller and the API server for one group, second by second.
type cluster struct {
	t     failer
	g     *Group
	s     State
	d     Decision
	now   time.Time
	pools []*simPool
	loads []*simLoad
	other []*simPod
	ahead []Span
	known bool

	boot, load    time.Duration // boot: time from the launch of a node until it is usable; load: time from then until the pod is ready
	ids           int
	moving        moved
	batch         statemachine.Move // the move to spot at the end of the last tick
	frozen        [nodepool.MaxPools]freezeMemory
	started       int64 // time of the first tick with the current state
	wholeBefore   bool
	disturbed     int                 // number of nodes that were removed although pods ran on them
	deaf          bool                // the API server rejects gpuscaler's writes
	observed      func()              // called after each decision
	applied       func()              // called after the actions of each decision
	refused       func(pool int) bool // whether the API server rejects writes to a NodePool
	eager         bool                // Karpenter consolidates every second
	servesBuffers bool                // the observation reports that CapacityBuffers are served
	lag           int                 // number of seconds for which the observation does not change
	shown         Observation
	nodeGPUs      bool // the observation contains the size of the nodes of each NodePool
	// number of next restores that leave the field owned by gpuscaler, as if it crashed between the two requests of a restore
	sticky    int
	silent    bool // gpuscaler does not run: it decides and writes nothing
	releasing bool
	log       []string // texts of the patches
	phases    []statemachine.Phase
	most      int // greatest number of NodePool patches in one tick
	writes    int
}

type failer interface {
	Errorf(string, ...any)
	Helper()
}

type simPool struct {
	Pool
	fields   map[string]nodepool.FieldView // key: name of the field
	consent  nodepool.Consent
	record   string
	copied   bool // the NodePool was created from a manifest that contains the record annotation of another NodePool
	uid      string
	nodes    []*simNode
	denied   bool
	quiet    []QuietTime
	until    time.Time // Karpenter launches no node of the NodePool before this time
	gpus     int64
	hourly   float64
	failures []evidence.Failure
	losses   []evidence.Loss
	ready    bool
	reserved int  // number of instances in a capacity reservation of the NodePool; Karpenter launches them first
	mixed    bool // the group lists the NodePool as reserved, and its requirement is In [reserved, on-demand]
	// maximum number of nodes, such as the size of a capacity reservation; 0: no maximum. While the NodePool has this number of nodes,
	// Karpenter creates no NodeClaim for it and sends no Event.
	slots             int
	gone, unsupported bool
	version           int // version of the object; the API server refuses a write that is based on an older version
	seen              int // version of the object in the last observation
}

type simNode struct {
	name           string
	created        time.Time
	usable         bool
	changed        time.Time
	notice         bool
	drifted        bool
	disrupted      bool // Karpenter has chosen the node for disruption: the node has the taint and a disruption reason
	kept           bool // the Node has the annotation karpenter.sh/do-not-disrupt
	reserved       bool // the node belongs to a capacity reservation of its NodePool
	blockingPods   int32
	pool           *simPool
	heir, replaces *simNode
}

type simLoad struct {
	key        string
	want       int32 // target before the advice of the group is added
	current    int32
	extra      int32
	gpus       int64
	owner      Owner
	pods       []*simPod
	unknown    bool
	paused     bool
	quota      bool
	infeasible bool
	claims     bool
	claimed    bool
	buffer     int32
	neverReady bool
	full       bool  // the target is at maxReplicas
	minimum    int32 // smallest number of ready replicas since the test last reset this field
	lastAdvice Advice
}

type simPod struct {
	uid, name    string
	node         *simNode
	since, bound time.Time
	ready        bool
	gpus         int64
	owner        Owner
	cost, shield Annotation
	unsure       bool
	idle, pinned bool
	claims       bool
	claimed      bool
}

var midnight = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC) // a Monday

// newCluster returns a group with a spot NodePool of weight 80 and an on-demand NodePool of weight 20, one GPU per node and consent for
// every field.
func newCluster(t failer, change func(g *Group)) *cluster {
	g := Group{Name: "chat", Resource: "nvidia.com/gpu", ReturnNodesPerHour: 4, ConsolidationFreeze: true,
		Pools: []Pool{{"l40s-spot", Spot}, {"l40s-ondemand", OnDemand}}}
	if change != nil {
		change(&g)
	}
	group, err := NewGroup(g)
	if err != nil {
		t.Errorf("%v", err)
	}
	c := &cluster{t: t, g: group, now: midnight, known: true, boot: 90 * time.Second, load: 60 * time.Second}
	for _, p := range group.Pools {
		sim := &simPool{Pool: p, consent: nodepool.ConsentLimits | nodepool.ConsentWeight | nodepool.ConsentDisruption, gpus: 1, hourly: 1,
			ready: true,
			fields: map[string]nodepool.FieldView{
				"disruption.consolidateAfter":    {Value: `"60s"`, Owner: "kubectl"},
				"disruption.consolidationPolicy": {Value: `"WhenEmptyOrUnderutilized"`, Owner: "kubectl"},
				"disruption.budgets":             {Value: `[{"nodes":"100%"}]`, Owner: "kubectl"}, "weight": {Value: "20", Owner: "kubectl"},
				"limits[nvidia.com/gpu]": {Value: `16`, Owner: "kubectl"}, "limits[cpu]": {Value: `"400"`, Owner: "kubectl"},
			}}
		if p.Type == Spot {
			sim.fields["weight"] = nodepool.FieldView{Value: "80", Owner: "argocd"}
			sim.hourly = 0.4
		}
		c.pools = append(c.pools, sim)
	}
	return c
}

func (c *cluster) add(key string, gpus int64) *simLoad {
	l := &simLoad{key: key, gpus: gpus, owner: OwnerReplicaSet}
	c.loads = append(c.loads, l)
	return l
}

func (c *cluster) id(prefix string) string { c.ids++; return fmt.Sprintf("%s-%04d", prefix, c.ids) }

func (c *cluster) spec(pool int) string {
	keys := make([]string, 0, 8)
	for name, f := range c.pools[pool].fields {
		if f.Value != "" {
			keys = append(keys, fmt.Sprintf("%s=%s by %s", name, f.Value, f.Owner))
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, "\n")
}

// run simulates the duration d, one second at a time.
func (c *cluster) run(d time.Duration) {
	c.t.Helper()
	for range int(d / time.Second) {
		c.step()
	}
}

// until simulates until a condition is true. It fails the test if the condition is still false after d.
func (c *cluster) until(d time.Duration, what string, holds func() bool) {
	c.t.Helper()
	for range int(d / time.Second) {
		if c.step(); holds() {
			return
		}
	}
	c.t.Errorf("%s: within %v it did not happen that %s\n%s", c.clock(), d, what, c.why())
}

func (c *cluster) clock() string { return c.now.Format("15:04:05") }

func (c *cluster) why() (s string) {
	for _, r := range c.d.Reasons {
		s += "\t" + r.Rule.String() + ": " + r.Text(c.g.Names()) + "\n"
	}
	for _, p := range c.pools {
		s += fmt.Sprintf("\t%s: %d nodes, weight %s, limit %s, budgets %s\n", p.Name, len(p.nodes), p.fields["weight"].Value,
			p.fields["limits[nvidia.com/gpu]"].Value, p.fields["disruption.budgets"].Value)
	}
	for _, l := range c.loads {
		s += fmt.Sprintf("\t%s: %d requested, %d pods, %d ready\n", l.key, l.want, len(l.pods), l.ready())
	}
	return s
}

func (c *cluster) step() {
	c.now = c.now.Add(time.Second)
	c.replicaSets()
	c.kubelets()
	c.schedule()
	if c.now.Second()%10 == 0 {
		c.provision()
	}
	if c.eager || c.now.Second()%10 == 5 {
		c.consolidate()
	}
	if !c.silent {
		c.decide()
	}
}

func (c *cluster) decide() {
	o := c.shown
	if c.lag--; c.lag < 0 || len(o.Workloads) != len(c.loads) {
		o = c.observe()
		c.shown = o
	}
	before := c.s
	if c.s.group == nil {
		c.started = statemachine.Stamp(c.now)
	}
	if c.releasing {
		c.s.Release(c.g, &o, c.now, &c.d)
	} else {
		c.s.Decide(c.g, &o, c.now, &c.d)
	}
	if c.now.Second()%13 == 0 {
		again, _ := decided(before, c.g, o, c.now, c.releasing)
		c.compare(&again)
	}
	if c.observed != nil {
		c.observed()
	}
	c.invariants(&o)
	for i, l := range c.loads {
		l.lastAdvice = c.d.Advice[i]
	}
	if n := len(c.phases); n == 0 || c.phases[n-1] != c.d.Phase {
		c.phases = append(c.phases, c.d.Phase)
	}
	if !c.deaf {
		c.apply()
	}
	if c.applied != nil {
		c.applied()
	}
}

func decided(s State, g *Group, o Observation, now time.Time, releasing bool) (d Decision, next State) {
	if releasing {
		s.Release(g, &o, now, &d)
	} else {
		s.Decide(g, &o, now, &d)
	}
	return d, s
}

// replicaSets simulates the HPA and the ReplicaSet controller. The number of replicas is the workload's demand plus the advice of the
// last tick (replacements for replicas at risk, and replicas added for a move), limited by the target cap.
func (c *cluster) replicaSets() {
	for _, l := range c.loads {
		if !l.paused {
			n := l.want
			if n > 0 {
				n += l.lastAdvice.AtRisk + l.lastAdvice.Surge
			}
			l.extra = n - l.want
			if c := l.lastAdvice.Cap; c >= 0 {
				n = min(n, max(c, l.current))
			}
			l.current = n
		}
		for int32(len(l.pods)) < l.current && !l.quota {
			name := c.id(strings.ReplaceAll(l.key, "/", "-"))
			l.pods = append(l.pods, &simPod{uid: "uid-" + name, name: name, since: c.now, gpus: l.gpus, owner: l.owner, claimed: l.claimed})
		}
		for int32(len(l.pods)) > max(l.current, 0) {
			slices.SortStableFunc(l.pods, func(a, b *simPod) int {
				return cmp.Or(flag01(a.node != nil)-flag01(b.node != nil), flag01(a.ready)-flag01(b.ready), cmp.Compare(costOf(a), costOf(b)),
					b.since.Compare(a.since))
			})
			c.kill(l.pods[0])
			l.pods = l.pods[1:]
		}
	}
}

func flag01(b bool) int {
	if b {
		return 1
	}
	return 0
}

func costOf(p *simPod) int {
	n, _ := strconv.Atoi(p.cost.Value)
	return n
}

func (c *cluster) kill(p *simPod) {
	if p.node != nil {
		p.node.changed, p.node = c.now, nil
	}
}

func (l *simLoad) ready() (n int32) {
	for _, p := range l.pods {
		if p.ready && p.node != nil {
			n++
		}
	}
	return n
}

func (c *cluster) kubelets() {
	for _, p := range c.pools {
		for _, n := range p.nodes {
			if !n.usable && c.now.Sub(n.created) >= c.boot {
				n.usable, n.changed = true, c.now
			}
		}
	}
	for _, l := range c.loads {
		for _, p := range l.pods {
			if p.node != nil && !p.ready && !l.neverReady && c.now.Sub(p.bound) >= c.load {
				p.ready = true
			}
		}
		l.minimum = min(l.minimum, l.ready())
	}
}

func (c *cluster) pods() (all []*simPod) {
	for _, l := range c.loads {
		all = append(all, l.pods...)
	}
	return append(all, c.other...)
}

func (c *cluster) used(n *simNode) (sum int64) {
	for _, p := range c.pods() {
		if p.node == n {
			sum += p.gpus
		}
	}
	return sum
}

func (c *cluster) schedule() {
	for _, p := range c.pods() {
		if p.node != nil || p.unsure {
			continue
		}
		for _, pool := range c.pools {
			for _, n := range pool.nodes {
				if p.node == nil && n.usable && !n.notice && !n.disrupted && n.heir == nil && pool.gpus-c.used(n) >= p.gpus &&
					!(p.pinned && pool.Type == Spot) {
					p.node, p.bound, n.changed = n, c.now, c.now
				}
			}
		}
	}
}

func berlin(t testing.TB) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no zone database on this machine:", err)
	}
	return zone
}
