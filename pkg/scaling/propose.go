package scaling

import "math"

// staleLimit is how many times its MaxAge a reading may be old and still raise: yesterday's queue must not wake a GPU today.
const staleLimit = 4

// trust is how much of the tick is known.
type inputs struct {
	// degraded: a required signal is not usable, or no signal is at all. Nothing may fall for it.
	degraded bool
	unusable int32 // required signals that are not usable
	first    int8  // the first of them, -1 for none
	// hidden: nothing seen is active, and a pod that did not report may be. A fall to zero would cut off what it serves.
	hidden bool
}

// read examines one signal and asks what it wants.
func (t *tick) read(i int8) {
	sig, r := &t.p.Signals[i], Reading{}
	if int(i) < len(t.o.Readings) {
		r = t.o.Readings[i]
	}
	status := t.examine(sig, &r)
	t.status[i] = status
	t.proposals[i] = Proposal{Value: r.Value, Known: status == SignalOK}
	if status.hasValue() {
		t.proposals[i].Replicas = t.request(sig, &r)
		t.updateForecast(i)
		if r.Shared {
			// A GPU that several pods share is as busy after more of them were added: its activity keeps replicas and adds none.
			t.proposals[i].Replicas = min(t.proposals[i].Replicas, float64(t.s.lastTarget))
		}
		t.rounded[i] = roundUp(t.proposals[i].Replicas)
	}
}

// speaks reports whether the reading has a value at all, one that may raise.
func (s SignalStatus) hasValue() bool { return s != SignalMissing && s != SignalUnmeasured }

// propose sums up what the signals say: how much of the tick is known, and whether any demand is active.
//
// At zero replicas the metrics of pods vanish with the pods, and there is nothing to fall from: the tick is degraded only when no
// signal at all is left that could wake the workload.
func (t *tick) propose() {
	t.inputs.first = -1
	signals, usable, active, quiet, hidden, proven := 0, 0, false, false, false, false
	for i := range t.signals {
		if t.without(i) {
			continue
		}
		signals++
		sig, status := &t.p.Signals[i], t.status[i]
		switch {
		case status == SignalOK:
			usable++
		case !sig.Optional || t.neverPolled(i): // optional says that it may be absent, not that nobody has looked yet
			if t.inputs.unusable == 0 {
				t.inputs.first = i
			}
			t.inputs.unusable++
		}
		if status.hasValue() {
			above := t.proposals[i].Value > sig.Activation
			active, quiet = active || above, quiet || !above
			hidden, proven = hidden || !above && t.partly(i), proven || !above && !t.partly(i)
		}
	}
	all := t.p.Activation == ActiveByAll
	t.active = active && !(all && quiet)
	t.inputs.hidden = hidden && !(all && proven)
	atZero := t.lastTarget == 0 && t.current == 0
	if t.inputs.unusable > 0 && !atZero || signals > 0 && usable == 0 {
		t.degrade()
	}
}

// partly reports whether a signal speaks for some of the pods only.
func (t *tick) partly(i int8) bool {
	coverage := t.o.Readings[i].Coverage
	return coverage > 0 && coverage < 1
}

// degrade makes the tick one that nothing falls in. The observed replicas count too: where the HPA has not followed the last fall
// yet, the pods that still stand are kept. What the nodes added to them is added again by its own rules: counted here, it would
// grow in each tick.
func (t *tick) degrade() {
	if t.skips(RuleMissing, -1) {
		return
	}
	t.inputs.degraded = true
	t.lastTarget = max(t.lastTarget, t.current-t.s.extra)
	t.n = t.lastTarget
}

// examine returns how far a reading can be trusted. The age of a reading that is ahead of our clock by more than MaxAhead is not known,
// because the clock that stamped it is wrong, so it counts as stale.
func (t *tick) examine(sig *Signal, r *Reading) SignalStatus {
	age := max(t.now.Sub(r.At), -math.MaxInt64).Abs()
	switch {
	case !r.Known && t.ready == 0 && (r.Cause == CauseEmpty || r.Cause == CauseNever || r.Cause == CauseUndeclared):
		return SignalUnmeasured
	case !r.Known || !(r.Value >= 0) || math.IsInf(r.Value, 0) || !(sig.Target > 0) || age/staleLimit > sig.MaxAge:
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

// want is the signal's wish before rounding. A Total is absolute: replicas that are still loading cannot buy more.
//
// Both speak for the ready replicas that reported. The others are assumed idle where more is asked for and exactly on target
// where less is, as an HPA does with missing pods, so that neither a rise nor a fall rests on pods nobody has seen: the queues of
// 5 pods out of 6 are not a queue that got shorter by a sixth. It also stops the overshoot of a mean taken over the 2 old pods and
// multiplied by the 4 that are ready by now. A coverage of 0 that the policy lets through comes from a source that does not count
// pods.
func (t *tick) request(sig *Signal, r *Reading) float64 {
	ratio := float64(r.Value / sig.Target)
	ready := float64(t.ready)
	seen := ready
	if r.Measured > 0 {
		seen = float64(min(r.Measured, maxReplicas))
	}
	if r.Coverage > 0 && r.Coverage < 1 {
		seen = float64(seen * r.Coverage)
	}
	unseen := max(float64(ready-seen), 0)
	if sig.Kind == Total {
		return min(max(ratio, min(ratio+unseen, ready)), maxReplicas)
	}
	want := float64(seen * ratio)
	if ratio > 1 {
		want = max(want, ready)
	} else {
		want += unseen
	}
	if sig.Class == Latency {
		want = t.step(want)
	}
	return min(want, maxReplicas)
}

// step bounds what a latency asks for to a step from the ready replicas: half of them, at least one. A latency is not proportional to the
// load of a replica: twenty times the target is one overload, and not a need for twenty times the replicas. The next step counts from the
// replicas that are ready then, so that it waits for those of this step.
func (t *tick) step(want float64) float64 {
	ready := float64(t.ready)
	size := float64(max(1, t.ready/2))
	return max(ready-size, min(want, ready+size))
}

// neverPolled reports whether no poll of a signal has answered yet.
func (t *tick) neverPolled(i int8) bool {
	return int(i) < len(t.o.Readings) && !t.o.Readings[i].Known && t.o.Readings[i].Cause == CauseNever
}

// roundUp is the least whole number of replicas that serves a wish. A wish that lies above a whole number only by the rounding of
// doubles (3 x 0.7 / 0.7 is 3.0000000000000004) must not buy a GPU.
func roundUp(want float64) int32 {
	const noise = 1e-9
	return int32(min(math.Ceil(float64(want*(1-noise))), maxReplicas))
}

// combine takes the greatest wish, or what the formula makes of all. A stale or half-covered signal counts only where it raises.
// With no signals in the policy nothing asks for anything; with none that is known the number stays.
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
	} else if !t.inputs.degraded {
		t.setRequest(0, -1, 0)
	}
}

// counts reports whether a signal has a say: one that cannot lower has none unless it raises.
func (t *tick) counts(i int8) bool {
	return t.status[i] == SignalOK || t.status[i].hasValue() && t.rounded[i] > t.lastTarget
}

func (t *tick) setRequest(want float64, index int8, value float64) {
	t.requested, t.hasRequest = roundUp(want), index >= 0 || t.p.Formula != nil
	t.set(RuleCombine, index, t.requested, want, value)
	t.unrounded, t.binding, t.index = want, RuleCombine, index
}

// formula is apart because the call makes its arguments escape; policies without one must not allocate.
func (t *tick) formula() {
	asks := append([]Proposal(nil), t.proposals[:t.signals]...)
	for i := range t.signals {
		if t.without(i) {
			asks[i] = Proposal{}
		}
	}
	want, ok := t.p.Formula(asks, t.current, t.ready)
	if !ok || !(want >= 0) || math.IsInf(want, 0) {
		t.degrade()
		return
	}
	t.setRequest(min(want, maxReplicas), -1, 0)
}

// missing is law 3: what is not known never lowers. It speaks whenever something required is not known.
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

// fallback speaks once a required signal has failed FailureThreshold times in a row. KEDA's four behaviors, under law 3:
//
//	static                   max(Replicas, current)   KEDA: Replicas
//	currentReplicas          current                  the same
//	currentReplicasIfHigher  max(current, Replicas)   the same
//	currentReplicasIfLower   current                  KEDA: min(current, Replicas)
//
// Other signals may ask for more. From zero a static fallback wakes the workload, as in KEDA, once nothing else could. An empty
// answer while no replica is ready is no failure: else each cold start of one replica would call for the fallback's number.
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

// report copies what each signal asked for into the decision.
func (t *tick) report() {
	t.d.Status = t.status
	t.d.Proposals = [MaxSignals]int32{-1, -1, -1, -1, -1, -1, -1, -1}
	for i := range t.signals {
		if t.counts(i) {
			t.d.Proposals[i] = t.rounded[i]
		}
	}
}
