package capacity

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// tape is a source of values for groups and observations, read from arbitrary bytes. After the last byte, every value is zero.
type tape struct{ rest []byte }

func (t *tape) byte() byte {
	if len(t.rest) == 0 {
		return 0
	}
	b := t.rest[0]
	t.rest = t.rest[1:]
	return b
}

func (t *tape) word() int64 {
	var b [8]byte
	t.rest = t.rest[copy(b[:], t.rest):]
	return int64(binary.LittleEndian.Uint64(b[:]))
}

func (t *tape) flag() bool              { return t.byte()%2 == 1 }
func (t *tape) duration() time.Duration { return time.Duration(t.word()) }

func (t *tape) text() string {
	n := min(int(t.byte()%40), len(t.rest))
	s := string(t.rest[:n])
	t.rest = t.rest[n:]
	return s
}

func (t *tape) value() nodepool.Value {
	return [...]nodepool.Value{"", "8", `"16"`, "20", "80", `"Never"`, `[{"nodes":"10%"}]`,
		`[{"duration":"15m","nodes":"0","reasons":["Empty"],"schedule":"0 0 23 11 *"}]`, "null", nodepool.Value(t.text())}[t.byte()%10]
}

func (t *tape) group() Group {
	g := Group{Name: t.text(), Resource: "nvidia.com/gpu", Advisory: t.byte()%8 == 1, OnDemandBase: t.word(), SpotWaitTimeout: t.duration(),
		Fallback: FallbackMode(t.byte() % 3), ReturnNodesPerHour: t.word(), ZeroLimit: t.flag(), ConsolidationFreeze: t.flag(),
		StartupShield:   t.flag(),
		EmptyWholeNodes: t.flag(), Buffer: t.flag(), LeadTime: t.duration()}
	for i := range t.byte()%4 + 1 {
		g.Pools = append(g.Pools, Pool{string(rune('a' + i)), CapacityType(t.byte() % 5)})
	}
	return g
}

func (t *tape) field() nodepool.FieldView {
	return nodepool.FieldView{Value: t.value(), Owner: t.text(), Ours: t.flag(), Unsupported: t.byte()%8 == 1}
}

func (t *tape) pod(now time.Time) Pod {
	return Pod{Replica: [...]string{"", "0", "1"}[t.byte()%3], UID: t.text(), Name: t.text(), Owner: Owner(t.byte() % 5),
		GPUs: t.word() % 16, Pool: int(int8(t.byte())) % 6, Node: int(int8(t.byte())) % 4,
		Pending: t.flag(), Since: now.Add(t.duration() % 1e13), Ready: t.flag(), Loading: t.flag(), Idle: t.flag(), Pinned: t.flag(),
		UnknownPlacement: t.flag(), UnknownLabels: t.flag(),
		DeletionCost: Annotation{t.text(), t.flag()}, DoNotDisrupt: Annotation{t.text(), t.flag()}}
}

func (t *tape) pool(now time.Time) PoolView {
	v := PoolView{Exists: t.byte()%4 > 0, Ready: t.flag(), Mixed: t.byte()%8 == 1,
		View: nodepool.View{Record: t.text(), Consent: nodepool.Consent(t.byte())}, Usage: t.word()}
	v.RecordOurs = v.Consent >= 128
	v.Weight, v.ConsolidateAfter, v.ConsolidationPolicy, v.Budgets = t.field(), t.field(), t.field(), t.field()
	for range t.byte() % 3 {
		v.Limits = append(v.Limits, nodepool.LimitView{Resource: [...]string{"nvidia.com/gpu", "cpu", t.text()}[t.byte()%3], FieldView: t.field(),
			Used: float64(t.word()), Node: float64(t.word())})
	}
	for range t.byte() % 4 {
		v.Nodes = append(v.Nodes, Node{Name: t.text(), UID: t.text(), Type: CapacityType(t.byte() % 5), Stage: Stage(t.byte() % 4),
			Ready: t.flag(), GPUs: t.word(), Used: t.word(),
			Created: now.Add(t.duration()), Deleting: t.flag(), Voluntary: t.flag(), Notice: t.flag(), BlockingPods: int32(t.word()),
			Hourly: float64(t.word())})
	}
	for range t.byte() % 6 {
		v.Failures = append(v.Failures, evidence.Failure{UID: t.text(), At: now.Add(t.duration() % 1e12), Capacity: t.flag()})
		v.Losses = append(v.Losses, evidence.Loss{UID: t.text(), At: now.Add(t.duration() % 1e12)})
	}
	return v
}

func (t *tape) observation(pools int, now time.Time) Observation {
	o := Observation{Lost: t.flag(), Shields: t.flag(), Buffers: t.flag()}
	for range max(0, pools-int(t.byte()%5)/4) {
		o.Pools = append(o.Pools, t.pool(now))
	}
	for i := range t.byte() % 3 {
		w := Workload{Key: string(rune('a' + i)), Uncapped: int32(t.word()), Extra: int32(t.word()), Current: int32(t.word()), GPUs: t.word(),
			PodGPUs: t.word(), Size: int32(t.byte() % 4), Known: t.flag(), Paused: t.flag(), Quota: t.flag(), Buffer: int32(t.byte())}
		for range t.byte() % 4 {
			w.Pods = append(w.Pods, t.pod(now))
		}
		o.Workloads = append(o.Workloads, w)
	}
	for range t.byte() % 3 {
		o.UnmanagedPods = append(o.UnmanagedPods, t.pod(now))
	}
	for range t.byte() % 2 {
		from := now.Add(t.duration() % 1e13)
		o.Ahead = append(o.Ahead, Span{From: from, Until: from.Add(t.duration()), GPUs: t.word(), Workload: "a", Replicas: int32(t.word())})
	}
	return o
}

// FuzzDecide calls Decide with groups that no validation has checked and with impossible observations. Decide must not panic. Two calls
// with the same input must return the same decision. Only fields with consent may be written, each at most once per patch.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add([]byte("bytes that are no valid group, to start from text: Decide must not panic for any of them, at any time, "+
		"and must not write without consent"), int64(-1))
	seed := make([]byte, 3000)
	for i := range seed {
		seed[i] = byte(i*i*7 + i*31)
	}
	f.Add(seed, int64(1795392000))
	f.Fuzz(func(t *testing.T, data []byte, start int64) {
		tape := tape{data}
		g, err := NewGroup(tape.group())
		if err != nil {
			t.Fatal(err)
		}
		now, s := time.Unix(start, 0), State{}
		for i := range 6 {
			o := tape.observation(len(g.Pools), now)
			again, _ := decided(s, g, o, now, i == 5)
			d, next := decided(s, g, o, now, i == 5)
			if a, b := fmt.Sprint(again.Actions, again.Advice, again.Reasons, again.Findings, again.Plan), fmt.Sprint(d.Actions, d.Advice,
				d.Reasons, d.Findings, d.Plan); a != b {
				t.Errorf("two decisions for the same input:\n%s\n%s", a, b)
			}
			checkDecision(t, g, &o, &d)
			s = next
			now = now.Add(tape.duration() % 1e14)
		}
	})
}

// checkDecision fails the test if a decision violates a rule that applies to every decision.
func checkDecision(t *testing.T, g *Group, o *Observation, d *Decision) {
	if len(d.Advice) != len(o.Workloads) || g.Advisory && slices.ContainsFunc(d.Advice, func(a Advice) bool { return a != NoAdvice }) {
		t.Errorf("advice %+v", d.Advice)
	}
	for _, r := range d.Reasons {
		if r.Text(g.Names()) == "" {
			t.Errorf("the reason of rule %v has no text", r.Rule)
		}
	}
	for _, a := range d.Actions {
		p, ok := a.(NodePoolPatch)
		if !ok {
			continue
		}
		i := slices.IndexFunc(g.Pools, func(q Pool) bool { return q.Name == p.Pool })
		seen := map[string]bool{}
		for _, c := range p.Changes {
			name := c.Name()
			if seen[name] || !c.Restore && (g.Advisory || o.Pools[i].Consent&nodepool.ConsentRestore != 0) ||
				o.Pools[i].Consent&c.Field.Consent() == 0 ||
				!o.Pools[i].Exists {
				t.Errorf("%+v of %+v", c, p)
			}
			seen[name] = true
		}
		if _, ok := recordOf(p.Record); p.Record != "" && !ok && !p.KeepsRecord {
			t.Errorf("a written record that cannot be read: %s", p.Record)
		}
	}
}

// FuzzBudgets adds the entries of a freeze to an arbitrary list of budgets and removes them again. No entry of the freeze may be left.
func FuzzBudgets(f *testing.F) {
	f.Add(`[{"nodes":"10%"}]`, int64(1795392000000), int64(15), int64(60))
	f.Add(`[]`, int64(0), int64(0), int64(1))
	f.Add(`[{"a":"\u003c"},7,null]`, int64(-1), int64(1<<40), int64(2))
	f.Fuzz(func(t *testing.T, list string, start, empty, under int64) {
		const minute = 60_000
		start = start / minute * minute % (1 << 50)
		h := statemachine.Freeze{Start: start, Empty: start + empty%1000*minute, InUse: start + under%1000*minute}
		v, ok := h.With(nodepool.Value(list))
		if !ok {
			return
		}
		statemachine.BlocksDisruption(v, statemachine.ReasonEmpty)
		entries := h.Empty > h.Start || h.InUse > h.Start
		back, ours := statemachine.WithoutFreeze(v)
		if entries && !ours {
			t.Errorf("%s: the freeze entries in %s are not recognized", list, v)
		}
		if again, more := statemachine.WithoutFreeze(back); more || again != back {
			t.Errorf("%s: removing the freeze twice returns %s and %s", list, back, again)
		}
	})
}
