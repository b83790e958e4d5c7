package capacity

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// Targets are capped because of both NodePools: one is at a limit of its owner, and launches in the other were refused. The decision must
// contain both with their numbers, and the GPU of a job in the first NodePool. Without a cap the list must be empty.
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

// A schedule of the group limits both NodePools while pods wait. The limits are those of the schedule, not of the owner.
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

// A group whose nodes are found by their labels is at its maximum, or at the number of its nodes.
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
