package override

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// midnight is the time of the ticks in these tests, in Unix milliseconds.
const midnight = 1795392000000

// settled is the effect that an observation is expected to have on an override.
type settled uint8

const (
	stays          settled = iota // nothing changes
	confirmed                     // the value was observed
	kept                          // gpuscaler may not write the field: its value stays, and a restore that has begun is stopped
	keptAsObserved                // as kept, but the last write was not applied, so the override gets the observed value
	freed                         // the override ends, and the count of earlier edits stays
	yields                        // the edit of another manager stays and is counted
	forgotten                     // the override ends; the record is read again
)

// TestEveryStateOfAnOverrideAndEveryObservation has one row for each state of an override. A row contains the expected effect of each
// observed value in three cases: gpuscaler owns the field, another manager owns the field, or consent is withdrawn. In the second case,
// the effect for the value To also depends on whether gpuscaler owns the record annotation (column again).
func TestEveryStateOfAnOverrideAndEveryObservation(t *testing.T) {
	values := []nodepool.Value{"81", "30", "20", "44"} // To, Before, Original, and another value
	written := Override{On: true, To: "81", Before: "30", Original: "20", Owner: "kubectl", Rule: explain.RuleFallback, At: 5, Since: 5,
		Overwrites: 1, Yielded: 3}
	seen, releasing := written, written
	seen.Seen, releasing.Releasing = true, true
	for name, c := range map[string]struct {
		state Override
		// the expected effect for each element of values: if gpuscaler owns the field, and if another manager does
		ours, theirs   [4]settled
		again          settled    // another manager owns the field with the value To, and gpuscaler owns the record
		withoutConsent [4]settled // gpuscaler owns the field, but gpuscaler.io/nudge no longer lists it
	}{
		"written": {written, [4]settled{confirmed, stays, forgotten, forgotten}, [4]settled{yields, stays, yields, yields}, yields,
			[4]settled{kept, keptAsObserved, forgotten, keptAsObserved}},
		"confirmed": {seen, [4]settled{confirmed, forgotten, forgotten, forgotten}, [4]settled{confirmed, yields, yields, yields}, yields,
			[4]settled{kept, keptAsObserved, forgotten, keptAsObserved}},
		"releasing": {releasing, [4]settled{confirmed, stays, stays, forgotten}, [4]settled{freed, stays, freed, freed}, freed,
			[4]settled{kept, keptAsObserved, forgotten, keptAsObserved}},
	} {
		for i, value := range values {
			checkSettled(t, name, c.state, weightView(nodepool.FieldView{Value: value, Ours: true}, nodepool.ConsentWeight), c.ours[i])
			checkSettled(t, name, c.state, weightView(nodepool.FieldView{Value: value, Owner: "kubectl"}, nodepool.ConsentWeight), c.theirs[i])
			checkSettled(t, name, c.state, weightView(nodepool.FieldView{Value: value, Ours: true}, nodepool.ConsentLimits), c.withoutConsent[i])
			edited := forgotten
			if c.state.Seen && i == 0 {
				edited = kept
			}
			checkSettled(t, name, c.state, weightView(nodepool.FieldView{Value: value, Owner: "kubectl"}, 0), edited)
			again, effect := weightView(nodepool.FieldView{Value: value, Owner: "kubectl"}, nodepool.ConsentWeight), c.theirs[i]
			if again.RecordOurs = true; i == 0 {
				effect = c.again
			}
			checkSettled(t, name+", record ours", c.state, again, effect)
			again.Consent = 0
			checkSettled(t, name+", record ours", c.state, again, forgotten)
		}
	}
}

// newFields returns Fields for NodePools with the given views and a new state.
func newFields(views ...*nodepool.View) *Fields {
	fs := &Fields{Group: Group{Name: "chat", Resource: "nvidia.com/gpu"}, At: midnight, State: &State{Limits: Limits{"nvidia.com/gpu"}},
		Report: &explain.Report{}}
	copy(fs.Views[:], views)
	return fs
}

// weightView returns the view of a NodePool with a value of weight and the fields that gpuscaler may change.
func weightView(weight nodepool.FieldView, consent nodepool.Consent) nodepool.View {
	return nodepool.View{Consent: consent, Weight: weight}
}

func checkSettled(t *testing.T, name string, was Override, view nodepool.View, want settled) {
	t.Helper()
	fs := newFields(&view)
	got := &fs.State.Pools[0].Overrides[nodepool.FieldWeight]
	*got = was
	fs.settle(0, nodepool.FieldWeight)
	after := map[settled]Override{stays: was, confirmed: was, kept: was, freed: {Overwrites: 1, Yielded: 3},
		yields: {Overwrites: 2, Yielded: fs.At, Retry: fs.At + shortYield.Milliseconds()}}[want]
	switch want {
	case confirmed, kept:
		after.Seen, after.Releasing = true, was.Releasing && want == confirmed
	case keptAsObserved:
		after = was
		after.To, after.Seen, after.Releasing = view.Weight.Value, true, false
	}
	if *got != after {
		t.Errorf("%s shows %s, ours %v, consent %q: %+v, want %+v", name, view.Weight.Value, view.Weight.Ours, view.Consent, *got, after)
	}
}
