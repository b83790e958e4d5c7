package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
)

// changeLog runs the simulated cluster and collects the texts of actions, reasons and phase changes.
type changeLog struct {
	strings.Builder
	c    *cluster
	last string
}

func (d *changeLog) run(length time.Duration) {
	for range int(length / time.Second) {
		d.c.step()
		d.note()
	}
}

// note adds the actions and the phase of the last tick as text. If the tick had an action or changed the phase, note also adds the
// reasons. If the tick changed nothing, note adds nothing.
func (d *changeLog) note() {
	c := d.c
	var b strings.Builder
	for _, a := range c.d.Actions {
		for _, line := range strings.Split(strings.TrimSpace(a.Text()), "\n") {
			if !strings.Contains(line, ": no field changes") {
				b.WriteString("  " + line + "\n")
			}
		}
	}
	if phase := c.d.Phase.String(); phase != d.last {
		d.last = phase
		b.WriteString("  phase: " + phase + "\n")
	}
	if b.Len() == 0 {
		return
	}
	d.WriteString(c.clock() + "\n" + b.String())
	for _, r := range c.d.Reasons {
		d.WriteString("    " + r.Rule.String() + ": " + r.Text(c.g.Names()) + "\n")
	}
}

// The test simulates a day. At night there is no GPU node. Capacity is ready before the time window of the schedule opens. A burst uses
// spot nodes, and on-demand nodes while spot has no capacity. The replicas return to spot at the configured pace, and no ready replica is
// missing during the return. In the evening consolidation is allowed again, and no GPU node is left.
func TestDayFromZeroNodesToZeroNodes(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit, g.LeadTime, g.StartupShield = true, 10*time.Minute, true })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	eight := office(c, chat)
	c.ahead[0].GPUs, c.ahead[0].Replicas = 2, 2
	d := &changeLog{c: c}

	d.run(6 * time.Minute) // night: no demand, the limit becomes 0
	c.now = eight.Add(-15 * time.Minute)
	d.run(5 * time.Minute)
	if c.limit(0) != 16 {
		t.Errorf("%s: the limit is 0 ten minutes before the window\n%s", c.clock(), c.why())
	}
	chat.want = 2 // the minimum of the window already applies, because the lead time begins before the window
	d.run(10 * time.Minute)
	if chat.ready() != 2 || c.nodes(0) != 2 {
		t.Errorf("%s: the window opens with %d ready\n%s", c.clock(), chat.ready(), c.why())
	}
	d.run(90 * time.Minute)
	chat.want = 6 // a burst of traffic
	d.run(10 * time.Minute)
	if chat.ready() != 6 || c.nodes(0) != 6 || c.nodes(1) != 0 {
		t.Errorf("%s: %d ready, %d on spot\n%s", c.clock(), chat.ready(), c.nodes(0), c.why())
	}
	c.pools[0].denied = true // spot has no more capacity, and the burst grows
	chat.want = 9
	d.run(12 * time.Minute)
	if chat.ready() != 9 || c.nodes(1) != 3 || c.d.Phase != statemachine.Fallback {
		t.Errorf("%s: %d ready, %d on demand, %v\n%s", c.clock(), chat.ready(), c.nodes(1), c.d.Phase, c.why())
	}
	c.pools[0].denied = false
	chat.minimum = 9
	d.run(80 * time.Minute)
	if c.nodes(1) != 0 || c.d.Phase != statemachine.PreferSpot || chat.minimum < 9 {
		t.Errorf("%s: %d on demand, %v, at least %d ready\n%s", c.clock(), c.nodes(1), c.d.Phase, chat.minimum, c.why())
	}
	c.now = eight.Add(12*time.Hour + time.Minute)
	chat.want, c.ahead = 0, nil
	d.run(4 * time.Minute)
	if c.nodes(0)+c.nodes(1) != 0 {
		t.Errorf("%s: %d nodes in the evening\n%s", c.clock(), c.nodes(0)+c.nodes(1), c.why())
	}
	d.run(10 * time.Minute)
	if c.limit(0) != 0 {
		t.Errorf("%s: no zero limit at night", c.clock())
	}
	c.releasing = true
	d.run(10 * time.Second)
	c.untouched(before)
	golden.Compare(t, "testdata/day.golden", d.String())
}
