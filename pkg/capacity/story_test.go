package capacity

import (
	"testing"
	"time"
)

func (c *cluster) nodes(pool int) int { return len(c.pools[pool].nodes) }

func (c *cluster) allReady(l *simLoad) func() bool {
	return func() bool { return l.ready() == l.want && len(l.pods) == int(l.want) }
}

func TestSpotIsDeniedOnDemandTakesOverAndReplicasReturnOneByOne(t *testing.T) {
	c := newCluster(t, nil)
	before := [2]string{c.spec(0), c.spec(1)}
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.until(10*time.Minute, "three replicas are ready on spot", c.allReady(chat))
	c.pools[0].denied = true
	chat.want = 6
	c.until(3*time.Minute, "the group falls back", func() bool { return c.d.Phase == Fallback })
	c.until(10*time.Minute, "six replicas are ready", c.allReady(chat))
	if c.nodes(0) != 3 || c.nodes(1) != 3 {
		t.Errorf("%d on spot, %d on demand\n%s", c.nodes(0), c.nodes(1), c.why())
	}
	chat.minimum = chat.ready()
	c.until(30*time.Minute, "a probe is refused", func() bool { return c.d.Phase == Probing })
	c.until(5*time.Minute, "the group falls back again", func() bool { return c.d.Phase == Fallback })
	c.pools[0].denied = false
	c.until(50*time.Minute, "spot is probed again", func() bool { return c.d.Phase == Probing })
	c.until(20*time.Minute, "the probe holds", func() bool { return c.d.Phase == Returning })
	c.until(2*time.Hour, "all replicas are back on spot", func() bool { return c.nodes(1) == 0 && c.d.Phase == PreferSpot })
	if chat.minimum < 6 {
		t.Errorf("%d ready of 6 at the least", chat.minimum)
	}
	c.run(5 * time.Minute)
	for i, want := range before {
		if got := c.spec(i); got != want || c.pools[i].record != "" {
			t.Errorf("%s is not as it was:\n%s\nrecord %s\nwant\n%s", c.pools[i].Name, got, c.pools[i].record, want)
		}
	}
	for _, line := range c.log {
		t.Log(line)
	}
}
