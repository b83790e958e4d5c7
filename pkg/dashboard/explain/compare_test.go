package explain

import (
	"testing"
	"time"
)

func texts(all []Compared) map[string]string {
	out := map[string]string{}
	for _, c := range all {
		out[c.Name] = c.First + "|" + c.Second + "|" + c.Difference()
	}
	return out
}

// A policy with an objective and a queue is compared with an earlier version that had a schedule instead of the queue.
func TestCompareNamesWhatChanged(t *testing.T) {
	value, more, two, nine := 3.5, 12.0, int32(2), int32(9)
	first := &Explanation{Target: 2, Ready: 2, Mode: "auto", Binding: "schedule office", Signals: []Signal{
		{Name: "queue", Unit: "count", Value: &value, Target: 4, Recommends: &two, Reported: -1},
		{Name: "gpu", Unit: "percent", Value: &value, Target: 0.7, Reported: -1}},
		Rules: []Rule{{Name: "schedule office", From: 1, To: 2, Text: "open", Binding: true}, {Name: "bounds", From: 2, To: 2, Text: "1 to 9"}}}
	second := &Explanation{Target: 9, Ready: 2, Mode: "auto", Binding: "combine queue", Degraded: true,
		Signals: []Signal{
			{Name: "queue", Unit: "count", Value: &more, Target: 4, Recommends: &nine, Reported: 1, Ready: 2, Note: "1 of 2 pods"}},
		Rules: []Rule{{Name: "combine queue", From: 1, To: 9, Text: "12 of 4", Binding: true},
			{Name: "bounds", From: 9, To: 9, Text: "1 to 9"}},
		Objective: &Objective{SLO: "99% within 10s (wait)", Terms: []Term{{Name: "load", Replicas: 7}}},
		CappedBy:  &CappedBy{Group: "l40s", Cap: 9}}
	c := Compare(first, second, time.UTC)
	state, signals, rules := texts(c.State), texts(c.Signals), texts(c.Rules)
	for name, want := range map[string]string{
		"Target": "2|9|+7", "Ready": "2|2|the same", "Binding rule": "schedule office|combine queue|differs",
		"Inputs":    "complete|missing|differs",
		"Objective": "|99% within 10s (wait)|only in the second", "Replicas for load": "|7|only in the second",
		"Capped by": "|capacity group l40s: at most 9|only in the second",
	} {
		if state[name] != want {
			t.Errorf("%s: %q, want %q", name, state[name], want)
		}
	}
	for name, want := range map[string]string{
		"queue, value": "3.5|12|+8.5", "queue, recommends": "2|9|+7", "queue, target": "4|4|the same", "queue, pods": "|1/2|only in the second",
		"queue, note": "|1 of 2 pods|only in the second", "gpu, value": "350%||only in the first",
	} {
		if signals[name] != want {
			t.Errorf("%s: %q, want %q", name, signals[name], want)
		}
	}
	for name, want := range map[string]string{
		"schedule office": "1 → 2: open (binding)||only in the first", "combine queue": "|1 → 9: 12 of 4 (binding)|only in the second",
		"bounds": "2: 1 to 9|9: 1 to 9|differs",
	} {
		if rules[name] != want {
			t.Errorf("%s: %q, want %q", name, rules[name], want)
		}
	}
	if back := texts(Compare(second, first, time.UTC).State)["Target"]; back != "9|2|−7" {
		t.Errorf("the other way: %q", back)
	}
	same := false
	for _, x := range append(c.State, c.State[0]) {
		if same && x.Differs() && x.Name != c.State[0].Name {
			t.Errorf("%s differs and is after a property that is the same", x.Name)
		}
		same = same || !x.Differs()
	}
	for _, part := range [][]Compared{Compare(first, first, time.UTC).State, Compare(first, first, time.UTC).Rules} {
		for _, x := range part {
			if x.Differs() {
				t.Errorf("a decision differs from itself in %s", x.Name)
			}
		}
	}
}
