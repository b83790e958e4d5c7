package scaling

import (
	"strings"
	"testing"
	"time"
)

// The workload runs maxReplicas, and the node of one replica is about to be interrupted. The replacement cannot start before the
// interruption, because it would exceed maxReplicas. The explanation must contain this. If maxReplicas permits one of two replacements, the
// explanation must mention only the replacement that it prevents. After the interruption, the explanation must no longer mention it.
func TestReplacementThatMaxReplicasPreventsIsExplained(t *testing.T) {
	p := &Policy{Signals: []Signal{{Name: "queue", Target: 10, MaxAge: time.Minute}}, MinReplicas: 1, MaxReplicas: 12}
	s := Seed(p, 12, nine.Add(-time.Minute))
	now := nine
	why := func(replicas int32, load float64, advice Advice, change func(*Observation)) string {
		t.Helper()
		now = now.Add(time.Second)
		o := Observation{Replicas: replicas, Ready: replicas, Advice: advice, Operator: NoOperator,
			Readings: []Reading{{Known: true, Value: load, At: now, Coverage: 1, Reported: -1}}}
		if change != nil {
			change(&o)
		}
		d := s.Decide(p, &o, now)
		if d.Replicas > 12 {
			t.Errorf("%d replicas exceed maxReplicas", d.Replicas)
		}
		return Explain.Cause(&d, p)
	}
	for _, c := range []struct {
		name     string
		replicas int32
		load     float64
		advice   Advice
		change   func(*Observation)
		want     string // expected end of the explanation
	}{
		{"at maxReplicas", 12, 120, Advice{Cap: -1, AtRisk: 1}, nil,
			"a replacement for 1 ready replica on a node that is about to be interrupted cannot start early: maxReplicas 12 is reached"},
		{"the maximum of the HPA", 10, 100, Advice{Cap: -1, AtRisk: 1}, func(o *Observation) { o.HPAMaxReplicas = 10 },
			"a replacement for 1 ready replica on a node that is about to be interrupted cannot start early: maxReplicas 10 of the HPA is reached"},
		{"more is needed than permitted", 12, 150, Advice{Cap: -1, AtRisk: 2}, nil,
			"replacements for 2 ready replicas on nodes that are about to be interrupted cannot start early: maxReplicas 12 is reached"},
		{"room for one of two", 11, 110, Advice{Cap: -1, AtRisk: 2}, nil,
			"a replacement for 1 ready replica on a node that is about to be interrupted cannot start early: maxReplicas 12 is reached"},
		{"only the reserve is more than permitted", 10, 100, Advice{Cap: -1, AtRisk: 3, Reserve: 2}, nil,
			"1 replica for expected losses of nodes cannot start early: maxReplicas 12 is reached"},
		{"a move besides", 11, 110, Advice{Cap: -1, AtRisk: 1, Surge: 1}, nil, "capped at maxReplicas 12"},
		{"the capacity cap", 11, 110, Advice{Cap: 11, AtRisk: 1}, nil,
			"capped at 11: no node can be launched beyond 11 replicas; " +
				"a replacement for 1 ready replica on a node that is about to be interrupted cannot start early"},
		{"room for all", 8, 80, Advice{Cap: -1, AtRisk: 2}, nil, "2 ready replicas on nodes that are about to be interrupted"},
		{"no interruption", 12, 150, NoAdvice, nil, "capped at maxReplicas 12"},
	} {
		s = Seed(p, c.replicas, now)
		if got := why(c.replicas, c.load, c.advice, c.change); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %q, want the end %q", c.name, got, c.want)
		}
	}
}
