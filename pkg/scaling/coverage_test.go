package scaling

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The value of a Total is the sum of the queues of all pods, but some pods do not report. The test compares two decisions: one for the sum
// of the pods that reported, and one for the sum of all pods. The decision for the pods that reported must not have the lower target.
func TestTotalOfSomePodsDoesNotScaleBelowTheTotalOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const target = 10.0
		sig := Signal{Name: "queue", Kind: Total, Class: Demand, Target: target, MaxAge: time.Minute,
			MinCoverage: rapid.SampledFrom([]float64{0, 0.5, 0.8}).Draw(t, "minCoverage")}
		p := &Policy{Signals: []Signal{sig}, MinReplicas: 0, MaxReplicas: 100}
		pods := rapid.IntRange(1, 12).Draw(t, "pods")
		whole, seen, answered := 0.0, 0.0, 0
		for range pods {
			// If a pod does not report, its queue is at most the target in this test, because Decide assumes a queue at the target for such a pod.
			silent := rapid.IntRange(0, 3).Draw(t, "silent") == 0
			most := 40.0
			if silent {
				most = target
			}
			q := rapid.Float64Range(0, most).Draw(t, "waiting")
			if whole += q; !silent {
				seen, answered = seen+q, answered+1
			}
		}
		if answered == 0 {
			return // the value is unknown if no pod reports; other tests cover this case
		}
		n := int32(pods)
		decide := func(value, coverage float64, reported int) Decision {
			o := Observation{Replicas: n, Ready: n, Advice: NoAdvice, Operator: NoOperator,
				Readings: []Reading{{Value: value, At: nine, Coverage: coverage, Reported: int32(reported), Measured: n, Known: true}}}
			d, _ := Decide(p, o, Seed(p, n, nine), nine)
			return d
		}
		coverage := float64(answered) / float64(pods)
		all, some := decide(whole, 1, pods), decide(seen, coverage, answered)
		if some.Replicas < min(all.Replicas, n) {
			t.Fatalf("%d of %d pods lower %d to %d, all of them to %d\n%s", answered, pods, n, some.Replicas, all.Replicas, table(p, &some))
		}
		if some.Replicas > max(all.Replicas, n) {
			t.Fatalf("%d of %d pods raise %d to %d, all of them to %d: silent ones raise nothing", answered, pods, n, some.Replicas, all.Replicas)
		}
		if coverage < sig.MinCoverage && some.Replicas < n {
			t.Fatalf("%d of %d pods are too few, and lower %d to %d", answered, pods, n, some.Replicas)
		}
	})
}

// One of six pods cannot be scraped, and the queues of the other pods are empty for an hour. The pod that cannot be scraped may be serving
// requests, so one replica is kept. The cooldown starts when all pods report.
func TestPodThatDoesNotReportPreventsScaleToZero(t *testing.T) {
	p := &Policy{Signals: []Signal{{Name: "queue", Kind: Total, Class: Demand, Target: 10, MaxAge: time.Minute, MinCoverage: 0.8}},
		MaxReplicas: 20, CooldownPeriod: 10 * time.Minute}
	now, s := nine, Seed(p, 6, nine)
	see := func(pods int32, coverage float64) Decision {
		var d Decision
		now = now.Add(time.Second)
		o := Observation{Replicas: pods, Ready: pods, Advice: NoAdvice, Operator: NoOperator,
			Readings: []Reading{{At: now, Coverage: coverage, Reported: pods - 1, Measured: pods, Known: true}}}
		d, s = Decide(p, o, s, now)
		return d
	}
	for range 3600 {
		if d := see(6, 5.0/6); d.Replicas != 1 || !d.Active {
			t.Fatalf("%s: %d, active %v, want one that is kept\n%s", now.Format("15:04:05"), d.Replicas, d.Active, table(p, &d))
		}
	}
	for range 599 {
		if d := see(1, 1); d.Replicas != 1 {
			t.Fatalf("%s: %d before the cooldown, which begins when all report\n%s", now.Format("15:04:05"), d.Replicas, table(p, &d))
		}
	}
	see(1, 1)
	if d := see(1, 1); d.Replicas != 0 {
		t.Errorf("%d, and all have reported nothing for a cooldown", d.Replicas)
	}
	if d := see(1, 5.0/6); d.Replicas != 0 {
		t.Errorf("%d: a pod that is about to end does not scale up from zero", d.Replicas)
	}
}
