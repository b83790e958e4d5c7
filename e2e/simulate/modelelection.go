package main

import "time"

// election is the leader election of one process.
type election interface {
	// leading reports whether the process may write and serve.
	leading() bool
	// step runs a second of a modeled election.
	step()
	// stop is called when the process receives SIGTERM, and endRounds when the rounds of its shutdown have ended.
	stop()
	endRounds()
	// ended reports whether the election has ended after SIGTERM.
	ended() bool
	// kill ends the election without any further request.
	kill()
}

// realElections is the share of seeds that run the election of client-go: one of five. It takes as much CPU as the rest of a run. The
// other seeds run modelElection.
const realElections = 5

func newElection(r *replica) election {
	switch {
	case r.name == freshName:
		return alwaysLeads{}
	case r.sim.realElection() && r.release == release:
		return newCampaign(r)
	}
	return &modelElection{replica: r}
}

func (s *simulation) realElection() bool { return s.seed%realElections == 1 }

// alwaysLeads is the election of a process without competitors.
type alwaysLeads struct{}

func (alwaysLeads) leading() bool { return true }
func (alwaysLeads) step()         {}
func (alwaysLeads) stop()         {}
func (alwaysLeads) endRounds()    {}
func (alwaysLeads) ended() bool   { return false }
func (alwaysLeads) kill()         {}

const (
	renewDeadline = leaseDuration * 2 / 3
	retryPeriod   = leaseDuration * 2 / 15
)

// modelElection follows the rules of client-go's election and of package leader, without their jitter.
type modelElection struct {
	replica  *replica
	holds    bool
	over     bool      // the process released the Lease after SIGTERM
	renewed  time.Time // when this process last wrote the Lease
	tried    time.Time
	observed int       // serial of the Lease that was last read
	since    time.Time // when that serial was first read

	campaigns bool      // no other release prevents this process from competing for the Lease
	checked   time.Time // when another release was last looked for
}

// leading implements election: the process leads, and its last write of the Lease is less than its duration ago.
func (c *modelElection) leading() bool {
	return c.holds && c.replica.sim.now.Sub(c.renewed) < leaseDuration
}

// step acquires or renews the Lease when it is due.
func (c *modelElection) step() {
	r, now := c.replica, c.replica.sim.now
	if !r.up {
		return
	}
	if c.holds && now.Sub(c.renewed) >= renewDeadline && (now.Before(r.cut) || now.Sub(c.renewed) >= leaseDuration) {
		c.lose("it was not renewed")
	}
	if c.holds {
		c.watchOtherReleases(false)
	}
	if now.Sub(c.tried) < retryPeriod || now.Before(r.cut) || !c.mayCampaign() {
		return
	}
	c.tried = now
	l := r.sim.leaseOf(r.release)
	if l.serial != c.observed || c.since.IsZero() {
		c.observed, c.since = l.serial, now
	}
	if l.holder != "" && l.holder != r.name {
		if c.holds {
			c.lose("another replica holds it")
		}
		if now.Before(c.since.Add(leaseDuration)) {
			return
		}
	}
	if !r.stopping.IsZero() && !c.holds {
		return
	}
	if l.holder != r.name {
		l.acquired = now
	}
	l.holder, l.renewed, l.serial = r.name, now, l.serial+1
	c.observed, c.since, c.renewed = l.serial, now, now
	if !c.holds {
		c.holds = true
		r.sim.trace("%s: leads", r.name)
		c.watchOtherReleases(true)
	}
}

func (c *modelElection) lose(why string) {
	c.holds = false
	c.replica.engine.Reset()
	c.replica.stopServing()
	c.replica.sim.trace("%s: leads no more: %s", c.replica.name, why)
}

func (c *modelElection) stop() {}

// endRounds clears the holder of the Lease, so that a standby does not wait for the Lease to expire.
func (c *modelElection) endRounds() {
	if r := c.replica; c.holds && !r.sim.now.Before(r.cut) {
		if l := r.sim.leaseOf(r.release); l.holder == r.name {
			l.holder, l.serial = "", l.serial+1
		}
	}
	c.holds, c.over = false, true
}

func (c *modelElection) ended() bool { return c.over }

func (c *modelElection) kill() {}
