package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The invariants. Each is checked at every step, except the last three, which are checked at the end of a run.
const (
	evidenceForDecrease = "a target decreases only by a sample that is at most two minutes old"
	firstKeepsReplicas  = "a new leader does not lower the replicas that it finds before it has a sample"
	servedInBounds      = "a served target is within the bounds of the policy files that the replica has loaded"
	servedIdentity      = "a served target was decided for the scale target that the replica's watches show"
	servedFresh         = "a served target is at most a minute old, and mode hold serves none"
	oneServer           = "at most one replica serves at any time"
	holderWrites        = "only the holder of the Lease writes"
	consentedFields     = "gpuscaler changes only the fields that the owner of the NodePool handed over, and its own annotations"
	overridesRecorded   = "a NodePool whose field differs from its owner's value has a record"
	noStarvation        = "no limit of gpuscaler blocks a pending pod of a group for more than three minutes while a healthy replica leads"
	standbyTakesOver    = "a healthy replica leads and ticks within 20 seconds after the last leader ended"
	explained           = "each change of a target has a reason of its binding rule"
	noPartFails         = "no part of a tick fails"
	fewWrites           = "a replica writes a NodePool at most ten times a minute"
	quietNoWrites       = "without a change of the load or of an object, nothing is written to a NodePool in the last minute"
	convergence         = "nine minutes after the last fault, each target is what the load needs, and what a new controller decides"
	restoration         = "a minute after the last group is removed, each field of a NodePool has its owner's value, and gpuscaler owns none"
)

// violation is the first broken invariant of a run.
type violation struct{ invariant, text string }

// checker checks the invariants. It knows the objects of the API server, what the watches of each replica have delivered, and which samples
// Prometheus returned.
type checker struct {
	sim         *simulation
	violation   *violation
	writes      int
	transitions int

	samples    map[*replica]map[string]time.Time // the newest usable sample that each replica received, by workload
	previous   map[string]previousTarget         // by replica and workload
	writeTimes map[string][]time.Time            // by NodePool
	blocked    map[string]time.Time              // since when a limit blocks a group; by group
	healthy    map[*replica]time.Time            // since when a replica is healthy
	led        time.Time                         // when a replica led and ticked last
}

// previousTarget is the decision of the tick before.
type previousTarget struct {
	engine  *engine.Engine
	uid     string
	policy  *scaling.Policy
	base    int32 // without the cap and the additions of the capacity group
	at      time.Time
	paused  bool
	mode    scaling.Mode
	managed string
}

func newChecker(s *simulation) *checker {
	return &checker{sim: s, samples: map[*replica]map[string]time.Time{}, previous: map[string]previousTarget{},
		writeTimes: map[string][]time.Time{}, blocked: map[string]time.Time{}, healthy: map[*replica]time.Time{}}
}

// fail records the first violation.
func (c *checker) fail(invariant, format string, args ...any) {
	if c.violation == nil {
		c.violation = &violation{invariant, fmt.Sprintf("%.1fs: ", c.sim.now.Sub(c.sim.began).Seconds()) + fmt.Sprintf(format, args...)}
		c.sim.trace("violated: %s: %s", invariant, c.violation.text)
	}
}

// evidence records that a replica received a usable sample of a workload.
func (c *checker) evidence(r *replica, w *workload, at time.Time) {
	if c.samples[r] == nil {
		c.samples[r] = map[string]time.Time{}
	}
	c.samples[r][w.name] = at
}

// maxSampleAge is the default maxAge of a signal.
const maxSampleAge = 2 * time.Minute

// ticked checks the decisions of a tick.
func (c *checker) ticked(r *replica) {
	for _, w := range c.sim.workloads {
		rec, ok := r.engine.Decisions().Record(scaling.Key{Namespace: namespace, Name: w.name})
		key := r.name + " " + w.name
		if !ok || !rec.At.Equal(c.sim.now) {
			delete(c.previous, key)
			continue
		}
		d := &rec.Decision
		now := previousTarget{engine: r.engine, uid: rec.View.UID, policy: rec.Workload.Policy, base: d.Uncapped - d.Extra, at: c.sim.now,
			paused: rec.View.Operator.Paused, mode: rec.Workload.Mode, managed: rec.View.ManagedHPA.Kind}
		before, known := c.previous[key]
		known = known && before.engine == r.engine && before.uid == now.uid && now.at.Sub(before.at) <= 10*time.Second
		fresh := c.sim.now.Sub(c.samples[r][w.name]) <= maxSampleAge+pollInterval
		sameInputs := before.policy == now.policy && !before.paused && !now.paused && before.mode == now.mode && before.managed == now.managed
		switch {
		case known && sameInputs && now.base < before.base && !fresh:
			c.fail(evidenceForDecrease, "%s: %s from %d to %d; newest sample %s", r.name, w.name, before.base, now.base,
				c.samples[r][w.name].Format(time.TimeOnly))
		case !known && !fresh && now.base < min(rec.View.Replicas, rec.Workload.Policy.MaxReplicas):
			c.fail(firstKeepsReplicas, "%s: %s has %d replicas and the first target is %d", r.name, w.name, rec.View.Replicas, now.base)
		}
		c.previous[key] = now
	}
}

// transition checks the explanation of a change.
func (c *checker) transition(r *replica, t *engine.Record) {
	c.transitions++
	d := &t.Decision
	c.sim.trace("%s: target of %s from %d to %d by rule %s", r.name, t.Workload.Key.Name, t.Before, d.Replicas, d.Binding)
	if d.Replicas == t.Before {
		return
	}
	if !slices.ContainsFunc(d.Reasons.All(), func(reason scaling.Reason) bool { return reason.Rule == d.Binding }) {
		c.fail(explained, "%s: target of %s from %d to %d by rule %s without a reason", r.name, t.Workload.Key.Name, t.Before, d.Replicas,
			d.Binding)
	}
}

// served checks a target that an autoscaler reads.
func (c *checker) served(r *replica, w *workload, n int32) {
	rec, _ := r.engine.Decisions().Record(scaling.Key{Namespace: namespace, Name: w.name})
	s := c.sim
	s.trace("%s serves %d for %s", r.name, n, w.name)
	if uid := r.seen[kindDeployment+" "+namespace+"/"+w.name]; rec.View.UID != uid {
		c.fail(servedIdentity, "%s serves %d for %s with UID %s; the watch shows %q", r.name, n, w.name, rec.View.UID, uid)
	}
	loaded := &s.people.editions[r.decided].settings
	if age := s.now.Sub(rec.At); age > time.Minute || age < 0 || loaded.hold {
		c.fail(servedFresh, "%s serves %d for %s, decided %s ago, hold %t", r.name, n, w.name, age, loaded.hold)
	}
	i := slices.Index(s.workloads, w)
	low, high := loaded.bounds[i].min, loaded.bounds[i].max
	if rec.View.Operator.Paused {
		low = 0
	}
	if d := rec.Decision; d.Replicas < d.Uncapped { // no node can be launched
		low = 0
	}
	if !loaded.broken && (n < low || n > high) {
		c.fail(servedInBounds, "%s serves %d for %s; its bounds are %d to %d", r.name, n, w.name, low, high)
	}
	for _, other := range s.replicas {
		if _, err := other.served(w); other != r && err == nil {
			c.fail(oneServer, "%s and %s serve %s", r.name, other.name, w.name)
		}
	}
}

// wrote checks a write.
func (c *checker) wrote(r *replica, kind, name string, live, next *unstructured.Unstructured) {
	c.writes++
	s := c.sim
	if !s.holderIs(r) {
		c.fail(holderWrites, "%s wrote %s %s; the holder is %q", r.name, kind, name, s.lease.holder)
	}
	if before, after := foreign(kind, live), foreign(kind, next); before != after {
		c.fail(consentedFields, "%s changed %s %s from %s to %s", r.name, kind, name, before, after)
	}
	if kind != kindNodePool {
		return
	}
	i := slices.IndexFunc(s.pools, func(p *pool) bool { return p.name == name })
	c.writeTimes[name] = append(c.writeTimes[name], s.now)
	if t := c.writeTimes[name]; len(t) > 10 && s.now.Sub(t[len(t)-11]) < time.Minute {
		c.fail(fewWrites, "%s wrote NodePool %s 11 times in %s", r.name, name, s.now.Sub(t[len(t)-11]))
	}
	values := ownedFields(next)
	for field, value := range s.pools[i].owner {
		if values[field] != value && next.GetAnnotations()[karpenter.RecordAnnotation] == "" {
			c.fail(overridesRecorded, "%s: %s is %s, its owner's value is %s, and there is no record", name, field, values[field], value)
		}
	}
}

// foreign returns the parts of an object that gpuscaler must not change, as JSON.
func foreign(kind string, u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	values := u.GetAnnotations()
	for key := range values {
		if kind == kindPod || strings.HasPrefix(key, "gpuscaler.io/") && key != karpenter.ConsentAnnotation {
			delete(values, key)
		}
	}
	u.SetAnnotations(values)
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetGeneration(0)
	if kind == kindNodePool {
		for _, path := range overridable {
			unstructured.RemoveNestedField(u.Object, path...)
		}
		if limits, _, _ := unstructured.NestedMap(u.Object, "spec", "limits"); len(limits) == 0 {
			unstructured.RemoveNestedField(u.Object, "spec", "limits")
		}
	}
	text, err := json.Marshal(u.Object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// ownerEdited records the new value of an owner.
func (c *checker) ownerEdited(p *pool, value any, path ...string) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	p.owner[joined(path)] = string(text)
}

func joined(path []string) string { return strings.Join(path, ".") }

// second checks what must hold between the ticks.
func (c *checker) second() {
	s := c.sim
	for _, r := range s.replicas {
		if !r.up || s.now.Before(r.paused) || s.now.Before(r.cut) || !r.stopping.IsZero() {
			delete(c.healthy, r)
		} else if c.healthy[r].IsZero() {
			c.healthy[r] = s.now
		}
		if s.now.Sub(r.ticked) <= 3*time.Second {
			c.led = s.now
		}
	}
	for _, r := range s.replicas {
		if since := c.healthy[r]; !since.IsZero() && s.now.Sub(since) > 20*time.Second && s.now.Sub(c.led) > 20*time.Second {
			c.fail(standbyTakesOver, "%s is healthy for %s, and no replica leads for %s; holder %q", r.name, s.now.Sub(since), s.now.Sub(c.led),
				s.lease.holder)
		}
	}
	c.starvation()
}

// starvation checks that no limit of gpuscaler blocks pending pods.
func (c *checker) starvation() {
	s := c.sim
	for g, group := range []string{"llm", "rank"} {
		if !c.starves(g, group) {
			delete(c.blocked, group)
			continue
		}
		if c.blocked[group].IsZero() {
			c.blocked[group] = s.now
		}
		if s.now.Sub(c.blocked[group]) > 3*time.Minute {
			c.fail(noStarvation, "group %s has pending pods for %s, and its limits permit no node", group, s.now.Sub(c.blocked[group]))
		}
	}
}

// starves reports whether a pod of a group is pending only because of a limit that gpuscaler set, although a leader could remove it.
func (c *checker) starves(g int, group string) bool {
	s := c.sim
	pending, loading := 0, 0
	for _, p := range s.pods() {
		if p.Spec.NodeName == "" && p.Spec.NodeSelector[poolLabel] == group {
			pending++
		}
	}
	for _, m := range s.machines {
		if m.pool.group == group && (m.stage < 2 || !m.deleted.IsZero()) {
			loading++
		}
	}
	if pending <= loading {
		return false
	}
	overridden := false
	for _, p := range s.pools {
		u := s.nodePool(p)
		if p.group != group || u == nil {
			continue
		}
		n, limit := s.machinesOf(p), gpuLimit(u)
		if limit < 0 || n < limit {
			return false
		}
		owner := strings.Trim(p.owner["spec.limits."+gpuResource], `"`)
		overridden = overridden || owner == "" || fmt.Sprint(n) < owner && len(owner) == len(fmt.Sprint(n)) || len(owner) > len(fmt.Sprint(n))
	}
	return overridden && s.people.editions[len(s.people.editions)-1].settings.groups[g] && c.canWrite()
}

// canWrite reports whether a leader has been able to observe and to write for a minute.
func (c *checker) canWrite() bool {
	s := c.sim
	if len(s.faults.writes) > 0 || s.faults.slowWrites(s.now) > 0 {
		return false
	}
	for _, r := range s.replicas {
		since := c.healthy[r]
		if r.lease.leading() && r.lag == 0 && !since.IsZero() && s.now.Sub(since) > time.Minute {
			return true
		}
	}
	return false
}

// converged checks the state after a time without faults.
func (c *checker) converged() {
	s := c.sim
	for i, w := range s.workloads {
		b := s.people.settings.bounds[i]
		wants := min(max(w.needs(), b.min), b.max)
		key := scaling.Key{Namespace: namespace, Name: w.name}
		fresh, _ := s.fresh.engine.Decisions().Record(key)
		led := false
		for _, r := range s.replicas {
			if !r.up || !r.lease.leading() {
				continue
			}
			led = true
			rec, _ := r.engine.Decisions().Record(key)
			if rec.Decision.Uncapped-rec.Decision.Extra != wants || !rec.At.Equal(s.now) && s.now.Sub(rec.At) > 2*time.Second {
				c.fail(convergence, "%s: target of %s is %d (decided %s ago) and its load needs %d", r.name, w.name, rec.Decision.Replicas,
					s.now.Sub(rec.At), wants)
			}
			if rec.Decision.Replicas != fresh.Decision.Replicas {
				c.fail(convergence, "%s: target of %s is %d, and a new controller decides %d", r.name, w.name, rec.Decision.Replicas,
					fresh.Decision.Replicas)
			}
		}
		if !led {
			c.fail(standbyTakesOver, "no replica leads at the end")
		}
	}
	for _, p := range s.pools {
		if t := c.writeTimes[p.name]; len(t) > 0 && s.now.Sub(t[len(t)-1]) < time.Minute {
			c.fail(quietNoWrites, "NodePool %s was written %s before the end", p.name, s.now.Sub(t[len(t)-1]))
		}
	}
}

// restored checks that nothing of gpuscaler is left on a NodePool.
func (c *checker) restored() {
	for _, p := range c.sim.pools {
		u := c.sim.nodePool(p)
		values := ownedFields(u)
		for _, path := range overridable {
			if field := joined(path); values[field] != p.owner[field] {
				c.fail(restoration, "NodePool %s: %s is %s, its owner's value is %s", p.name, field, values[field], p.owner[field])
			}
		}
		if u.GetAnnotations()[karpenter.RecordAnnotation] != "" || ownership.HasManager(u.GetManagedFields(), ownership.Manager) {
			c.fail(restoration, "NodePool %s still has a record or a field of gpuscaler", p.name)
		}
	}
}
