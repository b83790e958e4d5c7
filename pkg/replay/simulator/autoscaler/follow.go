package autoscaler

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
)

// Follower returns the actuator of a workload whose config does not set one. The actuator depends on the policy of the workload:
//
//   - no policy: Direct
//   - the policy enables gpuscaler's activator: an HPA with this activator
//   - the policy allows zero replicas and does not enable the activator: KEDA
//   - any other policy: an HPA
func Follower(c *policy.Compiled) Factory {
	if c == nil {
		return Direct
	}
	p := c.Workload
	switch {
	case p.Activate:
		return FollowHPA(ManagedHPA{Activate: true})
	case p.Policy.MinReplicas == 0:
		return FollowKEDA(ManagedScaledObject{})
	}
	return FollowHPA(ManagedHPA{})
}

// ManagedHPA is a managed HPA: its External metric is the target of gpuscaler, with an averageValue of 1.
type ManagedHPA struct {
	Spec     *hpa.Spec // spec of the HPA; nil: the policy's bounds, and a behavior that follows every change
	Activate bool      // true: gpuscaler scales from 0 to 1 and from 1 to 0
}

// FollowHPA returns an HPA that follows the target of gpuscaler.
func FollowHPA(f ManagedHPA) Factory {
	return func() Actuator { return &followHPA{config: f} }
}

type followHPA struct {
	config  ManagedHPA
	spec    hpa.Spec
	hpa     hpa.Controller
	next    time.Time
	desired int32
}

// open sets the spec of the HPA and the time of its first sync. Act calls open once, before the first sync.
func (f *followHPA) open(s *Scene) {
	f.next = s.Now.Add(time.Duration(s.Uniform() * float64(hpa.SyncPeriod)))
	switch p := s.Policy(); {
	case f.config.Spec != nil:
		f.spec = *f.config.Spec
	case p != nil:
		f.spec = hpa.Spec{Min: max(1, p.MinReplicas), Max: max(1, p.MaxReplicas), Behavior: hpa.Follower()}
	}
}

func (f *followHPA) Act(s *Scene) Move {
	if f.next.IsZero() {
		f.open(s)
	}
	m := Move{Replicas: s.Spec}
	if !s.Now.Before(f.next) {
		f.next = f.next.Add(hpa.SyncPeriod)
		m.Replicas = f.sync(s)
	}
	if served, ok := s.Served(); ok && f.config.Activate {
		switch {
		case s.Spec == 0 && served.Replicas > 0:
			m.Replicas = 1
		case m.Replicas <= f.spec.Min && s.Spec > 0 && served.Replicas == 0:
			m.Replicas = 0
		}
	}
	return m
}

func (f *followHPA) sync(s *Scene) int32 {
	proposal := [1]hpa.Proposal{}
	if served, ok := s.Served(); ok {
		n := hpa.AverageValue(int64(served.Replicas)*1000, 1000, s.Status, f.spec.Tolerances())
		proposal[0] = hpa.Proposal{Replicas: n, Known: true}
	}
	f.desired, _ = f.hpa.Sync(&f.spec, s.Now, s.Spec, proposal[:])
	return f.desired
}

func (f *followHPA) ManagedHPA() engine.ManagedHPA {
	return engine.ManagedHPA{Kind: "HorizontalPodAutoscaler", Name: "simulated", Desired: f.desired, Exact: true}
}

// ManagedScaledObject is a ScaledObject whose trigger is gpuscaler (external-push, with the target 1).
type ManagedScaledObject struct {
	Polling  time.Duration // pollingInterval; 0 means KEDA's 30 s
	Cooldown time.Duration // cooldownPeriod; keep it 0, because gpuscaler applies its own cooldown
}

// FollowKEDA returns a ScaledObject that follows the target of gpuscaler.
func FollowKEDA(f ManagedScaledObject) Factory {
	return func() Actuator {
		return &followKEDA{followHPA: followHPA{}, loop: KEDALoop{ScaleLoop: hpa.ScaleLoop{Cooldown: f.Cooldown}, Polling: f.Polling}}
	}
}

type followKEDA struct {
	followHPA
	loop KEDALoop
}

func (f *followKEDA) Act(s *Scene) Move {
	m := f.followHPA.Act(s)
	served, ok := s.Served()
	if ok && served.Replicas > 0 && s.Spec == 0 {
		m.Replicas = 1 // gpuscaler pushes the activation to KEDA, so KEDA does not wait for its next poll
		return m
	}
	if f.loop.Due(s) {
		m.Replicas = f.loop.PollAt(s, m.Replicas, Activity{Active: served.Replicas > 0, Known: ok})
	}
	return m
}

func (f *followKEDA) ManagedHPA() engine.ManagedHPA {
	v := f.followHPA.ManagedHPA()
	v.Kind = "ScaledObject"
	return v
}

// KEDALoop runs the scale loop of KEDA's operator once per polling interval. Between these polls, the HPA that KEDA creates scales the
// workload.
type KEDALoop struct {
	hpa.ScaleLoop
	Polling time.Duration
	Next    time.Time // time of the next poll
}

// Activity is the state of all triggers at a poll. Active means that at least one trigger is active. Known means that no trigger failed.
type Activity struct{ Active, Known bool }

const kedaPolling = 30 * time.Second

// Due reports whether a poll is due, and sets the time of the next poll.
func (k *KEDALoop) Due(s *Scene) bool {
	if k.Polling == 0 {
		k.Polling = kedaPolling
	}
	if k.Next.IsZero() {
		k.Next = s.Now.Add(time.Duration(s.Uniform() * float64(k.Polling)))
		k.Seen(s.Now) // the workload counts as active before the start of the simulation
	}
	if s.Now.Before(k.Next) {
		return false
	}
	k.Next = k.Next.Add(k.Polling)
	return true
}

// PollAt runs one pass of the scale loop and returns the new spec.replicas. If the pass does not change spec.replicas, PollAt returns n,
// the number of replicas that the HPA has just set.
func (k *KEDALoop) PollAt(s *Scene, n int32, a Activity) int32 {
	if to := k.Poll(s.Now, s.Spec, a.Active, a.Known); to != s.Spec {
		return to
	}
	return n
}
