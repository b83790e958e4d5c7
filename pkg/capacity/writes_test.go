package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// onNode returns a ready pod with one GPU on the given node of a NodePool.
func onNode(uid string, pool, node int) Pod {
	return Pod{UID: uid, Name: uid, Owner: OwnerReplicaSet, GPUs: 1, Pool: pool, Node: node, Ready: true, Since: midnight.Add(-time.Hour)}
}

func usable(name string, kind CapacityType) Node {
	return Node{Name: name, UID: name, Type: kind, Stage: Usable, Ready: true, GPUs: 1, Used: 1, Created: midnight.Add(-2 * time.Hour)}
}

// writer requests values for one field of the on-demand NodePool, as a rule does, and applies the resulting patches to the observation.
type writer struct {
	t *testing.T
	g *Group
	o Observation
	s State
}

func newWriter(t *testing.T) *writer {
	g, o := pairOf(t, nil)
	return &writer{t: t, g: g, o: o}
}

// want runs a tick at the given time after midnight that requests the value n for the field; a negative n requests no value. It returns the
// patch and its last change. ok is false if the tick changes no field.
func (w *writer) want(at time.Duration, f nodepool.Field, n int64) (c override.Change, patch NodePoolPatch, ok bool) {
	w.t.Helper()
	var d Decision
	var t tick
	t.begin(w.g, &w.o, &w.s, midnight.Add(at), &d)
	t.adoptRecords()
	t.settleOverrides()
	if n >= 0 {
		t.fields.RequestNumber(1, f, n, explain.RuleSpotWaitTimeout)
	}
	t.write()
	for _, a := range d.Actions {
		patch = a.(NodePoolPatch)
		v := &w.o.Pools[1]
		v.Record = patch.Record
		for _, c = range patch.Changes {
			shown := nodepool.FieldView{Value: c.To, Ours: !c.Restore}
			if c.Field == nodepool.FieldWeight {
				v.Weight = shown
			} else {
				v.Limits = []nodepool.LimitView{{Resource: c.Resource, FieldView: shown}}
			}
			ok = true
		}
	}
	return c, patch, ok
}

// An overridden limit may decrease only every two minutes. Otherwise gpuscaler would write the limit after each removed node.
func TestFieldIsTightenedEveryTwoMinutesAndLoosenedAtOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		field   nodepool.Field
		first   int64
		then    int64
		after   time.Duration
		written bool
		loosens bool
	}{
		{"a lower limit just before two minutes", nodepool.FieldLimit, 4, 2, 2*time.Minute - time.Millisecond, false, false},
		{"a lower limit after two minutes", nodepool.FieldLimit, 4, 2, 2 * time.Minute, true, false},
		{"a higher limit", nodepool.FieldLimit, 4, 6, time.Second, true, true},
		{"another weight just before two minutes", nodepool.FieldWeight, 81, 85, 2*time.Minute - time.Millisecond, false, false},
		{"another weight after two minutes", nodepool.FieldWeight, 81, 85, 2 * time.Minute, true, false},
	} {
		w := newWriter(t)
		if _, _, ok := w.want(0, c.field, c.first); !ok {
			t.Fatalf("%s: the first value is not written", c.name)
		}
		change, patch, ok := w.want(c.after, c.field, c.then)
		if got, _ := change.To.Number(); ok != c.written || ok && (got != c.then || patch.Loosens != c.loosens) {
			t.Errorf("%s: written %v to %d, loosens %v", c.name, ok, got, patch.Loosens)
		}
	}
	w := newWriter(t)
	w.want(0, nodepool.FieldLimit, 4)
	if c, _, ok := w.want(time.Second, nodepool.FieldLimit, -1); !ok || !c.Restore {
		t.Fatalf("a limit that no rule requests is not restored: %+v", c)
	}
	// the observation does not contain the restore yet
	w.o.Pools[1].Limits = []nodepool.LimitView{{Resource: w.g.Resource, FieldView: nodepool.FieldView{Value: `"4"`, Ours: true}}}
	if c, _, ok := w.want(2*time.Second, nodepool.FieldLimit, 2); !ok || c.To != `"2"` || c.Restore {
		t.Errorf("a limit that is requested again while gpuscaler restores it: written %v, %+v", ok, c)
	}
}

// Before the group was changed, it also limited cpu. gpuscaler must still restore this limit, even if the NodePool has limits for more
// resources than one group can override.
func TestLimitOfAnotherGroupVersionIsRestored(t *testing.T) {
	g, o := pairOf(t, nil)
	o.Pools[1].Limits = []nodepool.LimitView{{Resource: g.Resource, FieldView: nodepool.FieldView{Value: "16", Owner: "kubectl"}}}
	for _, name := range []string{"memory", "pods", "ephemeral-storage", "hugepages-2Mi", "nodes"} {
		o.Pools[1].Limits = append(o.Pools[1].Limits, nodepool.LimitView{Resource: name, FieldView: nodepool.FieldView{Value: "1",
			Owner: "kubectl"}})
	}
	o.Pools[1].Limits = append(o.Pools[1].Limits, nodepool.LimitView{Resource: "cpu", FieldView: nodepool.FieldView{Value: `"64"`,
		Ours: true}})
	o.Pools[1].Record = `{"v":1,"group":"chat","resource":"nvidia.com/gpu",` +
		`"fields":[{"path":"/spec/limits/cpu","on":true,"original":"\"400\"","owner":"kubectl","value":"\"64\""}]}`
	record := o.Pools[1].Record
	for name, c := range map[string]struct {
		record string
		want   nodepool.Value
	}{"with its record": {record, `"400"`}, "without a record": {"", ""}} {
		o.Pools[1].Record = c.record
		d, _ := Decide(g, o, State{}, midnight)
		if f := slices.IndexFunc(d.Findings, func(f explain.Finding) bool { return f.Kind == explain.FindRecord }); f >= 0 {
			t.Errorf("%s: the record is not read: %+v", name, d.Findings[f])
		}
		var restored []override.Change
		for _, a := range d.Actions {
			restored = append(restored, a.(NodePoolPatch).Changes...)
		}
		if len(restored) != 1 || restored[0].Resource != "cpu" || restored[0].To != c.want || !restored[0].Restore {
			t.Errorf("%s: changes %+v, want limits[cpu] restored to %q", name, restored, c.want)
		}
	}
}

// The list of budgets contains entries of an old freeze, because a user saved these entries with kubectl edit. The user now owns the
// list. The original value that a new freeze records must not contain the old entries.
func TestEarlierFreezeEntriesAreNotOriginal(t *testing.T) {
	g, o := pairOf(t, func(g *Group) { g.ConsolidationFreeze = true })
	day := statemachine.Stamp(midnight.Add(-72 * time.Hour))
	end := day + time.Hour.Milliseconds()
	old, ok := statemachine.Freeze{Start: day, Empty: end, InUse: end}.With(`[{"nodes":"2"}]`)
	if !ok {
		t.Fatal("the list of budgets with the freeze cannot be computed")
	}
	for i := range o.Pools {
		o.Pools[i].Budgets = nodepool.FieldView{Value: old, Owner: "kubectl-edit"}
	}
	o.Ahead = []Span{{From: midnight, Until: midnight.Add(time.Hour), GPUs: 4}}
	d, _ := Decide(g, o, State{}, midnight)
	if len(d.Actions) != 2 {
		t.Fatalf("actions %v", d.Actions)
	}
	for _, a := range d.Actions {
		c := a.(NodePoolPatch).Changes[0]
		if c.Field != nodepool.FieldBudgets || c.Original != `[{"nodes":"2"}]` || strings.Count(string(c.To), statemachine.ReasonEmpty) != 1 {
			t.Errorf("budgets %s, original %s; want one entry for each reason, and the owner's list as the original", c.To, c.Original)
		}
	}
}
