package scaling

import (
	"testing"
	"time"
)

// A poll at 09:00 reads both ready pods. Their mean is twice the target, so 4 replicas are needed. When two more pods become ready 5 s
// later, the same reading must not be multiplied by 4 ready replicas.
func TestMeanIsMultipliedByTheReplicasThatItMeasured(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	p := &Policy{Signals: []Signal{{Name: "running", Kind: Mean, Target: 1, MaxAge: time.Minute, MinCoverage: 0.9}}, MinReplicas: 1,
		MaxReplicas: 40}
	r := Reading{Value: 2, At: now, Coverage: 1, Reported: 2, Measured: 2, Known: true}
	_, s := Decide(p, Observation{Replicas: 2, Ready: 2, Readings: []Reading{r}, Advice: NoAdvice, Operator: NoOperator}, State{}, now)
	_, s = Decide(p, Observation{Replicas: 4, Ready: 2, Loading: 2, Readings: []Reading{r}, Advice: NoAdvice,
		Operator: NoOperator}, s, now.Add(2*time.Second))
	d, _ := Decide(p, Observation{Replicas: 4, Ready: 4, Readings: []Reading{r}, Advice: NoAdvice,
		Operator: NoOperator}, s, now.Add(5*time.Second))
	if d.Replicas != 4 {
		t.Errorf("four ready, reading of 2 pods: %d, want 4", d.Replicas)
	}
}

// A poll reads 6 ready pods, and their mean is 0.9 times the target. Then a node fails, so that 5 pods are pending and 1 is ready. Until
// the next poll, the reading must still be multiplied by 6 replicas.
func TestMeanCountsReplicasOfAFailedNode(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	p := &Policy{Signals: []Signal{{Name: "running", Kind: Mean, Target: 1, MaxAge: time.Minute, MinCoverage: 0.9}}, MinReplicas: 1,
		MaxReplicas: 40}
	r := Reading{Value: 0.9, At: now, Coverage: 1, Reported: 6, Measured: 6, Known: true}
	_, s := Decide(p, Observation{Replicas: 6, Ready: 6, Readings: []Reading{r}, Advice: NoAdvice, Operator: NoOperator}, State{}, now)
	d, _ := Decide(p, Observation{Replicas: 6, Ready: 1, Pending: 5, Readings: []Reading{r}, Advice: NoAdvice,
		Operator: NoOperator}, s, now.Add(time.Second))
	if d.Replicas < 6 {
		t.Errorf("5 of 6 pods pend, load did not change: %d, want 6", d.Replicas)
	}
}

// A reading of 0.5 times the target over 6 replicas lowers the target from 6 to 3. Before the next poll, the same reading must not lower it
// further to 2 and 1.
func TestSameReadingLowersOnce(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	p := &Policy{Signals: []Signal{{Name: "running", Kind: Mean, Target: 1, MaxAge: time.Minute, MinCoverage: 0.9}}, MinReplicas: 1,
		MaxReplicas: 40}
	r := Reading{Value: 0.5, At: now, Coverage: 1, Reported: 6, Measured: 6, Known: true}
	o := Observation{Replicas: 6, Ready: 6, Readings: []Reading{r}, Advice: NoAdvice, Operator: NoOperator}
	d, s := Decide(p, o, State{}, now)
	for i := 1; i < 14; i++ { // in each second, the HPA and the pods follow the target, and there is no poll for 15 s
		o.Replicas, o.Ready = d.Replicas, d.Replicas
		d, s = Decide(p, o, s, now.Add(time.Duration(i)*time.Second))
	}
	if d.Replicas != 3 {
		t.Errorf("3 replicas carry 6 x 0.5, and nothing new was measured: %d, want 3", d.Replicas)
	}
}

// After a restart, an optional signal was not polled so far. The second signal needs 1 of 9 replicas, and there is no stabilization window.
// The target must not decrease before the optional signal is polled, because this signal may need 9 replicas.
func TestOptionalSignalThatWasNeverPolledDoesNotLower(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	p := &Policy{Signals: []Signal{{Name: "q", Target: 1, MaxAge: time.Minute}, {Name: "opt", Target: 1, MaxAge: time.Minute,
		Optional: true}}, MinReplicas: 1, MaxReplicas: 40}
	rs := []Reading{{Value: 1, At: now, Coverage: 1, Reported: -1, Known: true}, {Reported: -1, Cause: CauseNever}}
	d, _ := Decide(p, Observation{Replicas: 9, Ready: 9, Readings: rs, Advice: NoAdvice, Operator: NoOperator}, State{}, now)
	if d.Replicas != 9 {
		t.Errorf("never polled, optional: %d, want 9", d.Replicas)
	}
}
