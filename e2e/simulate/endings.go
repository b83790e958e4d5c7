package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// second checks what must hold between the ticks.
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

// takeover is the longest time until a standby leads: the duration of the Lease, and two retries of client-go's election with their jitter.
const takeover = 25 * time.Second

// otherTakeover is how much longer it takes with two releases: the Lease of the other release counts for 30 s after its end, its state is
// known for 5 s, and a process that finds it restarts.
const otherTakeover = 60 * time.Second

// starvation checks that no limit of gpuscaler blocks pending pods.
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
	overridden, mayRestore := false, true
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
		if granted, err := strconv.ParseInt(owner, 10, 64); err != nil || n < granted {
			overridden = true
		}
		mayRestore = mayRestore && s.now.Sub(p.consented) > time.Minute &&
			strings.Contains(u.GetAnnotations()[karpenter.ConsentAnnotation], "limits")
	}
	return overridden && mayRestore && s.people.editions[len(s.people.editions)-1].settings.groups[g] && c.canWrite()
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
		if since := s.now.Sub(p.touched); since >= editWait && since < editWait+2*time.Minute {
			continue // gpuscaler overrides an edited field again after the wait
		}
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
