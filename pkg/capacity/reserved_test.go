package capacity

import (
	"testing"
	"time"
)

// An on-demand NodePool that also allows reserved capacity (In [reserved, on-demand]) is the on-demand NodePool of the pair. Replicas on
// its reserved nodes do not move to spot, because the reservation is paid for in any case.
func TestReservedReplicasDoNotReturn(t *testing.T) {
	for name, kind := range map[string]CapacityType{"nodePools: {spot, on-demand}": OnDemand, "nodePools: {spot, reserved}": Reserved} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(g *Group) { g.Pools[1].Type, g.ReturnNodesPerHour = kind, 30 })
			c.pools[1].Type, c.pools[1].reserved = OnDemand, 2
			c.pools[1].fields["disruption.consolidationPolicy"] = FieldView{Value: `"WhenEmpty"`, Owner: "kubectl"}
			chat := c.add("team-chat/llama", 1)
			chat.want = 4
			c.pools[0].denied = true
			c.until(15*time.Minute, "four replicas are ready on demand", c.whole(chat))
			if !c.whole(chat)() || c.d.Phase != Fallback {
				t.Fatalf("phase %v: the pair is not seen\n%s", c.d.Phase, c.why())
			}
			c.pools[0].denied = false
			c.until(3*time.Hour, "two nodes are left, those of the reservation", func() bool {
				return c.nodes(1) == 2 && c.pools[1].nodes[0].reserved && c.pools[1].nodes[1].reserved && chat.ready() == 4
			})
			c.until(10*time.Minute, "the group is at rest", c.in(PreferSpot))
			if surges, nodes, frozen := c.play(3 * time.Hour); surges > 0 || nodes != 4 || frozen > 60 {
				t.Errorf("%d surges, %d nodes at most, consolidation is frozen for %d s\n%s", surges, nodes, frozen, c.why())
			}
		})
	}
}
