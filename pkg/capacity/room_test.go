package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// atLimit returns a cluster with the given limit on its spot NodePool, and a workload without replicas. With a limit of fourNodes, the
// NodePool can have four nodes.
func atLimit(t *testing.T, resource string, limit nodepool.Value, change func(*Group)) (*cluster, *simLoad) {
	c := newCluster(t, change)
	name := nodepool.FieldLimit.Name(resource)
	c.pools[0].fields[name] = nodepool.FieldView{Value: limit, Owner: "kubectl"}
	return c, c.add("team-chat/llama", 1)
}

var fourNodes = map[string]nodepool.Value{"nvidia.com/gpu": `"4"`, "cpu": `"35"`, "memory": `"300Gi"`, "nodes": `4`}

// play simulates the given time. It returns how often additional replicas for a move (a surge) were requested, the greatest number of
// nodes, and the number of seconds during which consolidation of the on-demand NodePool was frozen.
func (c *cluster) play(d time.Duration) (surges, nodes, frozen int) {
	was := false
	for range int(d / time.Second) {
		c.step()
		if on := c.loads[0].lastAdvice.Surge > 0; on != was {
			if was = on; on {
				surges++
			}
		}
		nodes = max(nodes, c.nodes(0)+c.nodes(1))
		if _, ours := statemachine.WithoutFreeze(c.pools[1].fields["disruption.budgets"].Value); ours {
			frozen++
		}
	}
	return surges, nodes, frozen
}

func TestSpotAtItsOwnersLimitEndsTheReturn(t *testing.T) {
	for resource, limit := range fourNodes {
		t.Run(resource, func(t *testing.T) {
			c, chat := atLimit(t, resource, limit, nil)
			chat.want = 6
			c.until(10*time.Minute, "six replicas are ready", c.whole(chat))
			if c.nodes(0) != 4 || c.nodes(1) != 2 {
				t.Fatalf("%d nodes on spot, %d on demand\n%s", c.nodes(0), c.nodes(1), c.why())
			}
			if surges, nodes, frozen := c.play(4 * time.Hour); surges != 0 || nodes != 6 || frozen > 0 {
				t.Errorf("4 hours: %d surges, %d nodes at most for 6 replicas, consolidation on demand is frozen for %d s\n%s", surges, nodes,
					frozen, c.why())
			}
			if want := "NodePool l40s-spot has reached limits[" + resource + "]: replicas with 2 GPUs stay on"; !strings.Contains(c.why(), want) {
				t.Errorf("no reason contains %q\n%s", want, c.why())
			}
			// When the owner raises the limit, the replicas must return to spot.
			c.edit(0, nodepool.FieldLimit.Name(resource), map[string]nodepool.Value{"nvidia.com/gpu": `6`, "cpu": `"48"`, "memory": `"384Gi"`,
				"nodes": `6`}[resource])
			c.until(2*time.Hour, "nothing is left on demand", func() bool { return c.nodes(1) == 0 && chat.ready() == 6 })
			c.until(10*time.Minute, "the group is at rest", c.in(statemachine.PreferSpot))
		})
	}
}

// The spot NodePool's limit allows five nodes for six replicas. Five replicas return to spot and one stays on an on-demand node. After
// that, no other move may start.
func TestReturnStopsWhenSpotIsFull(t *testing.T) {
	c, chat := atLimit(t, "nvidia.com/gpu", "5", func(g *Group) { g.ReturnNodesPerHour = 30 })
	c.pools[0].denied = true
	chat.want = 6
	c.until(20*time.Minute, "six replicas are ready on demand", c.whole(chat))
	c.pools[0].denied = false
	c.until(4*time.Hour, "spot is full", func() bool { return c.nodes(0) == 5 && c.nodes(1) == 1 && chat.ready() == 6 })
	c.until(10*time.Minute, "the group is at rest", c.in(statemachine.PreferSpot))
	if surges, nodes, frozen := c.play(6 * time.Hour); surges != 0 || nodes != 6 || frozen > 60 {
		t.Errorf("6 hours: %d surges, %d nodes at most for 6 replicas, consolidation on demand is frozen for %d s\n%s", surges, nodes, frozen,
			c.why())
	}
}

// The spot NodePool is at its owner's limit, so pods must not wait for spot: on-demand gets no limit cap. The limit is not a failure of
// spot either, so no fallback begins.
func TestNoSpotWaitAtTheOwnersLimit(t *testing.T) {
	for resource, limit := range fourNodes {
		c, chat := atLimit(t, resource, limit, func(g *Group) { g.SpotWaitTimeout = 10 * time.Minute })
		c.run(3 * time.Minute) // after this time, demand has been known for trustInterval
		chat.want = 4
		c.until(10*time.Minute, "four replicas are ready", c.whole(chat))
		chat.want = 6
		c.until(5*time.Minute, resource+": six replicas are ready", c.whole(chat))
		c.run(time.Hour)
		if c.nodes(0) != 4 || c.s.Spot.Level != 0 || fmt.Sprint(c.phases) != "[prefer spot]" {
			t.Errorf("%s: %d nodes on spot, level %d, phases %v\n%s", resource, c.nodes(0), c.s.Spot.Level, c.phases, c.why())
		}
	}
}

// The spot NodePool is at its owner's limit during a fallback. A probe would need space for one more node, so the fallback must end
// without a probe.
func TestNoProbeAtTheOwnersLimit(t *testing.T) {
	c, chat := atLimit(t, "cpu", `"35"`, nil)
	chat.want = 4
	c.until(10*time.Minute, "four replicas are ready on spot", c.whole(chat))
	for i := range 5 {
		// losses are reported, although the nodes stay
		c.pools[0].losses = append(c.pools[0].losses, evidence.Loss{UID: fmt.Sprint(i), At: c.now})
	}
	c.until(time.Minute, "the group falls back", c.in(statemachine.Fallback))
	chat.want = 6
	c.until(2*time.Hour, "the fallback ends", c.in(statemachine.PreferSpot))
	c.until(2*time.Hour, "six replicas are ready, and none for expected losses", c.whole(chat))
	c.run(10 * time.Minute)
	if surges, nodes, _ := c.play(3 * time.Hour); surges != 0 || nodes != 6 {
		t.Errorf("%d surges, %d nodes at most\n%s", surges, nodes, c.why())
	}
	for _, p := range c.phases {
		if p == statemachine.Probing || p == statemachine.Returning {
			t.Errorf("phases %v: a probe or return although spot may launch no node", c.phases)
			break
		}
	}
}

// Both NodePools are at a limit. Targets must be capped, and the reason must name the limited resource of the first NodePool.
func TestEveryOwnersLimitCapsTargetsAndIsNamed(t *testing.T) {
	for resource, limit := range fourNodes {
		c, chat := atLimit(t, resource, limit, nil)
		c.pools[1].fields["limits[cpu]"] = nodepool.FieldView{Value: `"16"`, Owner: "kubectl"}
		chat.want = 4
		c.until(10*time.Minute, "four replicas are ready on spot", c.whole(chat))
		chat.want = 6
		c.until(10*time.Minute, "two more are ready on demand", c.whole(chat))
		chat.want = 12
		c.until(10*time.Minute, resource+": the target is capped", func() bool { return chat.lastAdvice.Cap == 7 })
		if want := "has reached limits[" + resource + "]"; !strings.Contains(c.why(), want) {
			t.Errorf("%s: no reason contains %q\n%s", resource, want, c.why())
		}
	}
}

func TestQuantitiesAreReadAsKubernetesReadsThem(t *testing.T) {
	for text, want := range map[nodepool.Value]float64{
		`8`: 8, `"8"`: 8, `"0"`: 0, `"-1"`: -1, `"1000m"`: 1, `"1k"`: 1000, `"1.5Gi"`: 1.5 * (1 << 30), `"1e3"`: 1000, `"1E3"`: 1000,
		`"2E"`: 2e18, `"5Ei"`: 5 * (1 << 60), `1e3`: 1000,
		`"500u"`: 0.0005, `"64Mi"`: 64 << 20,
	} {
		if got, ok := text.Quantity(); !ok || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []nodepool.Value{"", `""`, `"Gi"`, `"1 Gi"`, `"1iG"`, `"1GiB"`, `"1mm"`, `"NaN"`, `"Inf"`, `"infinity"`, `{}`, `null`,
		`true`, `"1e400"`} {
		if got, ok := text.Quantity(); ok {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// No batch starts for a workload that is at its maxReplicas or at its team's limit, because its target cannot include additional replicas
// for a move.
func TestNoSurgeBeyondTheBoundsOfAWorkload(t *testing.T) {
	for _, full := range []bool{true, false} {
		c := newCluster(t, func(g *Group) { g.ReturnNodesPerHour = 30 })
		chat := c.add("team-chat/llama", 1)
		c.pools[0].denied = true
		chat.want, chat.full = 4, full
		c.until(20*time.Minute, "four replicas are ready on demand", c.whole(chat))
		c.pools[0].denied = false
		if surges, _, _ := c.play(6 * time.Hour); (surges == 0) != full {
			t.Errorf("in 6 hours, at maxReplicas %v: %d surges\n%s", full, surges, c.why())
		}
	}
}

// gpuscaler must respect a limit of a resource that it cannot override, including a limit without a resource name.
func TestLimitWithoutAFieldCounts(t *testing.T) {
	for resource, full := range map[string]bool{"": true, "example.com/unknown": true, "nvidia.com/gpu": true} {
		c := newCluster(t, nil)
		o := c.observe()
		o.Pools[0].Limits = []nodepool.LimitView{{Resource: resource, FieldView: nodepool.FieldView{Value: "0"}, Used: 1, Node: 1}}
		var tick tick
		tick.begin(c.g, &o, &c.s, midnight, &c.d)
		tick.countNodes()
		tick.measureRoom()
		if spot, onDemand := tick.spot.room == 0, tick.onDemand.room == 0; spot != full || onDemand {
			t.Errorf("limit 0 of %q: full %v, the other NodePool %v", resource, spot, onDemand)
		}
	}
}

// Targets are capped because of both NodePools: the first is at a limit of its owner, and launches in the second were refused. The
// decision must contain both NodePools with their numbers, and the GPU of a Job in the first. Without a cap the list must be empty.
func TestClosedNodePoolsAreListedWithTheirNumbers(t *testing.T) {
	c := newCluster(t, nil)
	c.pools[0].fields["limits[nvidia.com/gpu]"] = nodepool.FieldView{Value: "2"}
	c.other = append(c.other, &simPod{uid: "job", name: "job", since: c.now, gpus: 1})
	c.run(5 * time.Minute)
	if len(c.d.Closed) > 0 || !c.d.Until.IsZero() {
		t.Fatalf("closed %+v until %v without a cap", c.d.Closed, c.d.Until)
	}
	chat := c.add("team-chat/llama", 1)
	chat.want, c.pools[1].denied = 5, true
	c.until(10*time.Minute, "the target is capped", func() bool { return len(c.d.Closed) == 2 })
	spot := Closed{Pool: 0, Cause: explain.CauseLimit, Limited: "nvidia.com/gpu", Limit: 2, Used: 2, Units: 2, Unmanaged: 1}
	if od := c.d.Closed[1]; c.d.Closed[0] != spot || od.Cause != explain.CauseRefused || od.Refused < 1 || od.Units != 0 {
		t.Errorf("closed %+v", c.d.Closed)
	}
	if !c.d.Until.After(c.now) || c.d.Until.Sub(c.now) > 30*time.Minute {
		t.Errorf("next attempt at %v, now %v", c.d.Until, c.now)
	}
}

// A schedule of the group limits both NodePools while pods wait. The decision must attribute the limits to the schedule and not to the
// owner.
func TestLimitOfAScheduleIsNotAttributedToTheOwner(t *testing.T) {
	c := newCluster(t, func(g *Group) {
		all := calendar.Window{Name: "inventory", From: midnight, To: midnight.Add(24 * time.Hour)}
		g.Schedules = []Schedule{{Window: all, Limits: []Limit{{Resource: "nvidia.com/gpu", Value: 1}}}}
	})
	chat := c.add("team-chat/llama", 1)
	chat.want = 4
	c.until(10*time.Minute, "the target is capped", func() bool { return len(c.d.Closed) == 2 })
	for _, p := range c.d.Closed {
		if !p.Scheduled || p.Limit != 1 || p.Used != 1 {
			t.Errorf("%+v", p)
		}
	}
}

// The owner withdraws the consent while the limits are 0. gpuscaler cannot remove these limits, and the decision must not attribute them to
// the owner.
func TestLimitThatCannotBeRemovedIsNotAttributedToTheOwner(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	chat := c.add("team-chat/llama", 1)
	c.until(20*time.Minute, "the limits are 0", func() bool { return c.limit(0) == 0 && c.limit(1) == 0 })
	for _, p := range c.pools {
		p.consent = 0
	}
	chat.want = 1
	c.until(10*time.Minute, "the target is capped", func() bool { return len(c.d.Closed) == 2 })
	for _, p := range c.d.Closed {
		if !p.Left || p.Limit != 0 {
			t.Errorf("%+v", p)
		}
	}
}

// The limit of the spot NodePool allows one more node, which is too small for the waiting pod. The limit of the on-demand NodePool allows
// no other node.
func TestLimitThatAllowsOnlyTooSmallNodesNamesThePod(t *testing.T) {
	c := newCluster(t, nil)
	for i, limit := range []nodepool.Value{"12", "4"} {
		c.pools[i].gpus, c.pools[i].fields["limits[nvidia.com/gpu]"] = 4, nodepool.FieldView{Value: limit, Owner: "kubectl"}
	}
	c.add("team-embed/worker", 4).want = 2
	c.run(10 * time.Minute)
	c.add("team-chat/llama", 8).want = 1
	c.until(10*time.Minute, "the target is capped", func() bool { return len(c.d.Closed) == 2 })
	if spot, onDemand := c.d.Closed[0], c.d.Closed[1]; spot.Waiting != 8 || spot.Used != 8 || onDemand.Waiting != 0 {
		t.Errorf("closed %+v", c.d.Closed)
	}
}

// A group whose nodes are found by their labels has its maximum number of nodes or units. In the case "", no maximum is configured, so no
// node can be added.
func TestMaximumOfAFleetIsListed(t *testing.T) {
	for name, want := range map[string]Closed{
		"maxNodes":    {Cause: explain.CauseFleet, Limited: "maxNodes", Limit: 3, Used: 3, Units: 3},
		"maxCapacity": {Cause: explain.CauseFleet, Limited: "maxCapacity", Limit: 3, Used: 3, Units: 3},
		"":            {Cause: explain.CauseFleet, Units: 3},
	} {
		c, chat := newFleet(t, 3, func(g *Group) {
			g.MaxNodes, g.MaxCapacity = int64(flag01(name == "maxNodes"))*3, int64(flag01(name == "maxCapacity"))*3
		})
		c.pools[0].gpus, chat.want = 1, 3
		c.until(20*time.Minute, "three replicas are ready", c.whole(chat))
		chat.want = 8
		c.until(20*time.Minute, name+": the target is capped", func() bool { return len(c.d.Closed) > 0 })
		if !slices.Equal(c.d.Closed, []Closed{want}) {
			t.Errorf("%s: %+v, want %+v", name, c.d.Closed, want)
		}
	}
}

// The owner of the NodePools allows no overrides of limits, so the limit of a schedule is not written. The target must not be capped at
// this limit even if pods wait for minutes, because Karpenter can launch nodes beyond it. With consent, the target must be capped.
func TestScheduledLimitThatMayNotBeWrittenIsNoLimit(t *testing.T) {
	for limits, want := range map[nodepool.Consent]bool{0: false, nodepool.ConsentLimits: true} {
		c := newCluster(t, func(g *Group) {
			g.Schedules = []Schedule{{Window: calendar.Window{Name: "night", From: midnight, To: midnight.Add(time.Hour)},
				Limits: []Limit{{"nvidia.com/gpu", 1}}}}
		})
		for _, p := range c.pools {
			p.consent, p.until = nodepool.ConsentWeight|limits, midnight.Add(3*time.Minute)
			p.nodes = []*simNode{{name: p.Name, created: midnight.Add(-time.Hour), usable: true, changed: midnight, pool: p}}
		}
		chat := c.add("team-chat/llama", 1)
		chat.want = 4
		c.run(2 * time.Minute)
		if capped := c.d.Advice[0].Cap >= 0; capped != want {
			t.Errorf("consent %q: capped %v, want %v\n%s", limits, capped, want, c.why())
		}
	}
}
