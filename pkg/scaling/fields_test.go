package scaling

import (
	"testing"
	"time"
)

// The test checks the fields Requested, Uncapped, Extra and Room of a decision, which other packages use.
func TestFieldsOfADecision(t *testing.T) {
	mean := func(p *Policy) { p.Signals = []Signal{busy(0.7)} }
	lost := func(o *Observation) { o.Readings[0] = Reading{Cause: CauseUnreachable} }
	for _, c := range []struct {
		row
		requested, uncapped, extra, room int32
	}{
		{row{name: "a queue", replicas: 6, values: []float64{87}}, 9, 9, 0, 11},
		{row{name: "nothing is needed", replicas: 6, values: []float64{0}}, 0, 0, 0, 20},
		{row{name: "no signal can be used", replicas: 6, values: []float64{0}, see: lost}, -1, 6, 0, 14},
		{row{name: "a rate limits the increase", replicas: 6, values: []float64{120}, policy: func(p *Policy) {
			p.ScaleUp.Rates = []RatePolicy{{Pods, 2, time.Minute}}
		}}, 12, 8, 0, 12},
		{row{name: "replacements and a surge", replicas: 6, values: []float64{60}, see: func(o *Observation) {
			o.Advice = Advice{Cap: -1, AtRisk: 2, Surge: 1}
		}}, 6, 9, 3, 11},
		{row{name: "a surge at maxReplicas", replicas: 20, values: []float64{200}, see: func(o *Observation) {
			o.Advice = Advice{Cap: -1, Surge: 3}
		}}, 20, 20, 0, 0},
		{row{name: "a surge above minReplicas", replicas: 3, values: []float64{0}, policy: func(p *Policy) { p.MinReplicas = 3 },
			see: func(o *Observation) { o.Advice = Advice{Cap: -1, Surge: 1} }}, 0, 4, 1, 16},
		{row{name: "a capacity cap does not change the demand", replicas: 6, values: []float64{120}, see: func(o *Observation) {
			o.Advice = Advice{Cap: 7}
		}}, 12, 12, 0, 8},
		{row{name: "the maximum of an override", replicas: 6, values: []float64{60}, see: func(o *Observation) {
			o.Operator = Operator{Min: -1, Max: 8, Until: nine.Add(time.Hour)}
		}}, 6, 6, 0, 2},
		{row{name: "paused", replicas: 6, values: []float64{90}, see: func(o *Observation) { o.Operator.Paused = true }}, 9, 6, 0, 0},
		{row{name: "the managed HPA's maximum", replicas: 6, values: []float64{60},
			see: func(o *Observation) { o.HPAMaxReplicas = 7 }}, 6, 6, 0, 1},
		{row{name: "a team limit cuts the surge first", replicas: 6, values: []float64{60}, see: func(o *Observation) {
			o.Advice, o.Limit = Advice{Cap: -1, Surge: 2}, TeamLimit{Limited: true, Max: 7}
		}}, 6, 7, 1, 0},
		{row{name: "a mean", replicas: 6, values: []float64{1.4}, policy: mean}, 12, 12, 0, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, o, s := c.build()
			d, _ := Decide(p, o, s, nine)
			if d.Requested != c.requested || d.Uncapped != c.uncapped || d.Extra != c.extra || d.Room != c.room {
				t.Errorf("requested %d, uncapped %d, extra %d, room %d, want %d, %d, %d, %d\n%s",
					d.Requested, d.Uncapped, d.Extra, d.Room, c.requested, c.uncapped, c.extra, c.room, table(p, &d))
			}
		})
	}
}

// One signal raises the target and another signal is missing. The decision must report the signal that raises the target as binding.
func TestBindingSignalWhileAnotherIsMissing(t *testing.T) {
	p, o, s := (&row{replicas: 6, values: []float64{87, 0}, policy: twoSignals, see: func(o *Observation) {
		o.Readings[1] = Reading{Cause: CauseUnreachable}
	}}).build()
	d, _ := Decide(p, o, s, nine)
	if d.Replicas != 9 || d.Binding != RuleCombine || d.BindingIndex != 0 {
		t.Errorf("%d by %v %d, want 9 by signal 0\n%s", d.Replicas, d.Binding, d.BindingIndex, table(p, &d))
	}
}

// With ActiveByAll, one signal is active. The second signal is not active, but it has values from only half of the pods. The pods without
// values may be serving requests, so the workload must stay active.
func TestSilentPodOfTheQuietSignalMayBeServing(t *testing.T) {
	p, o, s := (&row{replicas: 1, values: []float64{9, 0}, policy: func(p *Policy) {
		p.Signals, p.Activation, p.CooldownPeriod = []Signal{queue(10), queue(10)}, ActiveByAll, time.Minute
	}, see: func(o *Observation) { o.Readings[1].Coverage = 0.5 }}).build()
	if d, _ := Decide(p, o, s, nine); d.Replicas != 1 || !d.Active {
		t.Errorf("%d replicas, active %v, want 1 that is kept\n%s", d.Replicas, d.Active, table(p, &d))
	}
}
