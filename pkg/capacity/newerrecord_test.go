package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// rollBack replaces each record annotation by a record of a newer version and starts an older controller, whose only state is these
// records.
func (c *cluster) rollBack(newer func(record string) string) {
	for _, p := range c.pools {
		p.record = newer(p.record)
	}
	c.s = State{}
}

// After a rollback, an older controller finds zero limits whose records have a newer format. It restores the owner's limits, removes the
// records, and then decides as without a record: it sets the zero limits again after ZeroLimitDelay.
func TestOlderControllerRestoresFromANewerRecord(t *testing.T) {
	for name, newer := range map[string]func(string) string{
		"a newer version":             func(r string) string { return strings.Replace(r, `"v":1`, `"v":2`, 1) },
		"a newer version with a key":  func(r string) string { return strings.Replace(r, `"v":1`, `"v":2,"horizon":{"a":[7]}`, 1) },
		"a key of a field":            func(r string) string { return strings.Replace(r, `"path"`, `"until":7,"path"`, 1) },
		"a phase that does not exist": func(r string) string { return strings.Replace(r, `"v":1`, `"v":1,"spot":{"phase":9}`, 1) },
		"a wait for an unknown field": func(r string) string { return strings.Replace(r, `[`, `[{"path":"/spec/x","holds":true},`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			c, _, before := zeroLimitCluster(t)
			c.rollBack(newer)
			c.run(30 * time.Second)
			c.untouched(before)
			if c.finding(explain.FindNewerRecord) != nil || c.finding(explain.FindRecord) != nil {
				t.Errorf("findings after the restore: %+v", c.d.Findings)
			}
			c.run(statemachine.ZeroLimitDelay)
			if c.limit(0) != 0 || !strings.Contains(c.pools[0].record, `"v":1`) {
				t.Errorf("no zero limit after the restore: limit %d, record %s", c.limit(0), c.pools[0].record)
			}
		})
	}
}

// The owner edits the limit of a NodePool during a zero limit, and a rollback follows. The older controller replaces the newer record by
// its own record, which contains the ten minutes without overrides after the edit. Neither this controller nor the next leader may set
// the zero limit before the ten minutes have passed. The other NodePool, which was not edited, gets its zero limit again.
func TestRollbackKeepsTheWaitAfterAnEdit(t *testing.T) {
	for name, newer := range map[string]func(string) string{
		"a newer version":  func(r string) string { return strings.Replace(r, `"v":1`, `"v":2,"horizon":{"a":[7]}`, 1) },
		"an unknown field": func(r string) string { return strings.Replace(r, `[`, `[{"path":"/spec/x","retry":"soon"},`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := zeroLimitCluster(t)
			edited := c.now
			c.edit(0, "limits[nvidia.com/gpu]", "7")
			c.run(2 * time.Second)
			c.rollBack(newer)
			c.run(30 * time.Second)
			if !strings.Contains(c.pools[0].record, `"v":1`) || !strings.Contains(c.pools[0].record, `"retry"`) || c.limit(0) != 7 {
				t.Fatalf("limit %d, record %s; want 7 and a record of this version with the wait", c.limit(0), c.pools[0].record)
			}
			c.s = State{} // the next leader begins with an empty state
			for c.now.Sub(edited) < 10*time.Minute {
				if c.step(); c.limit(0) != 7 {
					t.Fatalf("limit %d, %v after its owner set it to 7", c.limit(0), c.now.Sub(edited))
				}
			}
			c.run(time.Minute)
			if c.limit(0) != 0 || c.limit(1) != 0 {
				t.Errorf("limits %d and %d after the wait, want zero limits\n%s", c.limit(0), c.limit(1), c.why())
			}
		})
	}
}

// A newer record contains an override of a field that the older controller does not know. The older controller must restore the other
// fields, keep the record unchanged, and override nothing, even after a change of the PlatformConfig.
func TestOlderControllerKeepsWhatItDoesNotUnderstand(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	c.rollBack(func(r string) string {
		return strings.Replace(r, `"fields":[`, `"fields":[{"path":"/spec/template/spec/expireAfter","on":true,"original":"\"720h\""},`, 1)
	})
	record := c.pools[0].record
	check := func(when string) {
		t.Helper()
		for i, p := range c.pools {
			if c.spec(i) != before[i] || p.record != record {
				t.Errorf("%s: %s:\n%s\nrecord %s\nwant\n%s\nrecord %s", when, p.Name, c.spec(i), p.record, before[i], record)
			}
		}
		if f := c.finding(explain.FindNewerRecord); f == nil ||
			!strings.Contains(f.Text(c.g.Names()), "cannot restore template/spec/expireAfter") {
			t.Errorf("%s: findings %+v", when, c.d.Findings)
		}
	}
	c.run(30 * time.Second)
	check("after the restore")
	writes := c.writes
	c.run(time.Hour)
	check("an hour later")
	next := *c.g
	next.Schedules = []Schedule{{Window: windowOf(midnight.Add(-time.Hour), 10*time.Hour), Pools: []int{0}, Limits: []Limit{{"cpu", 64}}}}
	g, err := NewGroup(next)
	if err != nil {
		t.Fatal(err)
	}
	c.g = g
	c.run(time.Minute)
	check("after a change of the group")
	if c.writes != writes {
		t.Errorf("%d writes after the restore", c.writes-writes)
	}
}

// A future version stores its overrides in the record under another key. An older controller must change nothing, even if the group is
// removed.
func TestOlderControllerChangesNothingWithoutAListOfFields(t *testing.T) {
	c, _, _ := zeroLimitCluster(t)
	zeroed := c.specs()
	c.rollBack(func(r string) string { return strings.Replace(r, `"v":1`, `"v":9`, 1) })
	c.rollBack(func(r string) string { return strings.Replace(r, `"fields"`, `"overrides"`, 1) })
	record := c.pools[0].record
	c.run(10 * time.Minute)
	c.releasing = true
	c.run(time.Minute)
	for i, p := range c.pools {
		if c.spec(i) != zeroed[i] || p.record != record {
			t.Errorf("%s changed to\n%s\nrecord %s", p.Name, c.spec(i), p.record)
		}
	}
	if c.finding(explain.FindNewerRecord) == nil {
		t.Errorf("findings %+v", c.d.Findings)
	}
}

// No group contains a NodePool whose record has a newer format. Its owner's values are restored from this record.
func TestNodePoolWithoutGroupIsRestoredFromANewerRecord(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	c.rollBack(func(r string) string { return strings.Replace(r, `"v":1`, `"v":2,"horizon":7`, 1) })
	g, ok := Orphan(c.g.Pools[1].Name, c.pools[1].record)
	if !ok || g.Resource != "nvidia.com/gpu" {
		t.Fatalf("%+v, %v", g, ok)
	}
	c.g, c.pools, c.loads, c.releasing = g, c.pools[1:], nil, true
	c.run(30 * time.Second)
	c.untouched(before[1:])
}

// The older controller starts with a cache that contains the record from before the rollback. The newer record, with another original
// value, appears in the cache later.
func TestNewerRecordAppearsAfterTheStart(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	c.s = State{}
	c.run(2 * time.Second)
	for _, p := range c.pools {
		p.record = strings.NewReplacer(`"v":1`, `"v":2`, `"original":"16"`, `"original":"12"`).Replace(p.record)
	}
	c.run(30 * time.Second)
	for i := range before {
		before[i] = strings.Replace(before[i], "limits[nvidia.com/gpu]=16", "limits[nvidia.com/gpu]=12", 1)
	}
	c.untouched(before)
}
