package capacity

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

func TestShutdownRestoresEveryLimit(t *testing.T) {
	c := newCluster(t, func(g *Group) {
		g.Fallback = Hard
		g.Schedules = []Schedule{{Window: windowOf(midnight, 10*time.Hour), Pools: []int{1}, Limits: []Limit{{"cpu", 64}}, Weight: 30}}
	})
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three are ready", c.whole(chat))
	for range 2 {
		c.lose(c.pools[0].nodes[0])
	}
	c.run(3 * time.Second)
	if c.limit(0) != 1 || c.pools[1].fields["limits[cpu]"].Value != `"64"` {
		t.Fatalf("limits %d and %s", c.limit(0), c.pools[1].fields["limits[cpu]"].Value)
	}
	for range 3 {
		o := c.observe()
		c.now = c.now.Add(time.Second)
		c.s.Shutdown(c.g, &o, c.now, &c.d)
		c.apply()
	}
	if c.limit(0) != 16 || c.pools[1].fields["limits[cpu]"].Value != `"400"` || c.pools[1].fields["weight"].Value != "81" {
		t.Errorf("after a shutdown:\n%s\n%s", c.spec(0), c.spec(1))
	}
	c.s = State{} // the next leader continues
	c.run(3 * time.Second)
	if c.d.Phase != statemachine.Fallback || c.limit(0) != 1 {
		t.Errorf("%v, limit %d", c.d.Phase, c.limit(0))
	}
}
