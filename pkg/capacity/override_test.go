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

func TestForeignEditStaysAndIsRestoredAtRelease(t *testing.T) {
	c, _, _ := zeroLimitCluster(t)
	c.edit(0, "limits[nvidia.com/gpu]", `"8"`)
	want := c.specs()
	c.run(9 * time.Minute)
	if c.spec(0) != want[0] || c.reason(explain.RuleForeignEdit) == nil {
		t.Errorf("%s\n%s", c.spec(0), c.why())
	}
	c.run(2 * time.Minute)
	if c.limit(0) != 0 {
		t.Errorf("limit %d, ten minutes later", c.limit(0))
	}
	c.releasing = true
	c.run(time.Minute)
	if c.spec(0) != want[0] || c.pools[0].record != "" {
		t.Errorf("released to\n%s\nrecord %s\nwant\n%s", c.spec(0), c.pools[0].record, want[0])
	}
}

// Argo CD restores the original value before gpuscaler's cache contains the override. gpuscaler must treat this as an edit.
func TestEditFasterThanTheCacheStays(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	before := c.pools[0].fields["limits[nvidia.com/gpu]"].Value
	c.add("team-chat/llama", 1)
	c.until(20*time.Minute, "the limit is 0", func() bool { return c.limit(0) == 0 })
	c.edit(0, "limits[nvidia.com/gpu]", before)
	c.run(5 * time.Second)
	if c.limit(0) == 0 || c.reason(explain.RuleForeignEdit) == nil {
		t.Errorf("limit %d: the edit does not stay\n%s", c.limit(0), c.why())
	}
}

// The owner sets the limit to 0 while gpuscaler's writes of the same limit fail. 0 is then the owner's value: neither demand nor the
// removal of the group may restore the previous limit.
func TestEditToTheValueOfAPendingOverrideStays(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	c.add("team-chat/llama", 1)
	c.deaf = true
	c.until(20*time.Minute, "a limit of 0 is refused", func() bool { return len(c.d.Actions) > 0 })
	c.edit(0, "limits[nvidia.com/gpu]", `"0"`)
	c.deaf = false
	c.run(2 * time.Minute)
	c.releasing = true
	c.run(time.Minute)
	if c.limit(0) != 0 || c.limit(1) != 16 || c.pools[0].record != "" {
		t.Errorf("limits %d and %d, want 0 as the owner set it, and the original 16; record %q", c.limit(0), c.limit(1), c.pools[0].record)
	}
}

// The writes of a zero limit fail, and demand returns. Then the owner sets the limit to 0. gpuscaler is already restoring the original
// limit, and must not overwrite the owner's value.
func TestEditToTheValueOfAnAbandonedOverrideStays(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	chat := c.add("team-chat/llama", 1)
	c.deaf = true
	c.until(20*time.Minute, "a limit of 0 is refused", func() bool { return len(c.d.Actions) > 0 })
	chat.want = 1
	restores := func(a Action) bool {
		p, is := a.(NodePoolPatch)
		return is && p.Pool == c.pools[0].Name && slices.ContainsFunc(p.Changes, func(c override.Change) bool { return c.Restore })
	}
	c.until(time.Minute, "the restore is refused", func() bool { return slices.ContainsFunc(c.d.Actions, restores) })
	c.edit(0, "limits[nvidia.com/gpu]", `"0"`)
	c.deaf = false
	c.run(2 * time.Minute)
	if c.limit(0) != 0 || c.limit(1) != 16 || c.pools[0].record != "" {
		t.Errorf("limits %d and %d, want 0 as the owner set it, and the original 16; record %q", c.limit(0), c.limit(1), c.pools[0].record)
	}
}

// Between two ticks, the owner deletes a NodePool with a zero limit and creates it again, as `kubectl replace --force` does. The limit 0 in
// the manifest of the new NodePool is not an override.
func TestNodePoolThatWasReplacedHasNoOverride(t *testing.T) {
	c, chat, _ := zeroLimitCluster(t)
	c.pools[0].uid = "first"
	c.run(3 * time.Second)
	c.edit(0, "limits[nvidia.com/gpu]", `"0"`)
	c.pools[0].uid, c.pools[0].record = "another", ""
	c.run(3 * time.Second)
	chat.want = 1
	c.run(2 * time.Minute)
	if c.limit(0) != 0 || c.limit(1) != 16 || c.pools[0].record != "" {
		t.Errorf("limits %d and %d, want 0 as in the manifest, and the original 16; record %q", c.limit(0), c.limit(1), c.pools[0].record)
	}
}

// Flux writes its value again about every ten minutes. After the third time, gpuscaler does not override the field for six hours, even if
// gpuscaler is restarted.
func TestThirdOverwriteBacksOffAcrossARestart(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	for range 3 {
		c.until(11*time.Minute, "the limit is 0", func() bool { return c.limit(0) == 0 })
		c.run(3 * time.Second)
		c.edit(0, "limits[nvidia.com/gpu]", `16`)
		c.run(2 * time.Second)
	}
	if f := c.finding(explain.FindContested); f == nil || f.Count != 3 {
		t.Errorf("findings %+v", c.d.Findings)
	}
	writes := c.writes
	c.run(time.Hour)
	c.s = State{}
	c.run(4*time.Hour + 50*time.Minute)
	if c.writes != writes || c.limit(0) != 16 {
		t.Errorf("%d writes while backed off", c.writes-writes)
	}
	if c.limit(1) != 0 {
		t.Error("the other NodePool has nothing to do with it")
	}
	c.run(12 * time.Minute)
	if c.limit(0) != 0 {
		t.Errorf("six hours later: %d\n%s", c.limit(0), c.why())
	}
	c.releasing = true
	c.run(time.Minute)
	if before[0] = strings.ReplaceAll(before[0], "limits[nvidia.com/gpu]=16 by kubectl",
		"limits[nvidia.com/gpu]=16 by kubectl-edit"); c.spec(0) != before[0] {
		t.Errorf("%s", c.spec(0))
	}
}

// The owner sets the limit to 8, and then to 0, the value of the override, before a leader observes the 8. 0 is then the owner's value:
// neither demand, nor a new leader, nor the removal of the group restores the limit in the record annotation.
func TestEditBackToTheValueOfTheOverrideStays(t *testing.T) {
	for name, then := range map[string]func(c *cluster, chat *simLoad){
		"demand returns":           func(_ *cluster, chat *simLoad) { chat.want = 4 },
		"another replica leads":    func(c *cluster, _ *simLoad) { c.s = State{} },
		"the group is removed":     func(c *cluster, _ *simLoad) { c.releasing = true },
		"the consent is withdrawn": func(c *cluster, _ *simLoad) { c.pools[0].consent &^= nodepool.ConsentLimits },
		"a restore has begun":      func(c *cluster, chat *simLoad) { c.deaf, chat.want = true, 4 },
		"the write was not observed": func(c *cluster, _ *simLoad) {
			for i := range c.s.Pools {
				for f := range c.s.Pools[i].Overrides {
					c.s.Pools[i].Overrides[f].Seen = false
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, chat, _ := zeroLimitCluster(t)
			c.run(3 * time.Second)
			then(c, chat)
			if c.deaf {
				c.run(2 * time.Second)
				c.deaf = false
			}
			c.edit(0, "limits[nvidia.com/gpu]", `"8"`)
			c.edit(0, "limits[nvidia.com/gpu]", `"0"`)
			c.run(3 * time.Second)
			if name == "demand returns" && c.reason(explain.RuleForeignEdit) == nil {
				t.Errorf("the edit is not reported\n%s", c.why())
			}
			c.run(time.Minute)
			c.pools[0].consent |= nodepool.ConsentLimits
			chat.want = 4
			c.run(time.Minute)
			c.releasing = true
			c.run(time.Minute)
			if c.limit(0) != 0 || c.limit(1) != 16 || c.pools[0].record != "" {
				t.Errorf("limits %d and %d, want 0 as the owner set it, and the original 16; record %q", c.limit(0), c.limit(1), c.pools[0].record)
			}
		})
	}
}

// A NodePool with a zero limit is restored from a backup. Its annotations contain the record of gpuscaler, but all fields belong to the
// backup software, as after a reset of managedFields. The record is then the only evidence of the override, and the owner's limit is
// restored.
func TestOverrideOfACopiedNodePoolIsRestored(t *testing.T) {
	c, chat, _ := zeroLimitCluster(t)
	c.run(3 * time.Second)
	p := c.pools[0]
	p.uid, p.copied = "a copy", true
	for name, f := range p.fields {
		p.fields[name] = nodepool.FieldView{Value: f.Value, Owner: "velero-server/Update"}
	}
	p.version++
	c.run(3 * time.Second)
	chat.want = 4
	c.run(time.Minute)
	if c.limit(0) != 16 {
		t.Errorf("the limit is %d, want the owner's 16\n%s", c.limit(0), c.why())
	}
}

// Argo CD with RespectIgnoreDifferences applies the live value of an ignored field, and becomes an owner of the field together with
// gpuscaler. This is not an edit: the override must stay, and when it ends, the value in git must be restored.
func TestOverrideThatAGitOpsControllerAppliesTooIsRestored(t *testing.T) {
	const limit = "limits[nvidia.com/gpu]"
	for name, restarts := range map[string]bool{"seen by the leader that wrote it": false, "seen first by a new leader": true} {
		t.Run(name, func(t *testing.T) {
			c, chat, _ := zeroLimitCluster(t)
			c.run(3 * time.Second)
			c.pools[0].fields[limit] = nodepool.FieldView{Value: `"0"`, Owner: "argocd/Apply", Ours: true}
			c.pools[0].version++
			if restarts {
				c.s = State{}
			}
			c.run(3 * time.Second)
			if f := c.pools[0].fields[limit]; f.Value != `"0"` || !f.Ours || c.reason(explain.RuleForeignEdit) != nil {
				t.Errorf("%+v\n%s", f, c.why())
			}
			chat.want = 4
			c.run(time.Minute)
			if c.limit(0) != 16 {
				t.Errorf("the limit is %d, want 16, the value in git", c.limit(0))
			}
		})
	}
}

func TestFieldOfTwoOwnersWithoutRecordKeepsItsValue(t *testing.T) {
	c := newCluster(t, nil)
	c.pools[0].fields["weight"] = nodepool.FieldView{Value: "90", Owner: "argocd/Apply", Ours: true}
	c.run(3 * time.Second)
	if f := c.pools[0].fields["weight"]; f.Value != "90" || f.Owner != "argocd/Apply" || f.Ours {
		t.Errorf("%+v", f)
	}
}

func TestEditOfBudgetsAroundTheFreezeKeepsBoth(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	eight := office(c, chat)
	c.now = eight.Add(-time.Minute)
	c.run(5 * time.Second)
	list := c.pools[0].fields["disruption.budgets"].Value
	c.edit(0, "disruption.budgets", nodepool.Value(strings.Replace(string(list), `{"nodes":"100%"}`, `{"nodes":"2"}`, 1)))
	c.run(20 * time.Minute)
	if c.allowed(c.pools[0], statemachine.ReasonUnderutilized) || c.s.Pools[0].Overrides[nodepool.FieldBudgets].Overwrites != 0 {
		t.Errorf("%s\n%s", c.pools[0].fields["disruption.budgets"].Value, c.why())
	}
	c.run(time.Hour)
	if got := c.pools[0].fields["disruption.budgets"].Value; got != `[{"nodes":"2"}]` {
		t.Errorf("restored to %s", got)
	}
}

func TestEditDuringReleaseStays(t *testing.T) {
	c, _, _ := zeroLimitCluster(t)
	c.deaf, c.releasing = true, true // the API server rejects gpuscaler's writes
	c.run(3 * time.Second)
	c.edit(0, "limits[nvidia.com/gpu]", `"4"`)
	c.deaf = false
	c.run(30 * time.Second)
	if c.limit(0) != 4 || c.limit(1) != 16 || c.pools[0].record+c.pools[1].record != "" {
		t.Errorf("limits %d and %d, records %q %q", c.limit(0), c.limit(1), c.pools[0].record, c.pools[1].record)
	}
}

func TestFailedWritesAreRepeatedAfterAnInterval(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	c.add("team-chat/llama", 1)
	c.run(statemachine.ZeroLimitDelay)
	c.deaf = true
	sent := 0
	for range 60 {
		c.step()
		sent += len(c.d.Actions)
	}
	if sent < 8 || sent > 14 {
		t.Errorf("%d patches to two NodePools in a minute of refusals", sent)
	}
	c.deaf = false
	c.run(11 * time.Second)
	if c.limit(0) != 0 {
		t.Errorf("limit %d", c.limit(0))
	}
}

func TestFieldsWithoutConsentAreNotWritten(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit, g.SpotWaitTimeout, g.Fallback = true, time.Minute, Hard })
	for _, p := range c.pools {
		p.consent = 0
	}
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	c.run(10 * time.Minute)
	if f := c.finding(explain.FindNotConsented); f == nil || f.Rule != explain.RuleZeroLimit || f.Resource != "nvidia.com/gpu" {
		t.Errorf("findings %+v", c.d.Findings)
	}
	c.pools[0].denied = true
	chat.want = 4
	c.run(5 * time.Hour)
	c.untouched(before)
	if c.writes > 0 {
		t.Errorf("%d writes", c.writes)
	}
}

func TestTheWordRestoreEndsEveryOverride(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	c.pools[0].consent |= nodepool.ConsentRestore
	c.run(5 * time.Second)
	if c.spec(0) != before[0] || c.pools[0].record != "" || c.limit(1) != 0 {
		t.Errorf("%s\nrecord %q, the other at %d", c.spec(0), c.pools[0].record, c.limit(1))
	}
	writes := c.writes
	c.run(time.Hour)
	if c.writes != writes {
		t.Errorf("%d writes after everything was restored", c.writes-writes)
	}
}

// While the owner's consent is withdrawn, the API server rejects every write, so the override stays and is reported. It is restored when
// the owner lists the field again together with restore.
func TestOverrideStaysAndIsReportedWhileConsentIsWithdrawn(t *testing.T) {
	for name, consent := range map[string]nodepool.Consent{"nothing": 0, "another field": nodepool.ConsentWeight,
		"restore alone": nodepool.ConsentRestore} {
		t.Run(name, func(t *testing.T) {
			c, chat, before := zeroLimitCluster(t)
			c.pools[0].consent = consent
			chat.want = 2
			writes := c.writes
			c.run(30 * time.Minute)
			if c.limit(0) != 0 || c.limit(1) == 0 {
				t.Errorf("limits %d and %d, want 0 as it was and the other lifted", c.limit(0), c.limit(1))
			}
			if c.writes > writes+2 {
				t.Errorf("%d writes in half an hour", c.writes-writes)
			}
			f := c.finding(explain.FindConsentWithdrawn)
			if f == nil || f.Pool != 0 || f.Resource != "nvidia.com/gpu" || f.Name != "16" && f.Name != `"16"` {
				t.Fatalf("findings %+v", c.d.Findings)
			}
			c.s = State{} // a new leader, whose only state is the record annotation
			c.run(5 * time.Second)
			if c.finding(explain.FindConsentWithdrawn) == nil || c.limit(0) != 0 {
				t.Errorf("a new leader: limit %d, findings %+v", c.limit(0), c.d.Findings)
			}
			c.pools[0].consent = nodepool.ConsentLimits | nodepool.ConsentRestore
			c.run(5 * time.Second)
			if c.spec(0) != before[0] || c.pools[0].record != "" || c.finding(explain.FindConsentWithdrawn) != nil {
				t.Errorf("%s, record %q", c.spec(0), c.pools[0].record)
			}
		})
	}
}

func TestEditAfterWithdrawnConsentStays(t *testing.T) {
	c, _, _ := zeroLimitCluster(t)
	c.pools[0].consent = 0
	c.edit(0, "limits[nvidia.com/gpu]", "7")
	c.run(10 * time.Minute)
	if c.limit(0) != 7 || c.finding(explain.FindConsentWithdrawn) != nil {
		t.Errorf("limit %d, findings %+v", c.limit(0), c.d.Findings)
	}
}

func TestUnsupportedFieldIsReported(t *testing.T) {
	c := newCluster(t, nil)
	chat := c.add("team-chat/llama", 1)
	chat.want = 3
	c.pools[0].denied, c.pools[0].unsupported, c.pools[1].unsupported = true, true, true
	c.until(5*time.Minute, "the group falls back", c.in(statemachine.Fallback))
	if f := c.finding(explain.FindUnsupported); f == nil || f.Field != nodepool.FieldWeight {
		t.Errorf("findings %+v", c.d.Findings)
	}
	for _, line := range c.log {
		if strings.Contains(line, "weight") {
			t.Error(line)
		}
	}
}

func TestAdvisoryGroupPlansAndRestores(t *testing.T) {
	c, chat, before := zeroLimitCluster(t)
	advisory := *c.g
	advisory.Advisory = true
	c.g = &advisory
	c.run(5 * time.Second)
	c.untouched(before)
	c.run(time.Hour)
	if len(c.d.Plan) != 2 || len(c.d.Actions) != 0 {
		t.Errorf("plan %v, actions %v", c.d.Plan, c.d.Actions)
	}
	chat.want = 4
	c.pools[0].denied = true
	c.run(4 * time.Hour)
	c.untouched(before)
	for _, p := range chat.pods {
		if p.cost.Value != "" || chat.lastAdvice != NoAdvice {
			t.Errorf("%+v, %+v", p.cost, chat.lastAdvice)
		}
	}
}

func TestCrashAtAnyTimeLosesNoOriginal(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.Fallback, g.SpotWaitTimeout, g.ZeroLimit = Hard, 3*time.Minute, true })
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	kills := 0
	step := func(d time.Duration) {
		for range int(d / (77 * time.Second)) {
			c.run(77 * time.Second)
			kept := c.s.Spot
			c.s = State{} // as after kill -9: the next leader has no state except the record annotations
			kills++
			c.step()
			if c.s.Spot.Phase != kept.Phase && kept.Phase != statemachine.PreferSpot {
				c.t.Errorf("%s: %v before, %v after\n%s", c.clock(), kept.Phase, c.s.Spot.Phase, c.why())
			}
		}
	}
	step(12 * time.Minute)
	chat.want = 3
	step(10 * time.Minute)
	c.pools[0].denied = true
	chat.want = 5
	step(2 * time.Hour)
	c.pools[0].denied = false
	step(4 * time.Hour)
	chat.want = 0
	step(time.Hour)
	c.releasing = true
	c.run(time.Minute)
	c.untouched(before)
	if kills < 100 || len(c.phases) < 4 {
		t.Errorf("%d kills, phases %v", kills, c.phases)
	}
}

func TestNodePoolWithoutGroupIsRestoredFromItsRecord(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	g, ok := Orphan(c.g.Pools[1].Name, c.pools[1].record)
	if !ok || g.Resource != "nvidia.com/gpu" {
		t.Fatalf("%+v, %v", g, ok)
	}
	all, pools := c.g, c.pools
	c.g, c.pools, c.loads, c.s, c.releasing = g, pools[1:], nil, State{}, true
	c.run(15 * time.Second)
	c.untouched(before[1:])
	c.g, c.pools = all, pools
	if _, ok := Orphan("x", `{"v":7}`); ok {
		t.Error("a record of another version was read")
	}
}

func TestNewVersionOfTheGroupKeepsOverrides(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	next := *c.g
	next.Pools = []Pool{c.g.Pools[1], c.g.Pools[0]} // the same NodePools in another order
	c.g, c.pools[0], c.pools[1] = &next, c.pools[1], c.pools[0]
	writes := c.writes
	c.run(time.Minute)
	if c.writes != writes || c.limit(0) != 0 {
		t.Errorf("%d writes", c.writes-writes)
	}
	c.releasing = true
	c.run(30 * time.Second)
	c.untouched([]string{before[1], before[0]})
}

// startFrom starts a new leader whose caches contain the given old observation for five seconds. During these seconds the API server
// rejects the leader's writes, because they contain an old resourceVersion.
func (c *cluster) startFrom(old Observation) {
	c.s, c.shown, c.lag = State{}, old, 5
	for _, p := range c.pools {
		p.seen = p.version - 1
	}
}

// The new leader's first observation is older than the previous leader's last write. The new leader must still restore the owners'
// original values.
func TestLeaderWithAnOldObservationFindsTheOriginals(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.OnDemandBase = 1 })
	before := c.specs()
	c.run(time.Minute)
	c.lag = 1000
	c.step()
	old := c.shown
	c.lag = 0
	c.run(2 * time.Minute) // the limit of the on-demand base is set
	if c.limit(1) != 1 {
		t.Fatalf("limit %d", c.limit(1))
	}
	c.startFrom(old)
	c.run(time.Minute)
	c.releasing = true
	c.run(time.Minute)
	c.untouched(before)

	// the old observation contains an override with a value that the previous leader changed later
	c.releasing = false
	c.run(3 * time.Minute)
	c.lag = 1000
	c.step()
	old = c.shown
	c.lag = 0
	c.add("team-chat/llama", 1).want = 3
	c.run(5 * time.Minute)
	c.pools[1].nodes = append(c.pools[1].nodes, &simNode{name: "late", created: c.now, changed: c.now, pool: c.pools[1]})
	c.run(5 * time.Second) // the limit is 2 now
	old.Workloads = make([]Workload, 1)
	c.startFrom(old)
	c.releasing = true
	c.run(2 * time.Minute)
	c.untouched(before)
}

// The owner's value is restored, but gpuscaler still owns the field, because the second request of the restore was not sent. gpuscaler
// must repeat the restore.
func TestRestoredFieldIsWrittenAgainWhileOwned(t *testing.T) {
	c, _, before := zeroLimitCluster(t)
	c.sticky = 3
	c.releasing = true
	writes := c.writes
	c.run(9 * time.Second)
	if c.writes != writes+2 {
		t.Errorf("%d writes to two NodePools in nine seconds", c.writes-writes)
	}
	c.run(time.Minute)
	c.untouched(before)
}
