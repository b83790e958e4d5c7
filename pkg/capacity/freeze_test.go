package capacity

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// office adds known demand of 4 replicas from 08:00 to 20:00, like a policy schedule with minReplicas 4. It returns 08:00 of that day.
func office(c *cluster, l *simLoad) time.Time {
	eight := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	c.ahead = []Span{{From: eight, Until: eight.Add(12 * time.Hour), GPUs: 4, Workload: l.key, Replicas: 4}}
	return eight
}

func TestFreezeStartsBeforeAWindowAndEndsInTwoSteps(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.LeadTime = 10 * time.Minute })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	eight := office(c, chat)
	c.now = eight.Add(-20 * time.Minute)
	c.run(8*time.Minute - time.Second)
	c.untouched(before)
	c.run(2 * time.Second)
	for i := range c.pools {
		if c.allowed(c.pools[i], statemachine.ReasonEmpty) || c.allowed(c.pools[i], statemachine.ReasonUnderutilized) || !c.allowed(c.pools[i],
			"Drifted") {
			t.Errorf("%s: %s", c.pools[i].Name, c.pools[i].fields["disruption.budgets"].Value)
		}
	}
	c.now = eight
	c.run(5 * time.Minute)
	if r := c.reason(explain.RuleConsolidationFreeze); r == nil || int64(r.A) != eight.Add(emptyFreezeDuration).Unix() {
		t.Errorf("before the demand has come: %+v", r)
	}
	chat.want = 4
	c.until(10*time.Minute, "four replicas are ready", c.whole(chat))
	c.now = eight.Add(emptyFreezeDuration)
	c.run(2 * time.Second)
	if c.allowed(c.pools[0], statemachine.ReasonUnderutilized) || !c.allowed(c.pools[0], statemachine.ReasonEmpty) {
		t.Errorf("the first step releases empty nodes only: %s", c.pools[0].fields["disruption.budgets"].Value)
	}
	c.now = eight.Add(inUseFreezeDuration)
	c.run(2 * time.Second)
	c.untouched(before)
	if c.writes != 4 {
		t.Errorf("%d writes for two pools: one to hold and one to put back\n%s", c.writes, strings.Join(c.log, "\n"))
	}
}

func TestArrivedDemandKeepsNoEmptyNode(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	c.now = time.Date(2026, 11, 23, 7, 40, 0, 0, time.UTC)
	chat.want = 4
	c.until(10*time.Minute, "four replicas are ready", c.whole(chat))
	eight := office(c, chat)
	c.now = eight.Add(5 * time.Minute)
	c.run(2 * time.Second)
	if c.allowed(c.pools[0], statemachine.ReasonUnderutilized) || !c.allowed(c.pools[0], statemachine.ReasonEmpty) {
		t.Errorf("%s", c.pools[0].fields["disruption.budgets"].Value)
	}
}

func TestFreezeEndsByItselfAfterACrash(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	eight := office(c, chat)
	c.now = eight.Add(-90 * time.Second)
	c.run(2 * time.Second)
	if c.allowed(c.pools[0], statemachine.ReasonEmpty) {
		t.Error("no hold 90 seconds before")
	}
	c.silent = true
	c.now = eight.Add(inUseFreezeDuration + time.Minute)
	if !c.allowed(c.pools[0], statemachine.ReasonEmpty) || !c.allowed(c.pools[0], statemachine.ReasonUnderutilized) {
		t.Errorf("at %s: %s", c.clock(), c.pools[0].fields["disruption.budgets"].Value)
	}
}

// The cron expression of a freeze entry contains a date without a year, so the entry would apply again a year later. A controller removes
// such old entries when it starts, with and without a record annotation.
func TestOldFreezeEntriesAreRemovedAtStart(t *testing.T) {
	for _, record := range []bool{true, false} {
		c := newCluster(t, nil)
		before := c.specs()
		chat := c.add("team-chat/llama", 1)
		eight := office(c, chat)
		c.now = eight.Add(-90 * time.Second)
		c.run(10 * time.Second)
		c.silent = true
		c.now, c.ahead, c.s = eight.AddDate(0, 6, 0), nil, State{}
		if !record {
			for i, p := range c.pools {
				p.record = ""
				// without the record, it is unknown which field manager owned the value
				before[i] = strings.ReplaceAll(before[i], `[{"nodes":"100%"}] by kubectl`, `[{"nodes":"100%"}] by `)
			}
		}
		c.silent = false
		c.run(30 * time.Second)
		c.untouched(before)
	}
}

// The probe begins FreezeHandover before the freeze for known demand ends, so that the probe extends the freeze without a gap.
func TestNoProbeWhileKnownDemandArrives(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 2
	c.pools[0].denied = true
	c.until(5*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	c.ahead = []Span{{From: c.now.Add(13 * time.Minute), Until: c.now.Add(3 * time.Hour), GPUs: 2}}
	c.run(13*time.Minute + inUseFreezeDuration - statemachine.FreezeHandover - 10*time.Second)
	if c.d.Phase != statemachine.Fallback {
		t.Errorf("%v while demand arrives", c.d.Phase)
	}
	c.until(time.Minute, "spot is probed", c.in(statemachine.Probing))
}

func TestFreezeEntriesAreRecognizedByTheirCompleteForm(t *testing.T) {
	h := statemachine.Freeze{Start: statemachine.Stamp(midnight), Empty: statemachine.Stamp(midnight.Add(15 * time.Minute)),
		InUse: statemachine.Stamp(midnight.Add(time.Hour))}
	entries := strings.NewReplacer("E,U]", `{"duration":"15m","nodes":"0","reasons":["Empty"],"schedule":"0 0 23 11 *"},`+
		`{"duration":"60m","nodes":"0","reasons":["Underutilized"],"schedule":"0 0 23 11 *"}]`)
	for list, with := range map[nodepool.Value]nodepool.Value{
		``:                `[{"nodes":"10%"},E,U]`, // an absent list has the default of the CRD, which must also limit disruption later
		`[]`:              `[E,U]`,
		`[{"nodes":"1"}]`: `[{"nodes":"1"},E,U]`,
		`[{"duration":"8h","nodes":"0","schedule":"0 9 * * 1-5"}]`: `[{"duration":"8h","nodes":"0",` +
			`"schedule":"0 9 * * 1-5"},E,U]`,
		`[{"duration":"60m","nodes":"0","reasons":["Drifted"],"schedule":"0 0 23 11 *"}]`: `[{"duration":"60m","nodes":"0",` +
			`"reasons":["Drifted"],"schedule":"0 0 23 11 *"},E,U]`,
		`[{"duration":"60m","nodes":"0","reasons":["Empty","Drifted"],"schedule":"0 0 23 11 *"}]`: `[{"duration":"60m","nodes":"0",` +
			`"reasons":["Empty","Drifted"],"schedule":"0 0 23 11 *"},E,U]`,
		`[{"duration":"60m","nodes":"0","reasons":["Empty"],"schedule":"0 0 * * 1"}]`: `[{"duration":"60m","nodes":"0",` +
			`"reasons":["Empty"],"schedule":"0 0 * * 1"},E,U]`,
	} {
		got, ok := h.With(list)
		expect := entries.Replace(string(with))
		if !ok || string(got) != expect {
			t.Errorf("%s with a hold: %s, want %s", list, got, expect)
		}
		back, ours := statemachine.WithoutFreeze(got)
		if !ours || back != list && list != "" {
			t.Errorf("%s without it: %s", got, back)
		}
		if again, ours := statemachine.WithoutFreeze(list); ours || again != list {
			t.Errorf("%s: %s was taken for ours", list, again)
		}
	}
	for _, list := range []nodepool.Value{`{`, `{"nodes":"0"}`, `"x"`, nodepool.Value("[" + strings.Repeat(`{"nodes":"1"},`,
		48) + `{"nodes":"1"}]`)} {
		if got, ok := h.With(list); ok {
			t.Errorf("%.30s...: %.60s", list, got)
		}
	}
}

// windowOf returns a window that opens once, at from, for the given time.
func windowOf(from time.Time, length time.Duration) calendar.Window {
	return calendar.Window{Name: "once", From: from, To: from.Add(length)}
}
