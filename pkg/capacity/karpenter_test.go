package capacity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cluster is a tiny Karpenter, kube-scheduler, ReplicaSet controller and API server around one group, second by second.
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

	boot, load  time.Duration // from launch to usable, from there to ready
	ids         int
	moving      moved
	wholeBefore bool
	disturbed   int  // nodes that went with pods on them
	deaf        bool // the API server refuses our writes
	lag         int  // seconds for which the caches show what they showed
	shown       Observation
	silent      bool // we are dead: nothing is decided or written
	releasing   bool
	log         []string // patches, as people read them
	phases      []Phase
	most        int // patches in one tick
	writes      int
}

type failer interface {
	Errorf(string, ...any)
	Helper()
}

type simPool struct {
	Pool
	fields            map[string]FieldView // by fieldName
	consent           Fields
	record            string
	nodes             []*simNode
	denied            bool
	until             time.Time // its offering is remembered as unavailable
	gpus              int64
	hourly            float64
	failures          []Failure
	losses            []Loss
	ready             bool
	gone, unsupported bool
	version           int // of the object; a write from an older view is refused
	seen              int // the version of the last observation
}

type simNode struct {
	name           string
	created        time.Time
	usable         bool
	changed        time.Time
	notice         bool
	squatters      int32
	pool           *simPool
	heir, replaces *simNode
}

type simLoad struct {
	key         string
	want        int32 // what scaling wants before the nodes have their say
	current     int32
	extra       int32
	gpus        int64
	owner       Owner
	pods        []*simPod
	unknown     bool
	paused      bool
	quota       bool
	buffer      int32
	neverReady  bool
	minimum     int32 // the fewest ready replicas since the last reset
	lastAdvice  Advice
	followDelay time.Duration
}

type simPod struct {
	uid, name    string
	node         *simNode
	since, bound time.Time
	ready        bool
	gpus         int64
	owner        Owner
	cost, shield Mark
	unsure       bool
	idle, pinned bool
}

var midnight = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC) // a Monday

// newCluster is a group with a spot pool of weight 80 and an on-demand pool of weight 20, one GPU a node, everything handed over.
func newCluster(t failer, change func(g *Group)) *cluster {
	g := Group{Name: "chat", Resource: "nvidia.com/gpu", ReturnNodesPerHour: 4, HoldAtPeaks: true,
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
		sim := &simPool{Pool: p, consent: ConsentLimits | ConsentWeight | ConsentDisruption, gpus: 1, hourly: 1, ready: true, fields: map[string]FieldView{
			"disruption.consolidateAfter": {Value: `"60s"`, Owner: "kubectl"}, "disruption.consolidationPolicy": {Value: `"WhenEmptyOrUnderutilized"`, Owner: "kubectl"},
			"disruption.budgets": {Value: `[{"nodes":"100%"}]`, Owner: "kubectl"}, "weight": {Value: "20", Owner: "kubectl"},
			"limits[nvidia.com/gpu]": {Value: `16`, Owner: "kubectl"}, "limits[cpu]": {Value: `"400"`, Owner: "kubectl"},
		}}
		if p.Type == Spot {
			sim.fields["weight"] = FieldView{Value: "80", Owner: "argocd"}
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

// run goes on for d, a second at a time.
func (c *cluster) run(d time.Duration) {
	c.t.Helper()
	for range int(d / time.Second) {
		c.step()
	}
}

// until goes on until something holds, at most for d.
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
		s += "\t" + r.Rule.String() + ": " + r.Text(c.g) + "\n"
	}
	for _, p := range c.pools {
		s += fmt.Sprintf("\t%s: %d nodes, weight %s, limit %s, budgets %s\n", p.Name, len(p.nodes), p.fields["weight"].Value, p.fields["limits[nvidia.com/gpu]"].Value, p.fields["disruption.budgets"].Value)
	}
	for _, l := range c.loads {
		s += fmt.Sprintf("\t%s: wants %d, has %d pods, %d ready\n", l.key, l.want, len(l.pods), l.ready())
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
	if c.now.Second()%10 == 5 {
		c.consolidate()
	}
	if !c.silent {
		c.decide()
	}
}

func (c *cluster) decide() {
	c.t.Helper()
	o := c.shown
	if c.lag--; c.lag < 0 || len(o.Workloads) != len(c.loads) {
		o = c.observe()
		c.shown = o
	}
	before := c.s
	if c.releasing {
		c.s.Release(c.g, &o, c.now, &c.d)
	} else {
		c.s.Decide(c.g, &o, c.now, &c.d)
	}
	if c.now.Second()%13 == 0 {
		again, _ := decided(before, c.g, o, c.now, c.releasing)
		c.compare(&again)
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
}

func (c *cluster) compare(again *Decision) {
	if a, b := fmt.Sprint(again.Actions, again.Advice, again.Reasons, again.Findings), fmt.Sprint(c.d.Actions, c.d.Advice, c.d.Reasons, c.d.Findings); a != b {
		c.t.Errorf("two answers to one question:\n%s\n%s", a, b)
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

// replicaSets is HPA and ReplicaSet controller: the target follows scaling's number and the nodes' advice, as scaling reads it.
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
			l.pods = append(l.pods, &simPod{uid: "uid-" + name, name: name, since: c.now, gpus: l.gpus, owner: l.owner})
		}
		for int32(len(l.pods)) > max(l.current, 0) {
			slices.SortStableFunc(l.pods, func(a, b *simPod) int {
				return cmp.Or(flag01(a.node != nil)-flag01(b.node != nil), flag01(a.ready)-flag01(b.ready), cmp.Compare(costOf(a), costOf(b)), b.since.Compare(a.since))
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
				if p.node == nil && n.usable && !n.notice && n.heir == nil && pool.gpus-c.used(n) >= p.gpus && !(p.pinned && pool.Type == Spot) {
					p.node, p.bound, n.changed = n, c.now, c.now
				}
			}
		}
	}
}

// provision is one loop of Karpenter's provisioner: pending pods that no node on its way covers, by weight.
func (c *cluster) provision() {
	free := map[*simNode]int64{}
	for _, pool := range c.pools {
		for _, n := range pool.nodes {
			if !n.notice && n.replaces == nil {
				free[n] = pool.gpus - c.used(n)
			}
		}
	}
pods:
	for _, p := range c.pods() {
		if p.node != nil || p.unsure {
			continue
		}
		for _, pool := range c.pools {
			for _, n := range pool.nodes {
				if free[n] >= p.gpus && !(p.pinned && pool.Type == Spot) {
					free[n] -= p.gpus
					continue pods
				}
			}
		}
		if n := c.launch(p, nil); n != nil {
			free[n] = n.pool.gpus - p.gpus
		}
	}
}

func (c *cluster) byWeight() []*simPool {
	pools := slices.Clone(c.pools)
	slices.SortFunc(pools, func(a, b *simPool) int {
		return cmp.Or(cmp.Compare(b.number("weight"), a.number("weight")), cmp.Compare(b.Name, a.Name))
	})
	return pools
}

func (p *simPool) number(field string) int64 { n, _ := p.fields[field].Value.number(); return n }

func (p *simPool) fits(without int64) bool {
	limit := p.fields["limits[nvidia.com/gpu]"].Value
	n, _ := limit.number()
	return limit == "" || int64(len(p.nodes))*p.gpus-without+p.gpus <= n
}

// launch makes a node for a pod in the first pool that takes it; a refusal is remembered for three minutes.
func (c *cluster) launch(p *simPod, instead *simNode) *simNode {
	for _, pool := range c.byWeight() {
		without := int64(0)
		if instead != nil && instead.pool == pool {
			without = pool.gpus
		}
		if pool.gone || !pool.ready || pool.gpus < p.gpus || !pool.fits(without) || c.now.Before(pool.until) || p.pinned && pool.Type == Spot {
			continue
		}
		if instead != nil && (pool == instead.pool || pool.hourly >= instead.pool.hourly) {
			return nil
		}
		if pool.denied {
			pool.failures = append(pool.failures, Failure{UID: c.id("claim"), At: c.now, Capacity: true})
			if len(pool.failures)%4 == 0 { // the cache runs out now and then
				pool.until = c.now.Add(3 * time.Minute)
			}
			if instead != nil {
				return nil
			}
			return nil
		}
		n := &simNode{name: c.id(pool.Name), created: c.now, changed: c.now, pool: pool, replaces: instead}
		pool.nodes = append(pool.nodes, n)
		return n
	}
	return nil
}

// consolidate removes empty nodes, and moves pods to cheaper nodes one at a time, as the budgets allow.
func (c *cluster) consolidate() {
	for _, pool := range c.pools {
		after := pool.fields["disruption.consolidateAfter"].Value
		wait, err := time.ParseDuration(strings.Trim(string(after), `"`))
		if err != nil {
			continue // Never
		}
		for _, n := range slices.Clone(pool.nodes) {
			if n.replaces != nil && n.usable {
				c.evict(n.replaces)
				n.replaces = nil
				continue
			}
			if !n.usable || c.now.Sub(n.changed) < wait || n.replaces != nil || n.squatters > 0 {
				continue
			}
			if c.used(n) == 0 {
				if c.allowed(pool, reasonEmpty) {
					pool.remove(n)
				}
				continue
			}
			if !c.allowed(pool, reasonUnderutilized) || n.heir != nil || pool.fields["disruption.consolidationPolicy"].Value == `"WhenEmpty"` {
				continue
			}
			for _, p := range c.pods() {
				if p.node == n && p.shield.Value == "" {
					n.heir = c.launch(p, n)
					break
				}
			}
		}
	}
}

func (p *simPool) remove(n *simNode) {
	p.nodes = slices.DeleteFunc(p.nodes, func(o *simNode) bool { return o == n })
	for _, o := range p.nodes {
		if o.heir == n {
			o.heir = nil
		}
	}
}

// evict takes a node away with its pods; their controllers make others.
func (c *cluster) evict(n *simNode) {
	c.disturbed++
	for _, l := range c.loads {
		l.pods = slices.DeleteFunc(l.pods, func(p *simPod) bool { return p.node == n })
	}
	for _, p := range c.other {
		if p.node == n {
			p.node, p.ready = nil, false
		}
	}
	n.pool.remove(n)
}

// lose is an interruption.
func (c *cluster) lose(n *simNode) {
	n.pool.losses = append(n.pool.losses, Loss{UID: n.name, At: c.now})
	c.evict(n)
}

// allowed reads the budgets as Karpenter does.
func (c *cluster) allowed(pool *simPool, reason string) bool {
	var budgets []struct {
		Nodes, Schedule, Duration string
		Reasons                   []string
	}
	list := pool.fields["disruption.budgets"].Value
	if list == "" || list == `[{"nodes":"100%"}]` {
		return true
	}
	if err := json.Unmarshal([]byte(list), &budgets); err != nil {
		c.t.Errorf("budgets %q: %v", list, err)
	}
	for _, b := range budgets {
		if b.Nodes != "0" || b.Reasons != nil && !slices.Contains(b.Reasons, reason) {
			continue
		}
		if b.Schedule == "" {
			return false
		}
		var minute, hour, day, month int
		length, err := time.ParseDuration(b.Duration)
		if _, e := fmt.Sscanf(b.Schedule, "%d %d %d %d *", &minute, &hour, &day, &month); e != nil || err != nil {
			c.t.Errorf("budget %+v: %v, %v", b, e, err)
		}
		start := time.Date(c.now.Year(), time.Month(month), day, hour, minute, 0, 0, time.UTC)
		if !c.now.Before(start) && c.now.Before(start.Add(length)) {
			return false
		}
	}
	return true
}

// observe is what the cluster room would hand over.
func (c *cluster) observe() Observation {
	o := Observation{Ahead: c.ahead, Lost: !c.known, Shields: true}
	index := map[*simNode][2]int{}
	for i, p := range c.pools {
		v := PoolView{Exists: !p.gone, Ready: p.ready, Record: p.record, Consent: p.consent, Failures: p.failures, Losses: p.losses,
			Weight: p.fields["weight"], ConsolidateAfter: p.fields["disruption.consolidateAfter"],
			ConsolidationPolicy: p.fields["disruption.consolidationPolicy"], Budgets: p.fields["disruption.budgets"]}
		v.Weight.Unsupported = p.unsupported
		for name, f := range p.fields {
			if resource, ok := strings.CutPrefix(name, "limits["); ok && f.Value != "" {
				v.Limits = append(v.Limits, LimitView{strings.TrimSuffix(resource, "]"), f})
			}
		}
		for j, n := range p.nodes {
			index[n] = [2]int{i, j}
			stage := Launched
			if n.usable {
				stage = Usable
			}
			v.Nodes = append(v.Nodes, Node{Name: n.name, UID: n.name, Type: p.Type, Stage: stage, Ready: n.usable, GPUs: p.gpus, Used: c.used(n),
				Created: n.created, Hourly: p.hourly, Notice: n.notice, Squatters: n.squatters})
			v.Usage += p.gpus
		}
		p.seen = p.version
		o.Pools = append(o.Pools, v)
	}
	see := func(p *simPod, key string) Pod {
		namespace, _, _ := strings.Cut(key, "/")
		pod := Pod{UID: p.uid, Namespace: namespace, Name: p.name, Owner: p.owner, GPUs: p.gpus, Pool: -1, Pending: p.node == nil, Since: p.since,
			Ready: p.ready, Loading: p.node != nil && !p.ready, DeletionCost: p.cost, DoNotDisrupt: p.shield, Unsure: p.unsure, Idle: p.idle, Pinned: p.pinned}
		if at, ok := index[p.node]; ok {
			pod.Pool, pod.Node = at[0], at[1]
		}
		return pod
	}
	for _, l := range c.loads {
		w := Workload{Key: l.key, Uncapped: l.want + l.extra, Extra: l.extra, Current: l.current, GPUs: l.gpus, Known: !l.unknown, Paused: l.paused, Quota: l.quota, Buffer: l.buffer}
		for _, p := range l.pods {
			w.Pods = append(w.Pods, see(p, l.key))
		}
		o.Workloads = append(o.Workloads, w)
	}
	for _, p := range c.other {
		o.Others = append(o.Others, see(p, "jobs/"))
	}
	return o
}

// apply is the API server.
func (c *cluster) apply() {
	patches := 0
	for _, a := range c.d.Actions {
		switch a := a.(type) {
		case NodePoolPatch:
			patches++
			c.patch(a)
		case PodMark:
			c.mark(a)
		case Buffer:
			for _, l := range c.loads {
				if l.key == a.Workload {
					l.buffer = a.Replicas
				}
			}
		default:
			c.t.Errorf("an action outside the closed set: %T", a)
		}
	}
	c.most = max(c.most, patches)
}

func (c *cluster) patch(a NodePoolPatch) {
	i := slices.IndexFunc(c.pools, func(p *simPool) bool { return p.Name == a.Pool })
	if i < 0 {
		c.t.Errorf("a patch for %s, which is not of the group", a.Pool)
		return
	}
	pool := c.pools[i]
	if pool.version != pool.seen {
		return // the view is old: a conflict
	}
	pool.version++
	pool.record = a.Record
	if len(a.Changes) > 0 {
		c.writes++
		c.log = append(c.log, c.clock()+" "+strings.TrimSpace(a.Text()))
	}
	for _, change := range a.Changes {
		name := fieldName(change.Field, change.Resource)
		v := pool.fields[name]
		v.Value, v.Ours = change.To, !change.Restore
		if change.Restore {
			v.Owner = change.Owner
		} else {
			v.Owner = ""
		}
		pool.fields[name] = v
	}
}

func (c *cluster) mark(a PodMark) {
	for _, p := range c.pods() {
		if p.uid != a.UID {
			continue
		}
		m := Mark{a.Value, a.Value != ""}
		if a.Kind == DeletionCost {
			p.cost = m
		} else {
			p.shield = m
		}
	}
}

// edit is somebody else's hand on a NodePool.
func (c *cluster) edit(pool int, field string, v Value) {
	c.pools[pool].fields[field] = FieldView{Value: v, Owner: "kubectl-edit"}
	c.pools[pool].version++
}

// invariants hold in every tick of every story.
func (c *cluster) invariants(o *Observation) {
	c.t.Helper()
	written := map[string]bool{}
	for _, a := range c.d.Actions {
		p, ok := a.(NodePoolPatch)
		if !ok {
			continue
		}
		for _, change := range p.Changes {
			name := p.Pool + " " + fieldName(change.Field, change.Resource)
			if written[name] {
				c.t.Errorf("%s: %s is written twice in a tick", c.clock(), name)
			}
			written[name] = true
			c.sound(o, p.Pool, change)
		}
	}
	for i := range c.loads {
		if a := c.d.Advice[i]; a.Surge < 0 || a.Surge > 1 || a.AtRisk < 0 || a.AtRisk > int32(len(o.Workloads[i].Pods)) {
			c.t.Errorf("%s: advice %+v", c.clock(), a)
		}
	}
	c.watch()
}

// watch follows a move: as long as no node went under it and nobody changed what is wanted, the replicas that were ready when it began
// are ready throughout.
func (c *cluster) watch() {
	c.t.Helper()
	m := &c.s.move
	for _, l := range c.loads {
		if l.key != m.workload {
			continue
		}
		now := moved{m.workload, m.node, m.victim, c.disturbed, l.want}
		if c.moving != now {
			c.moving, c.wholeBefore = now, l.ready() >= l.want
		}
		if m.step != noMove && c.wholeBefore && l.ready() < l.want {
			c.t.Errorf("%s: %s has %d ready of %d in a return\n%s", c.clock(), l.key, l.ready(), l.want, c.why())
		}
	}
}

type moved struct {
	workload, node, victim string
	disturbed              int
	want                   int32
}

// sound tells whether a change is one that a guest may make.
func (c *cluster) sound(o *Observation, pool string, change Change) {
	c.t.Helper()
	i := slices.IndexFunc(c.g.Pools, func(p Pool) bool { return p.Name == pool })
	v := &o.Pools[i]
	if !change.Restore && v.Consent&change.Field.needs() == 0 {
		c.t.Errorf("%s: %s of %s was not handed over", c.clock(), fieldName(change.Field, change.Resource), pool)
	}
	n, ok := change.To.number()
	switch {
	case change.Restore || change.Field < FieldLimit:
	case change.Rule == RuleFence:
		if c.d.Demand.Total() > 0 || c.d.Demand.Unknown {
			c.t.Errorf("%s: a fence with a demand of %+v", c.clock(), c.d.Demand)
		}
	case change.Rule == RuleSchedule:
	case !ok || n < int64(len(v.Nodes))*c.pools[i].gpus:
		c.t.Errorf("%s: a limit of %s where %d nodes run\n%s", c.clock(), change.To, len(v.Nodes), c.why())
	}
}

func berlin(t testing.TB) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no zone database on this machine:", err)
	}
	return zone
}
