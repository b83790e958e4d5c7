package scaling

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Queues of single pods add up to a Total; some pods do not answer. What a part of them says is judged beside what all would say.
func TestATotalOverSomePodsNeverLowersBelowWhatAllWouldAskUnlessASilentOneIsOverloaded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const target = 10.0
		sig := Signal{Name: "queue", Kind: Total, Class: Demand, Target: target, MaxAge: time.Minute, MinCoverage: rapid.SampledFrom([]float64{0, 0.5, 0.8}).Draw(t, "minCoverage")}
		p := &Policy{Signals: []Signal{sig}, MinReplicas: 0, MaxReplicas: 100}
		pods := rapid.IntRange(1, 12).Draw(t, "pods")
		whole, seen, answered := 0.0, 0.0, 0
		for range pods {
			// One that is silent is at most on its target: of more, nobody can know.
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
			return // an empty answer is not known, see the tests of what is missing
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
