package scaling

import "math"

// staleLimit is the multiple of MaxAge up to which a stale reading can raise the target. An older reading is ignored. Otherwise, for
// example, a queue that was measured yesterday could start a GPU today.
const staleLimit = 4

// inputs describes which signals can be used in a tick.
type inputs struct {
	// degraded is true if a required signal cannot be used, or if no signal can be used. In this case signals do not lower the target.
	degraded bool
	unusable int32 // number of required signals that cannot be used
	first    int8  // index of the first required signal that cannot be used, -1 if there is none
	// hidden is true if no signal is active, but a pod that did not report may be serving requests. Scale to zero would interrupt these
	// requests.
	hidden bool
}

// read determines the status of one signal and the number of replicas that it proposes.
func (t *tick) read(i int8) {
	sig, r := &t.p.Signals[i], Reading{}
	if int(i) < len(t.o.Readings) {
		r = t.o.Readings[i]
	}
	status := t.examine(sig, &r)
	t.status[i] = status
	t.proposals[i] = Proposal{Value: r.Value, Known: status == SignalOK}
	if status.hasValue() && !sig.isEvidence() {
		t.proposals[i].Replicas = t.request(sig, &r)
		t.updateForecast(i)
		if r.Shared {
			// If several pods share a GPU, its activity includes the load of the other pods. More replicas of this workload would not reduce this
			// load. The activity can therefore prevent a decrease, but cannot raise the target.
			t.proposals[i].Replicas = min(t.proposals[i].Replicas, float64(t.s.lastTarget))
		}
		t.rounded[i] = roundUp(t.proposals[i].Replicas)
	}
}

// hasValue reports whether a signal with this status has a value. The value of a signal that is stale or has low coverage can still raise
// the target.
func (s SignalStatus) hasValue() bool { return s != SignalMissing && s != SignalUnmeasured }

// propose determines which signals can be used, and whether the workload is active.
//
// If a required signal cannot be used, the tick is degraded. At zero replicas there are no pods with metrics, and the target cannot
// decrease. In this case the tick is degraded only if no signal can be used.
func (t *tick) propose() {
	t.inputs.first = -1
	signals, usable, values := 0, 0, activity{}
	for i := range t.signals {
		if t.without(i) {
			continue
		}
		signals++
		sig, status := &t.p.Signals[i], t.status[i]
		switch {
		case status == SignalOK:
			usable++
		case !sig.Optional || t.neverPolled(i): // an optional signal that was not polled so far is treated like a required signal
			if t.inputs.unusable == 0 {
				t.inputs.first = i
			}
			t.inputs.unusable++
		}
		if status.hasValue() {
			values.add(t.proposals[i].Value > sig.Activation, t.partly(i))
		}
	}
	t.active, t.inputs.hidden = values.of(t.p.Activation)
	atZero := t.lastTarget == 0 && t.current == 0
	if t.inputs.unusable > 0 && !atZero || signals > 0 && usable == 0 {
		t.degrade()
	}
}

// activity collects how the values of the signals compare with their activation values.
type activity struct {
	above  bool // at least one value is above its activation value
	below  bool // at least one value is not above its activation value
	hidden bool // at least one value is not above its activation value, and its reading covers only some of the ready pods
	proven bool // at least one value is not above its activation value, and its reading covers all ready pods
}

// add adds the value of a signal. above is true if the value is above its activation value. partly is true if its reading covers only some
// of the ready pods.
func (a *activity) add(above, partly bool) {
	a.above, a.below = a.above || above, a.below || !above
	a.hidden, a.proven = a.hidden || !above && partly, a.proven || !above && !partly
}

// of reports whether the workload is active. hidden is true if the signals do not show activity but a pod that did not report may be
// serving requests.
func (a *activity) of(by Activation) (active, hidden bool) {
	all := by == ActiveByAll
	return a.above && !(all && a.below), a.hidden && !(all && a.proven)
}

// partly reports whether the reading of a signal covers some of the ready pods, but not all of them.
func (t *tick) partly(i int8) bool {
	coverage := t.o.Readings[i].Coverage
	return coverage > 0 && coverage < 1
}

// degrade marks the tick as degraded. If the observed replicas exceed the last target, the HPA has not applied the last decrease. The
// observed replicas then become the last target, without the replicas that the rules about nodes added, because these rules add them again.
func (t *tick) degrade() {
	if t.skips(RuleMissing, -1) {
		return
	}
	t.inputs.degraded = true
	t.lastTarget = max(t.lastTarget, t.current-t.s.extra)
	t.n = t.lastTarget
}

// examine returns the status of a signal. If the time of a reading is more than MaxAhead ahead of gpuscaler's clock, its age is unknown, so
// the reading is treated as stale.
func (t *tick) examine(sig *Signal, r *Reading) SignalStatus {
	age := max(t.now.Sub(r.At), -math.MaxInt64).Abs()
	switch {
	case !r.Known && t.ready == 0 && r.Cause.withoutPods():
		return SignalUnmeasured
	case !r.Known || !(r.Value >= 0) || math.IsInf(r.Value, 0) || !(sig.Target > 0 || sig.isEvidence()) || age/staleLimit > sig.MaxAge:
		return SignalMissing
	case sig.Kind == Mean && t.ready == 0:
		return SignalUnmeasured
	case age > sig.MaxAge || r.At.Sub(t.now) > MaxAhead:
		return SignalStale
	case sig.MinCoverage > 0 && !(r.Coverage >= sig.MinCoverage):
		return SignalLowCoverage
	}
	return SignalOK
}

// request returns the number of replicas that a reading proposes, before rounding.
//
// A reading describes only the replicas that were ready and reported. For the other ready replicas, request makes the same assumptions as
// an HPA: in a proposal to scale up they are idle, and in a proposal to scale down they are exactly at the target. For example, if 5 of 6
// pods report their queues, the sum of the queues is not the sum of all 6. This also prevents an overshoot: the mean of 2 measured replicas
// is not multiplied by 4 replicas that have become ready since then.
//
// The proposal of a Total does not depend on loading replicas. For a reading with coverage 0, request assumes that all ready replicas have
// reported, because its source does not count pods.
func (t *tick) request(sig *Signal, r *Reading) float64 {
	ratio := float64(r.Value / sig.Target)
	ready := float64(t.ready)
	measured := ready
	if r.Measured > 0 {
		measured = float64(min(r.Measured, maxReplicas))
	}
	if r.Coverage > 0 && r.Coverage < 1 {
		measured = float64(measured * r.Coverage)
	}
	unmeasured := max(float64(ready-measured), 0)
	if sig.Kind == Total {
		return min(max(ratio, min(ratio+unmeasured, ready)), maxReplicas)
	}
	want := float64(measured * ratio)
	if ratio > 1 {
		want = max(want, ready)
	} else {
		want += unmeasured
	}
	if sig.Class == Latency {
		want = t.step(want)
	}
	return min(want, maxReplicas)
}

// step limits the proposal of a latency signal. It may differ from the ready replicas by at most half of them, or by 1 if fewer than 4 are
// ready. The reason is that a latency is not proportional to the load: a latency of twenty times the target does not need twenty times the
// replicas. The target increases further only when the added replicas are ready, because the limit is computed from the ready replicas.
func (t *tick) step(want float64) float64 {
	ready := float64(t.ready)
	size := float64(max(1, t.ready/2))
	return max(ready-size, min(want, ready+size))
}

// neverPolled reports whether no poll of signal i has received a response so far.
func (t *tick) neverPolled(i int8) bool {
	return int(i) < len(t.o.Readings) && !t.o.Readings[i].Known && t.o.Readings[i].Cause == CauseNever
}

// roundUp rounds a number of replicas up to a whole number, limited to maxReplicas. It ignores the error of floating-point arithmetic: for
// example, 3 x 0.7 / 0.7 is 3.0000000000000004, which must not add a GPU.
func roundUp(want float64) int32 {
	const noise = 1e-9
	return int32(min(math.Ceil(float64(want*(1-noise))), maxReplicas))
}

// combine uses the greatest proposal, or the result of the formula. It uses a signal that is stale or has low coverage only if this raises
// the target. For a policy without signals the result is 0. If no signal can be used, the last target is kept.
func (t *tick) combine() {
	if t.p.Formula != nil && !t.skips(RuleCombine, -1) {
		t.formula()
		return
	}
	best := int8(-1)
	for i := range t.signals {
		if t.without(i) || !t.counts(i) {
			continue
		}
		if best < 0 || t.proposals[i].Replicas > t.proposals[best].Replicas {
			best = i
		}
	}
	if best >= 0 {
		t.setRequest(t.proposals[best].Replicas, best, t.proposals[best].Value)
	} else if !t.inputs.degraded && !t.hasObjective() {
		t.setRequest(0, -1, 0)
	}
}

// counts reports whether RuleCombine uses signal i. It uses a signal that is stale or has low coverage only if this raises the target. It
// does not use a signal without a target.
func (t *tick) counts(i int8) bool {
	if t.p.Signals[i].isEvidence() {
		return false
	}
	return t.status[i] == SignalOK || t.status[i].hasValue() && t.rounded[i] > t.lastTarget
}

func (t *tick) setRequest(want float64, index int8, value float64) {
	t.requested, t.hasRequest = roundUp(want), index >= 0 || t.p.Formula != nil
	t.set(RuleCombine, index, t.requested, want, value)
	t.unrounded, t.binding, t.index = want, RuleCombine, index
}

// formula sets the target to the result of the policy's formula. It is a separate function because it allocates memory for the arguments of
// the formula, and a tick of a policy without a formula must not allocate memory.
func (t *tick) formula() {
	proposals := append([]Proposal(nil), t.proposals[:t.signals]...)
	for i := range t.signals {
		if t.without(i) {
			proposals[i] = Proposal{}
		}
	}
	want, ok := t.p.Formula(proposals, t.current, t.ready)
	if !ok || !(want >= 0) || math.IsInf(want, 0) {
		t.degrade()
		return
	}
	t.setRequest(min(want, maxReplicas), -1, 0)
}

// missing prevents a decrease while the tick is degraded.
func (t *tick) missing() {
	if !t.inputs.degraded {
		return
	}
	var status SignalStatus
	if t.inputs.first >= 0 {
		status = t.status[t.inputs.first]
	}
	t.set(RuleMissing, t.inputs.first, max(t.n, t.lastTarget), float64(t.inputs.unusable), float64(status))
	if !t.hasRequest {
		t.binding, t.index = RuleMissing, t.inputs.first
	}
}

// fallback applies the policy's fallback after a required signal has failed FailureThreshold times in a row. It has the four behaviors of
// KEDA, but none of them lowers the target:
//
//	static                   max(Replicas, current)   KEDA: Replicas
//	currentReplicas          current                  the same
//	currentReplicasIfHigher  max(current, Replicas)   the same
//	currentReplicasIfLower   current                  KEDA: min(current, Replicas)
//
// Other signals can still raise the target. At zero replicas, a static fallback scales up the workload, as in KEDA, if no other signal can
// scale it up. A source without data while no replica is ready does not count as failed, because otherwise the fallback would apply during
// each cold start from zero.
func (t *tick) fallback() {
	f := &t.p.Fallback
	if !t.inputs.degraded || f.Behavior == FallbackNone {
		return
	}
	for i := range min(t.signals, int8(min(len(t.o.Readings), MaxSignals))) {
		failures := t.o.Readings[i].Failures
		excused := t.status[i] == SignalOK || t.status[i] == SignalUnmeasured || t.p.Signals[i].Optional || t.without(i)
		if excused || failures < max(f.FailureThreshold, 1) {
			continue
		}
		floor := int32(0)
		if f.Behavior == FallbackStatic || f.Behavior == FallbackCurrentReplicasIfHigher {
			floor = clamp(f.Replicas, 0, maxReplicas)
		}
		t.keepAtLeast(RuleFallback, i, floor, float64(failures), float64(f.Replicas))
		return
	}
}

// report copies the status and the proposal of each signal to the decision.
func (t *tick) report() {
	t.d.Status = t.status
	t.d.Proposals = [MaxSignals]int32{-1, -1, -1, -1, -1, -1, -1, -1}
	for i := range t.signals {
		if t.counts(i) {
			t.d.Proposals[i] = t.rounded[i]
		}
	}
}
