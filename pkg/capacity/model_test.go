package capacity

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"pgregory.net/rapid"
)

// anyGroup returns a function that sets random valid options of a group.
func anyGroup(t *rapid.T) func(g *Group) {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	return func(g *Group) {
		g.ZeroLimit, g.ConsolidationFreeze = flag("zero limit"), flag("freeze")
		g.StartupShield, g.EmptyWholeNodes = flag("shield"), flag("packing")
		g.OnDemandBase = rapid.SampledFrom([]int64{0, 0, 1, 3}).Draw(t, "base")
		g.SpotWaitTimeout = time.Duration(rapid.SampledFrom([]int{0, 0, 60, 240}).Draw(t, "spot wait timeout")) * time.Second
		g.Fallback = FallbackMode(rapid.IntRange(0, 1).Draw(t, "fallback"))
		g.ReturnNodesPerHour = rapid.SampledFrom([]int64{0, 4, 60}).Draw(t, "pace")
		g.LeadTime = time.Duration(rapid.IntRange(0, 10).Draw(t, "lead")) * time.Minute
		if flag("schedule") {
			from := midnight.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "from")) * time.Second)
			w := calendar.Window{Name: "window", From: from, To: from.Add(time.Duration(rapid.IntRange(60, 3600).Draw(t, "length")) * time.Second)}
			g.Schedules = []Schedule{{Window: w, Limits: []Limit{{"nvidia.com/gpu", rapid.Int64Range(0, 20).Draw(t, "limit")}},
				Weight:           rapid.Int32Range(0, 100).Draw(t, "weight"),
				ConsolidateAfter: rapid.SampledFrom([]string{"", "Never", "5m"}).Draw(t, "after")}}
		}
	}
}

// model is the simulated cluster for random events. The field people contains the values that users wrote to the NodePools. In the end,
// these values must be restored.
type model struct {
	*cluster
	rt     *rapid.T
	people []map[string]nodepool.Value
}

func newModel(t *rapid.T) *model { return modelOf(t, anyGroup(t)) }

// newModelOfSides returns a model with one to three spot NodePools and one or two on-demand NodePools, of random weights.
func newModelOfSides(t *rapid.T) *model {
	options := anyGroup(t)
	spot, onDemand := rapid.IntRange(1, 3).Draw(t, "spot NodePools"), rapid.IntRange(1, 2).Draw(t, "on-demand NodePools")
	return modelOf(t, func(g *Group) {
		options(g)
		g.Pools = nil
		for i := range spot {
			g.Pools = append(g.Pools, Pool{fmt.Sprint("spot-", i), Spot})
		}
		for i := range onDemand {
			g.Pools = append(g.Pools, Pool{fmt.Sprint("ondemand-", i), OnDemand})
		}
	})
}

func modelOf(t *rapid.T, options func(g *Group)) *model {
	m := &model{cluster: newCluster(t, options), rt: t}
	for range rapid.IntRange(1, 2).Draw(t, "workloads") {
		m.add(fmt.Sprintf("team/load-%d", len(m.loads)), 1)
	}
	for _, p := range m.pools {
		p.gpus = rapid.SampledFrom([]int64{1, 1, 2}).Draw(t, "gpus")
		written := map[string]nodepool.Value{}
		for name, f := range p.fields {
			written[name] = f.Value
		}
		m.people = append(m.people, written)
	}
	return m
}

// happen causes one random event, such as a change of demand, a lost node, a user's edit or a crash.
func (m *model) happen() {
	t := m.rt
	pool := rapid.IntRange(0, len(m.pools)-1).Draw(t, "pool")
	p, l := m.pools[pool], m.loads[rapid.IntRange(0, len(m.loads)-1).Draw(t, "load")]
	switch event := rapid.SampledFrom([]string{"want", "want", "want", "deny", "deny", "lose", "notice", "signals", "cache", "kill",
		"edit", "consent", "job", "pause",
		"span", "deaf", "lag", "owner", "not ready", "gone"}).Draw(t, "event"); event {
	case "want":
		l.want = rapid.SampledFrom([]int32{0, 0, 1, 2, 5, 9}).Draw(t, "want")
	case "deny":
		p.denied = !p.denied
	case "lose", "notice":
		if len(p.nodes) > 0 {
			n := p.nodes[rapid.IntRange(0, len(p.nodes)-1).Draw(t, "node")]
			if n.notice = true; event == "lose" {
				m.lose(n)
			}
		}
	case "signals":
		l.unknown = !l.unknown
	case "cache":
		m.known = !m.known
	case "kill":
		m.s = State{}
	case "edit":
		m.userEdits(pool)
	case "consent":
		p.consent ^= nodepool.Consent(rapid.IntRange(1, 15).Draw(t, "fields"))
		p.version++
	case "job":
		if len(m.other) > 0 {
			m.other = nil
		} else {
			m.other = []*simPod{{uid: m.id("job"), name: "job", gpus: 1, since: m.now, unsure: rapid.IntRange(0, 3).Draw(t, "unsure") == 0}}
		}
	case "pause":
		l.paused = !l.paused
		m.disturbed++ // makes the method watch start its check of the batch again, because a pause can prolong or end the surge
	case "span":
		from := m.now.Add(time.Duration(rapid.IntRange(-600, 1800).Draw(t, "from")) * time.Second)
		m.ahead = []Span{{From: from, Until: from.Add(time.Duration(rapid.IntRange(60, 7200).Draw(t, "length")) * time.Second), GPUs: 2,
			Workload: l.key, Replicas: 2}}
	case "deaf":
		m.deaf = !m.deaf
	case "lag":
		m.lag = rapid.IntRange(1, 15).Draw(t, "lag")
	case "owner":
		l.owner = rapid.SampledFrom([]Owner{OwnerReplicaSet, OwnerStatefulSet}).Draw(t, "owner")
	case "not ready":
		p.ready = !p.ready
	case "gone":
		if len(p.nodes) == 0 {
			p.gone = !p.gone
			m.recreate(pool)
		}
	}
}

// userEdits changes a random field of a NodePool as a user. It uses values that no rule requests, because writing the current value is not
// an edit.
func (m *model) userEdits(pool int) {
	name := rapid.SampledFrom([]string{"weight", "limits[nvidia.com/gpu]", "disruption.budgets", "disruption.consolidateAfter"}).Draw(m.rt,
		"field")
	values := map[string][]nodepool.Value{
		"weight": {"33", "44", "100", ""}, "limits[nvidia.com/gpu]": {"21", `"23"`, "", `"2k"`},
		"disruption.budgets": {`[{"nodes":"100%"}]`, `[{"nodes":"3"}]`, ``,
			`[{"nodes":"50%","reasons":["Empty"]}]`}, "disruption.consolidateAfter": {`"45s"`, `"61s"`},
	}[name]
	v := rapid.SampledFrom(values).Draw(m.rt, "value")
	if m.pools[pool].fields[name].Value == v {
		return // a write that does not change the value does not change its owner either
	}
	m.edit(pool, name, v)
	m.people[pool][name] = v
}

// recreate replaces a NodePool, which a user deletes and creates again, by a NodePool with the values that users wrote. The new NodePool
// has no overrides and no record annotation.
func (m *model) recreate(pool int) {
	p := m.pools[pool]
	p.record, p.version = "", p.version+1
	for name, v := range m.people[pool] {
		p.fields[name] = nodepool.FieldView{Value: v, Owner: "kubectl"}
	}
}

// calm ends all failures, allows all fields to be restored and releases the group. It fails the test unless every field then has the
// value that a user wrote last, and no override, record annotation or pod annotation of gpuscaler is left.
func (m *model) calm() {
	m.deaf, m.lag, m.known, m.releasing = false, 0, true, true
	for _, p := range m.pools {
		p.gone, p.consent, p.version = false, nodepool.ConsentAny|nodepool.ConsentRestore, p.version+1
	}
	m.run(2 * time.Minute)
	for i, p := range m.pools {
		for name, want := range m.people[i] {
			if f := p.fields[name]; f.Value != want || f.Ours {
				m.rt.Errorf("%s of %s is %s, users wrote %s; owned by gpuscaler: %v", name, p.Name, f.Value, want, f.Ours)
			}
		}
		if p.record != "" {
			m.rt.Errorf("NodePool %s keeps the record %s", p.Name, p.record)
		}
	}
	for _, l := range m.loads {
		for _, pod := range l.pods {
			if pod.cost.Value != "" || pod.shield.Value != "" {
				m.rt.Errorf("pod %s keeps annotations %+v %+v", pod.name, pod.cost, pod.shield)
			}
		}
	}
}

// After random events, these rules must apply in every tick:
//
//   - No limit is below the current usage, except for a zero limit or a scheduled limit.
//   - Each field is written at most once per tick, and only with consent.
//   - No ready replica is missing during a return to spot.
//   - A fallback begins only if every spot NodePool that may launch nodes refused or lost a node, or pods waited for the timeout.
//
// After a release, every field has the value that a user wrote last.
func TestEveryHistoryCanBeReleased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModelOfSides(t)
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			m.happen()
			m.run(time.Duration(rapid.SampledFrom([]int{1, 5, 30, 90, 300, 900}).Draw(t, "for")) * time.Second)
		}
		m.calm()
	})
}

// Random events occur, and gpuscaler crashes after every tick that writes to a NodePool. The record annotations on the NodePools must be
// sufficient to restore all values.
func TestEveryHistoryCanBeReleasedWithACrashAfterEachWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModelOfSides(t)
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			m.happen()
			for range rapid.SampledFrom([]int{5, 30, 90, 300}).Draw(t, "for") {
				writes := m.writes
				if m.step(); m.writes != writes {
					m.s = State{}
				}
			}
		}
		m.calm()
	})
}
