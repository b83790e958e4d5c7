package capacity

import "time"

const (
	// zeroLimitDelay is how long there must be no demand before the limit is set to 0. Without this delay, a queue that is empty for only
	// some minutes would cause two writes of each NodePool every time.
	zeroLimitDelay = 5 * time.Minute
	// unknownPendingTime is how long a pod must be pending before it counts as demand, if it is unknown whether the pod can be scheduled to
	// the group's NodePools.
	unknownPendingTime = time.Minute
	// liftAhead is how long before known demand the zero limit is removed, in addition to the group's lead time. Karpenter takes up to 15
	// seconds to observe the change.
	liftAhead = time.Minute
)

// zeroLimit is the state machine of the zero limit, which is a limit of 0 while there is no demand:
//
//	state  event         next
//	any    demandExists  zeroLimitOff
//	any    noDemand      zeroLimitPending
//	any    noDemandLong  zeroLimitOn
//
// noDemandLong can also occur in zeroLimitOff: a new leader finds the zero limit of the previous leader in force and keeps it.
type zeroLimit struct {
	Since int64 `json:"since,omitempty"` // time since which there is no demand; 0: demand exists
}

type zeroLimitState uint8

const (
	zeroLimitOff     zeroLimitState = iota // demand exists or is unknown
	zeroLimitPending                       // there is no demand, but not for long enough
	zeroLimitOn                            // the limit is 0
	numZeroLimitStates
)

type zeroLimitEvent uint8

const (
	demandExists zeroLimitEvent = iota // demand exists or may exist: in case of doubt it counts as demand
	noDemand
	noDemandLong // there has been no demand for zeroLimitDelay, or there is none and the limit is already 0
	numZeroLimitEvents
)

// zeroLimitTransitions is the next state for each state and event.
var zeroLimitTransitions = [numZeroLimitStates][numZeroLimitEvents]zeroLimitState{
	zeroLimitOff:     {demandExists: zeroLimitOff, noDemand: zeroLimitPending, noDemandLong: zeroLimitOn},
	zeroLimitPending: {demandExists: zeroLimitOff, noDemand: zeroLimitPending, noDemandLong: zeroLimitOn},
	zeroLimitOn:      {demandExists: zeroLimitOff, noDemand: zeroLimitPending, noDemandLong: zeroLimitOn},
}

// zeroLimitInput is everything that the state machine reads.
type zeroLimitInput struct {
	at      int64
	lift    LiftReason
	inForce bool // the limit of a NodePool is 0, set by this or a previous leader
}

// state returns the current state. It depends on the time, because zeroLimitPending becomes zeroLimitOn after zeroLimitDelay.
func (z *zeroLimit) state(in zeroLimitInput) zeroLimitState {
	switch {
	case z.Since == 0:
		return zeroLimitOff
	case in.inForce || in.at >= z.Since+zeroLimitDelay.Milliseconds():
		return zeroLimitOn
	}
	return zeroLimitPending
}

// event returns the event that the input causes.
func (z *zeroLimit) event(in zeroLimitInput) zeroLimitEvent {
	switch {
	case in.lift != NotLifted:
		return demandExists
	case in.inForce || z.Since != 0 && in.at >= z.Since+zeroLimitDelay.Milliseconds():
		return noDemandLong
	}
	return noDemand
}

// step applies the event of the input and returns the next state.
func (z *zeroLimit) step(in zeroLimitInput) zeroLimitState {
	next := zeroLimitTransitions[z.state(in)][z.event(in)]
	switch {
	case next == zeroLimitOff:
		z.Since = 0
	case z.Since == 0:
		z.Since = in.at
	}
	return next
}

// limitToZero requests a limit of 0 for every NodePool of the group while there is no demand. As soon as demand exists or may exist, it no
// longer requests the limit, and the owner's limit is restored.
func (t *tick) limitToZero() {
	in := zeroLimitInput{t.at, t.liftReason(), t.zeroLimitInForce()}
	state := t.s.ZeroLimit.step(in)
	switch {
	case !t.g.ZeroLimit || t.leaving:
	case state == zeroLimitOn:
		for i := range t.views() {
			t.requestNumber(i, FieldLimit, 0, RuleZeroLimit)
		}
		t.because(Reason{Rule: RuleZeroLimit, Pool: -1})
	default:
		r := Reason{Rule: RuleNoZeroLimit, Pool: -1, A: float64(in.lift)}
		if state == zeroLimitPending {
			r.Until = instant(t.s.ZeroLimit.Since + zeroLimitDelay.Milliseconds())
		}
		t.because(r)
	}
}

// zeroLimitInForce reports whether this rule has set the limit of any NodePool of the group to 0.
func (t *tick) zeroLimitInForce() bool {
	for i := range t.views() {
		if o := &t.s.Pools[i].Overrides[FieldLimit]; o.On && !o.Releasing && o.Rule == RuleZeroLimit {
			return true
		}
	}
	return false
}

// liftReason returns why the limit must not be 0. It returns NotLifted if there is no demand and no known demand starts soon.
func (a *analysis) liftReason() LiftReason {
	switch {
	case !a.known:
		return LiftedByUnknownDemand
	case a.pods > 0:
		if a.anyPending() {
			return LiftedByPendingPod
		}
		return LiftedByPods
	case a.demand.Total() > 0:
		return LiftedByDemand
	case a.unknownPodWaits():
		return LiftedByPendingPod
	case a.knownDemandWithin(a.g.LeadTime + liftAhead):
		return LiftedByKnownDemand
	}
	return NotLifted
}

func (a *analysis) anyPending() bool {
	found := false
	a.eachPod(func(_ *Workload, p *Pod) { found = found || p.Pending && !p.UnknownPlacement })
	return found
}

// unknownPodWaits reports whether a pod has been pending for unknownPendingTime, and it is unknown whether the pod can be scheduled to the
// group's NodePools.
func (a *analysis) unknownPodWaits() bool {
	for i := range a.o.UnmanagedPods {
		if p := &a.o.UnmanagedPods[i]; p.UnknownPlacement && p.Pending && a.now.Sub(p.Since) >= unknownPendingTime {
			return true
		}
	}
	return false
}

// knownDemandWithin reports whether known demand exists now or starts within d.
func (a *analysis) knownDemandWithin(d time.Duration) bool {
	for i := range a.o.Ahead {
		if s := &a.o.Ahead[i]; s.GPUs > 0 && a.now.Add(d).After(s.From) && a.now.Before(s.Until) {
			return true
		}
	}
	return false
}
