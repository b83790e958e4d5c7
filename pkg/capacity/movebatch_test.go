package capacity

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// surges simulates until holds returns true, and returns the number of replicas in each batch of a return to spot.
func (c *cluster) surges(l *simLoad, d time.Duration, what string, holds func() bool) (widths []int32) {
	c.t.Helper()
	c.until(d, what, func() bool {
		if n := l.lastAdvice.Surge; n > 0 && (len(widths) == 0 || c.s.Move.Step == statemachine.Surging &&
			c.s.Move.Since == statemachine.Stamp(c.now)) {
			widths = append(widths, n)
		}
		return holds()
	})
	return widths
}

// scarce returns a cluster with sixteen ready replicas on on-demand nodes. Spot had no capacity when they started, and has capacity now.
func scarce(t *testing.T) (*cluster, *simLoad) {
	c := newCluster(t, func(g *Group) { g.ReturnNodesPerHour = 600 })
	for _, p := range c.pools {
		p.fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "64", Owner: "kubectl"}
	}
	chat := c.add("team-chat/llama", 1)
	chat.want = 16
	c.pools[0].denied = true
	c.until(20*time.Minute, "sixteen replicas are ready on demand", c.whole(chat))
	c.pools[0].denied = false
	chat.minimum = 16
	return c, chat
}

func TestBatchWidthDoublesUpToAQuarter(t *testing.T) {
	c, chat := scarce(t)
	widths := c.surges(chat, 3*time.Hour, "all are back", func() bool { return c.nodes(1) == 0 && c.d.Phase == statemachine.PreferSpot })
	if want := []int32{1, 2, 4, 4, 4, 1}; !slices.Equal(widths, want) {
		t.Errorf("batches of %v, want %v", widths, want)
	}
	if chat.minimum < 16 {
		t.Errorf("%d ready of 16 at the least", chat.minimum)
	}
}

func TestFullMarketIsRetriedWithOneReplicaWithoutFallback(t *testing.T) {
	c, chat := scarce(t)
	c.until(time.Hour, "four are on spot", func() bool { return c.nodes(0) >= 4 && c.s.Move.Step == statemachine.NoMove })
	c.pools[0].denied = true
	phases := len(c.phases)
	c.until(time.Hour, "the market is found full", func() bool { return c.s.Pace.Level > 0 })
	began, on := c.now, c.nodes(1)
	c.until(time.Hour, "it is found full again", func() bool { return c.s.Pace.Level > 1 })
	if waited := c.now.Sub(began); waited < statemachine.SettleTime*4/5 {
		t.Errorf("asked again after %v", waited)
	}
	c.run(5 * time.Minute)
	if len(c.phases) != phases || c.d.Phase != statemachine.Returning || c.nodes(1) > on {
		t.Errorf("%v, %d on demand, then %d\n%s", c.phases[phases-1:], on, c.nodes(1), c.why())
	}
	if r := c.reason(explain.RuleReturn); r == nil || r.Until.IsZero() {
		t.Errorf("%+v gives the time of the next batch", r)
	}
	c.pools[0].denied = false
	c.until(4*time.Hour, "all are back", func() bool { return c.nodes(1) == 0 && c.d.Phase == statemachine.PreferSpot })
	if chat.minimum < 16 {
		t.Errorf("%d ready of 16 at the least", chat.minimum)
	}
}

func TestSuccessorsOnDemandAreDeletedAndThoseOnSpotStay(t *testing.T) {
	c, chat := scarce(t)
	c.until(2*time.Hour, "a batch of four begins", func() bool { return c.s.Move.Step == statemachine.Surging && c.s.Move.Count == 4 })
	spot, onDemand := c.nodes(0), c.nodes(1)
	c.room(2)
	c.until(time.Minute, "two of them have a spot node", func() bool { return c.nodes(0) == spot+2 })
	const came = 2
	c.until(30*time.Minute, "the batch is over", func() bool { return c.s.Move.Step == statemachine.NoMove })
	c.run(5 * time.Minute)
	if c.nodes(0) != spot+came || c.nodes(1) != onDemand-came || chat.minimum < 16 {
		t.Errorf("%d came: %d on spot of %d, %d on demand of %d, %d ready at the least\n%s", came, c.nodes(0), spot, c.nodes(1), onDemand,
			chat.minimum, c.why())
	}
}

// The provider takes the nodes of three replicas while a batch of four moves, and spot has capacity for only one successor. Three
// successors on new on-demand nodes must stay as replacements of the replicas at risk, and no more successors may start.
func TestSuccessorsOnDemandOfReplicasAtRiskStay(t *testing.T) {
	for first := range 2 { // index of the first replica of the batch that is at risk
		c, chat := scarce(t)
		c.until(2*time.Hour, "a batch of four begins", func() bool { return c.s.Move.Step == statemachine.Surging && c.s.Move.Count == 4 })
		c.room(1)
		for _, p := range chat.pods {
			for _, uid := range c.s.Move.Victims[first : first+3] {
				p.node.notice = p.node.notice || p.uid == uid
			}
		}
		var taken []*simNode
		for _, p := range c.pools[1].nodes {
			if p.notice {
				taken = append(taken, p)
			}
		}
		most := 0
		c.observed = func() { most = max(most, len(chat.pods)) }
		c.until(30*time.Minute, "the successors are ready", func() bool { return c.s.Move.Step != statemachine.Surging })
		chat.minimum = 16
		c.run(10 * time.Minute)
		c.observed = nil // the losses below cause a reserve, whose pods must not count
		for _, n := range taken {
			c.lose(n)
		}
		c.run(10 * time.Minute)
		if most > 20 || chat.minimum < 16 || len(taken) != 3 {
			t.Errorf("victim %d is the first at risk: at most %d pods, want 20; %d ready at the least\n%s", first, most, chat.minimum, c.why())
		}
	}
}

// room sets the limit of the spot NodePool so that it can launch exactly n more nodes.
func (c *cluster) room(n int) {
	c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: nodepool.Value(strconv.Itoa(c.nodes(0) + n)), Owner: "kubectl"}
}

// onSpot returns the UIDs of the workload's pods that run on spot nodes.
func (c *cluster) onSpot(l *simLoad) (uids []string) {
	for _, p := range l.pods {
		if p.node != nil && p.node.pool.Type == Spot {
			uids = append(uids, p.uid)
		}
	}
	return uids
}

// Demand grows while a batch waits for its successors, and new replicas start on on-demand nodes. These replicas do not belong to the
// batch. The batch must not delete more pods than it planned at its start, and must still wait for the successors that load on spot.
func TestBatchDeletesAtMostItsOwnSizeAndWaitsForLoadingPods(t *testing.T) {
	for _, room := range []int{1, 2, 4} {
		for _, delay := range []time.Duration{0, 60 * time.Second, 2 * time.Minute} {
			c, chat := scarce(t)
			c.until(2*time.Hour, "a batch of four begins", func() bool { return c.s.Move.Step == statemachine.Surging && c.s.Move.Count == 4 })
			c.room(room)
			spot, began := c.nodes(0), c.s.Move.Since
			c.until(time.Minute, "pods that have room have a spot node", func() bool { return c.nodes(0) == spot+room })
			c.run(delay)
			chat.want += 10
			var landed []string
			c.until(40*time.Minute, "the batch is over", func() bool {
				if a := chat.lastAdvice; a.Surge > 4 {
					t.Fatalf("%s: %d more replicas are asked for, the batch began with 4\n%s", c.clock(), a.Surge, c.why())
				}
				now := c.onSpot(chat)
				for _, uid := range landed {
					if !slices.Contains(now, uid) {
						t.Fatalf("%s: room for %d, %v: %s had its spot node and is gone\n%s", c.clock(), room, delay, uid, c.why())
					}
				}
				landed = now
				return c.s.Move.Step == statemachine.NoMove || c.s.Move.Since != began && c.s.Move.Step == statemachine.Surging
			})
			if len(landed) != spot+room {
				t.Errorf("room for %d, %v: %d are on spot, %d before", room, delay, len(landed), spot)
			}
		}
	}
}

// The spot node of a successor is lost, and the replacement pod runs on an existing on-demand node. The batch must continue at once with
// the other successors.
func TestBatchDoesNotWaitForALostSuccessor(t *testing.T) {
	c, chat := scarce(t)
	c.until(2*time.Hour, "a batch of four begins", func() bool { return c.s.Move.Step == statemachine.Surging && c.s.Move.Count == 4 })
	spot, began := c.nodes(0), c.s.Move.Since
	c.until(time.Minute, "it has its spot nodes", func() bool { return c.nodes(0) == spot+4 })
	c.pools[1].nodes = append(c.pools[1].nodes, &simNode{name: c.id("od"), created: c.now.Add(-time.Hour), changed: c.now, usable: true,
		pool: c.pools[1]})
	c.pools[0].remove(c.pools[0].nodes[spot])
	c.until(6*time.Minute, "the batch is over", func() bool {
		return c.s.Move.Step == statemachine.NoMove || c.s.Move.Since != began && c.s.Move.Step == statemachine.Surging
	})
	if chat.minimum < 16 || len(c.onSpot(chat)) < spot+3 {
		t.Errorf("%d ready at the least, %d on spot of %d and four\n%s", chat.minimum, len(c.onSpot(chat)), spot, c.why())
	}
}

// While the replaced pods of a batch are being deleted, demand grows by the size of the batch. The batch must end without another
// deletion, and the next batch must not wait.
func TestBatchEndsWhenDemandGrows(t *testing.T) {
	c, chat := scarce(t)
	c.until(2*time.Hour, "a batch of four shrinks", func() bool { return c.s.Move.Step == statemachine.Shrinking && c.s.Move.Count == 4 })
	chat.want = 20
	c.until(2*time.Minute, "the batch is over", func() bool { return c.s.Move.Step != statemachine.Shrinking })
	if len(chat.pods) != 20 && c.s.Move.Step == statemachine.NoMove || chat.ready() < 20 {
		t.Errorf("%d pods, %d ready\n%s", len(chat.pods), chat.ready(), c.why())
	}
}

// The model takes longer to load than the time for which a batch waits, so no batch succeeds. The time between two batches must become
// longer.
func TestBatchesWithoutReadySuccessorsBecomeRare(t *testing.T) {
	c, chat := scarce(t)
	c.until(time.Hour, "the return begins", func() bool { return c.d.Phase == statemachine.Returning && c.s.Move.Step == statemachine.NoMove })
	c.load = 40 * time.Minute
	surging, began := 0, c.now
	for c.now.Sub(began) < 12*time.Hour {
		c.step()
		if chat.lastAdvice.Surge > 0 {
			surging++
		}
	}
	if share := float64(surging) / (12 * 3600); share > 0.6 || surging == 0 {
		t.Errorf("a surge lasts for %.0f%% of the time\n%s", 100*share, c.why())
	}
}
