package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	model "github.com/gpuscaler/gpuscaler/e2e/simulate/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The invariants. The last three are checked at the end of a run, and all other invariants during the run. The checks use the targets that
// autoscalers read, the objects in the API server, the objects that the watches delivered, and the samples that the data sources returned.
const (
	evidenceForDecrease = "a target decreases only while each signal of the policy has a sample that is at most two minutes old"
	loadIsServed        = "a target does not decrease below what the newest sample of a signal needs"
	evidenceForIncrease = "a target increases only to what a sample, the policy or the observed replicas need"
	firstKeepsReplicas  = "a new leader does not lower the replicas that it finds before it has a sample"
	servedInBounds      = "a served target is within the bounds and the open schedules of the policy files that the replica has loaded"
	servedIdentity      = "a served target was decided for the scale target that the replica's watches show"
	servedFresh         = "a served target is at most a minute old, and mode hold serves none"
	oneServer           = "at most one replica serves at any time"
	oneRelease          = "while a release leads and overrides a NodePool, another one does not write it, and leads for at most half a minute"
	holderWrites        = "only the holder of the Lease writes"
	consentedFields     = "gpuscaler changes only the fields that the NodePool's annotation lists at that time, and its own annotations"
	overridesRecorded   = "a NodePool whose field gpuscaler changed has a record that contains the owner's present value"
	newerRecord         = "while a NodePool has a record of a newer version, gpuscaler only restores its owner's values, and keeps the record"
	editsStay           = "a field to which its owner gave a new value during an override is not changed for ten minutes"
	noStarvation        = "no limit of gpuscaler blocks a pending pod of a group for more than three minutes while a healthy replica leads"
	standbyTakesOver    = "a healthy replica leads and ticks within 25 seconds after the last leader ended"
	leaderLabeled       = "20 seconds after a healthy replica became the leader, its pod has the leader label, and no other pod has it"
	pushedInactive      = "KEDA receives that a workload is not active only while the sender serves the target 0"
	pushArrives         = "KEDA's stream is open at most 62 seconds after it can be, and transfers an activation within a second"
	streamsReturn       = "a second after a stream of KEDA is closed, its handler has returned"
	explained           = "each change of a target has a reason of its binding rule"
	noPartFails         = "no part of a tick fails"
	fewWrites           = "a replica writes a NodePool at most fifteen times a minute"
	quietNoWrites       = "without a change of the load or of an object, only a return to spot writes a NodePool in the last minute"
	convergence         = "nine minutes after the last fault, each target is what the load needs, and what a new controller decides"
	restoration         = "a minute after the last group is removed, each field has its owner's value, and nothing of gpuscaler is left"
)

// violation is the first invariant that a run violates, with a description.
type violation struct{ invariant, text string }

// checker checks the invariants. It records the objects in the API server, the objects that the watches of each replica delivered, and
// the samples that the data sources returned.
type checker struct {
	sim         *simulation
	violation   *violation
	writes      int
	transitions int

	samples    map[*replica]map[string]sample // the newest usable sample that each replica received, by workload and signal
	previous   map[string]previousTarget      // previous target, by replica and workload
	writeTimes map[string][]time.Time         // times of gpuscaler's writes, by NodePool
	blocked    map[string]time.Time           // time since which a limit of gpuscaler blocks the pending pods of a group, by group
	healthy    map[*replica]time.Time         // time since which a replica is healthy
	contested  map[*replica]time.Time         // time since which a process leads although another leading release overrides its NodePools
	led        time.Time                      // the last time at which the newest tick of a leader was at most 3 s old
}

func newChecker(s *simulation) *checker {
	return &checker{sim: s, samples: map[*replica]map[string]sample{}, previous: map[string]previousTarget{},
		writeTimes: map[string][]time.Time{}, blocked: map[string]time.Time{}, healthy: map[*replica]time.Time{},
		contested: map[*replica]time.Time{}}
}

// fail records the first violation.
func (c *checker) fail(invariant, format string, args ...any) {
	if c.violation == nil {
		c.violation = &violation{invariant, fmt.Sprintf("%.1fs: ", c.sim.now.Sub(c.sim.began).Seconds()) + fmt.Sprintf(format, args...)}
		c.sim.trace("violated: %s: %s", invariant, c.violation.text)
	}
}

// sample is a value of a signal that a data source returned.
type sample struct {
	at    time.Time
	value float64
}

// evidence records the newest usable sample of a signal that a replica of gpuscaler received for a workload.
func (c *checker) evidence(r *replica, w *workload, signal string, value sample) {
	if c.samples[r] == nil {
		c.samples[r] = map[string]sample{}
	}
	c.samples[r][w.name+" "+signal] = value
}

// second checks the invariants that must hold at the end of each second.
func (c *checker) second() {
	s := c.sim
	for _, r := range s.replicas {
		if !r.up || s.now.Before(r.paused) || s.now.Before(r.cut) || !r.stopping.IsZero() {
			delete(c.healthy, r)
		} else if c.healthy[r].IsZero() {
			c.healthy[r] = s.now
		}
	}
	for _, r := range s.processes() {
		if s.now.Sub(r.ticked) <= 3*time.Second {
			c.led = s.now
		}
	}
	takeover := takeover
	if s.hasSecond {
		takeover += otherTakeover
	}
	for _, r := range s.replicas {
		if since := c.healthy[r]; !since.IsZero() && s.now.Sub(since) > takeover && s.now.Sub(c.led) > takeover {
			c.fail(standbyTakesOver, "%s is healthy for %s, and no replica leads for %s; holder %q", r.name, s.now.Sub(since), s.now.Sub(c.led),
				s.lease.holder)
		}
	}
	for _, r := range s.replicas {
		c.read(r)
	}
	c.starvation()
	c.labels()
	c.oneRelease()
	c.pushes()
}

// takeover is the longest allowed time until a standby leads: the duration of the Lease plus two retries of client-go's election, with
// their jitter.
const takeover = 25 * time.Second

// otherTakeover is added to takeover if a second release is installed, because a process then becomes the leader later. The process reads
// the Lease of the other release every 5 s, waits until this Lease has been expired for 30 s, and restarts when it finds the other
// release.
const otherTakeover = 60 * time.Second

// starvation fails the run if a limit that gpuscaler set has blocked a pending pod of a group for more than three minutes.
func (c *checker) starvation() {
	s := c.sim
	for g, group := range groupNames {
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

// starves reports whether a pod of a group is pending only because of a limit that gpuscaler set, although a leader could remove this
// limit.
func (c *checker) starves(g int, group string) bool {
	s := c.sim
	pending := 0
	for _, p := range s.api.Pods() {
		if p.Spec.NodeName == "" && p.Spec.NodeSelector[model.GroupLabel] == group {
			pending++
		}
	}
	if pending <= s.karpenter.Changing(group) {
		return false
	}
	overridden, mayRestore := false, true
	for _, p := range s.pools {
		u := s.nodePool(p)
		if p.group != group || u == nil {
			continue
		}
		n, limit := s.karpenter.Nodes(p.name), model.Limit(u)
		if limit < 0 || n < limit {
			return false
		}
		owner := strings.Trim(p.owner["spec.limits."+gpuResource], `"`)
		if granted, err := strconv.ParseInt(owner, 10, 64); err != nil || n < granted {
			overridden = true
		}
		mayRestore = mayRestore && s.now.Sub(p.consented) > time.Minute &&
			strings.Contains(u.GetAnnotations()[karpenter.ConsentAnnotation], "limits")
	}
	return overridden && mayRestore && s.people.editions[len(s.people.editions)-1].settings.groups[g] && c.canWrite()
}

// canWrite reports whether a leader can write now: writes succeed, the leader has been healthy for more than a minute, and its watches do
// not lag.
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

// converged is called at the end of the time without faults. It checks that each target is what the load needs and what a new controller
// decides, and that gpuscaler no longer writes NodePools.
func (c *checker) converged() {
	s := c.sim
	for i, w := range s.workloads {
		o := &s.people.settings.workloads[i]
		needed := min(max(w.needs(o), o.min), o.max)
		key := scaling.Key{Namespace: namespace, Name: w.name}
		fresh, _ := s.fresh.engine.Decisions().Record(key)
		led := false
		for _, r := range s.replicas {
			if !r.up || !r.lease.leading() {
				continue
			}
			led = true
			rec, _ := r.engine.Decisions().Record(key)
			if rec.Decision.Uncapped-rec.Decision.Extra != needed || !rec.At.Equal(s.now) && s.now.Sub(rec.At) > 2*time.Second {
				c.fail(convergence, "%s: target of %s is %d (decided %s ago) and its load needs %d", r.name, w.name, rec.Decision.Replicas,
					s.now.Sub(rec.At), needed)
			}
			different := rec.Decision.Replicas != fresh.Decision.Replicas
			if different && (fresh.Decision.Uncapped < needed || !c.returned(w.group, returnAffects)) {
				c.fail(convergence, "%s: target of %s is %d, and a new controller decides %d", r.name, w.name, rec.Decision.Replicas,
					fresh.Decision.Replicas)
			}
		}
		if !led {
			c.fail(standbyTakesOver, "no replica leads at the end")
		}
	}
	for _, p := range s.pools {
		c.quiet(p)
	}
}

// returnAffects is how long after a probe or a return to spot the checker permits more replicas and more writes than without it. A
// controller that starts while a group moves between capacity types does not know that the move added replicas. It keeps these replicas for
// the stabilization window after they are ready. A minute after the last node is emptied, the limit and the disruption budgets of its
// NodePool are written.
const returnAffects = 2 * time.Minute

// returnWrites is the largest allowed number of writes to a NodePool in a minute of a return to spot: the end of the return, the limit 0
// after the return, the restored budgets, the return of their field ownership, and the record annotation.
const returnWrites = 6

// nodeAffects is how long after the last change of a node gpuscaler may still write to the NodePools of its group. A minute after the
// last node of a NodePool was deleted, the limit of the NodePool becomes 0 and its budgets are restored.
const nodeAffects = 2 * time.Minute

// quiet checks that gpuscaler did not write a NodePool in the last minute. It permits the writes of a return to spot, which can continue
// for hours after the last fault, because moves have a minimum interval. Each move writes the record annotation or the limit. A node that
// the return emptied is deleted after the consolidateAfter of its NodePool.
func (c *checker) quiet(p *pool) {
	s := c.sim
	if since := s.now.Sub(p.touched); since >= editWait && since < editWait+2*time.Minute {
		return // editWait has passed, so gpuscaler may override the edited field again
	}
	minute, permitted := s.now.Add(-time.Minute), 0
	if c.returned(p.group, returnAffects) || s.now.Sub(s.karpenter.Changed(p.group)) < nodeAffects {
		permitted = returnWrites
	}
	t := c.writeTimes[p.name]
	first := len(t)
	for first > 0 && t[first-1].After(minute) {
		first--
	}
	if len(t)-first > permitted {
		c.fail(quietNoWrites, "NodePool %s was written %d times in the last minute, last %s before the end", p.name, len(t)-first,
			s.now.Sub(t[len(t)-1]))
	}
}

// returned reports whether, in the given time before now, the leader probed spot for a group or moved its replicas back to spot.
func (c *checker) returned(group string, before time.Duration) bool {
	from := c.sim.now.Add(-before)
	for _, r := range c.sim.replicas {
		if !r.up || !r.lease.leading() {
			continue
		}
		all := r.engine.Decisions().GroupHistory(group, c.sim.began, c.sim.now)
		later, _ := slices.BinarySearchFunc(all, from, func(g engine.GroupRecord, at time.Time) int { return g.At.Compare(at) })
		return slices.ContainsFunc(all[max(0, later-1):], func(g engine.GroupRecord) bool {
			return g.Phase == statemachine.Probing || g.Phase == statemachine.Returning
		})
	}
	return false
}

// restored checks the invariant restoration: no annotation, record or override of gpuscaler is left on a NodePool or a pod.
func (c *checker) restored() {
	for _, p := range c.sim.api.Pods() {
		for _, key := range podAnnotations {
			if value, left := p.Annotations[key]; left {
				c.fail(restoration, "pod %s still has the annotation %s: %s", p.Name, key, value)
			}
		}
	}
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
