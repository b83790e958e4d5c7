package capacity

import (
	"bytes"
	"fmt"
	hashes "hash"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"pgregory.net/rapid"
)

const corpusFile = "testdata/corpus.txt"

// TestDecisionsMatchTheRecordedCorpus replays fixed sequences of observations and compares a hash of every decision with the recorded one.
// A refactoring must not change the file; a change of behavior regenerates it with UPDATE_GOLDEN=1 and says why in its commit.
func TestDecisionsMatchTheRecordedCorpus(t *testing.T) {
	var got bytes.Buffer
	for seed := range 120 {
		fmt.Fprintf(&got, "cluster %d:%s\n", seed, rapid.Custom(clusterCorpus).Example(seed))
	}
	for seed := range 20 {
		fmt.Fprintf(&got, "several NodePools %d:%s\n", seed, rapid.Custom(sidesCorpus).Example(seed))
	}
	for seed := range 400 {
		fmt.Fprintf(&got, "bytes %d:%s\n", seed, bytesCorpus(t, uint64(seed)))
	}
	golden.Compare(t, corpusFile, got.String())
}

// digest computes a hash of decisions. sum returns the hash of the decisions since the previous call of sum, as six hexadecimal digits.
type digest struct{ hashes.Hash64 }

func newDigest() digest { return digest{fnv.New64a()} }

func (h digest) sum() string {
	s := fmt.Sprintf(" %06x", h.Sum64()>>40)
	h.Reset()
	return s
}

// clusterCorpus runs random events in the simulated cluster and returns the hashes of the decisions. After each event, it also hashes the
// decisions for random variations of the observation.
func clusterCorpus(t *rapid.T) (line string) { return newModel(t).corpus(t) }

// sidesCorpus returns the same hashes as clusterCorpus, for a group with several NodePools of a capacity type.
func sidesCorpus(t *rapid.T) (line string) { return newModelOfSides(t).corpus(t) }

func (m *model) corpus(t *rapid.T) (line string) {
	h := newDigest()
	m.t = ignoreFailures{}
	m.observed = func() { h.decision(m.g, &m.d) }
	if m.g.Buffer = rapid.Bool().Draw(t, "buffer"); m.g.Buffer {
		m.servesBuffers = rapid.Bool().Draw(t, "served")
	}
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	for range rapid.IntRange(5, 15).Draw(t, "events") {
		m.happen()
		m.run(time.Duration(rapid.SampledFrom([]int{1, 5, 30, 90, 300, 900}).Draw(t, "for")) * time.Second)
		line += h.sum()
		for range 3 {
			m.vary(h, random)
		}
		line += h.sum()
	}
	m.calm()
	return line + h.sum()
}

// ignoreFailures discards the failures that the checks of the simulated cluster report. The corpus test only compares decisions.
type ignoreFailures struct{}

func (ignoreFailures) Errorf(string, ...any) {}
func (ignoreFailures) Helper()               {}

// vary changes the observation at random, and adds the resulting decisions to the hash. It uses a copy of the state. Decisions are made one
// second, two minutes, three minutes and 25 minutes after the current time, and Shutdown runs after each decision.
func (m *model) vary(h digest, random *rand.Rand) {
	s, o, g := m.s, m.observe(), *m.g
	g.Advisory = random.IntN(10) == 0
	for i := range o.Pools {
		o.Pools[i].change(random, m.now)
	}
	for i := range o.Workloads {
		w := &o.Workloads[i]
		w.Quota, w.Claims, w.Paused = random.IntN(6) == 0, random.IntN(10) == 0, random.IntN(10) == 0
		w.Buffer = int32(random.IntN(2))
		if random.IntN(4) == 0 {
			w.Size, w.PodGPUs = 2, 1
			for j := range w.Pods {
				w.Pods[j].Replica = string(rune('a' + j/2))
			}
		}
		for j := range w.Pods {
			w.Pods[j].change(random)
		}
	}
	for i := range o.UnmanagedPods {
		o.UnmanagedPods[i].change(random)
	}
	version := m.g
	if random.IntN(3) == 0 {
		version = &g
	}
	for _, after := range []time.Duration{time.Second, 2 * time.Minute, 3 * time.Minute, 25 * time.Minute} {
		d, next := decided(s, version, o, m.now.Add(after), false)
		h.decision(version, &d)
		s = next
		var last Decision
		leaving := s
		leaving.Shutdown(version, &o, m.now.Add(after+time.Second), &last)
		h.decision(version, &last)
	}
}

func (v *PoolView) change(random *rand.Rand, now time.Time) {
	some := func(one int) bool { return random.IntN(one) == 0 }
	if some(8) {
		v.Mixed = true
	}
	if some(8) {
		v.Ready = false
	}
	if some(8) {
		v.Consent = nodepool.Consent(random.IntN(16))
	}
	if some(6) {
		v.Budgets.Value = `[{"nodes":"0"}]`
	}
	if some(6) {
		v.ConsolidateAfter.Value = `"Never"`
	}
	for range random.IntN(4) {
		v.Failures = append(v.Failures, evidence.Failure{UID: fmt.Sprint("f", random.Int()),
			At: now.Add(-time.Duration(random.IntN(400)) * time.Second), Capacity: !some(5)})
	}
	for range random.IntN(3) {
		at := now.Add(-time.Duration(random.IntN(4000)) * time.Second)
		v.Losses = append(v.Losses, evidence.Loss{UID: fmt.Sprint("l", random.Int()), At: at})
	}
	for i := range v.Limits {
		if some(6) {
			v.Limits[i].Value = [...]nodepool.Value{"0", "3", `"1k"`, `"64Gi"`, "x"}[random.IntN(5)]
		}
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.Notice, n.Deleting, n.Voluntary, n.Buffered = n.Notice || some(8), some(10), some(4), some(6)
		n.DoNotDisruptPods, n.BlockingPods = int32(random.IntN(3)/2), int32(random.IntN(3)/2)
		if some(8) {
			n.Stage = Stage(random.IntN(3))
		}
		if some(6) {
			n.GPUs = 8
		}
		if some(10) {
			n.Type = Reserved
		}
	}
}

func (p *Pod) change(random *rand.Rand) {
	some := func(one int) bool { return random.IntN(one) == 0 }
	p.Idle, p.Pinned, p.UnknownLabels, p.Loading = some(4), some(8), some(12), p.Loading || some(6)
	p.UnknownPlacement, p.Claims = p.UnknownPlacement || some(20), some(40)
	if some(6) {
		p.Owner = Owner(random.IntN(4))
	}
	if some(8) {
		p.DeletionCost = Annotation{Value: "-100", Ours: some(2)}
	}
	if some(8) {
		p.DoNotDisrupt = Annotation{Value: "30m", Ours: some(2)}
	}
}

// bytesCorpus returns the hash of decisions on groups and observations that are read from random bytes, as in the fuzz test. These groups
// and observations may be invalid.
func bytesCorpus(t *testing.T, seed uint64) (line string) {
	random := rand.New(rand.NewPCG(seed, 2))
	data := make([]byte, 4000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	tape, h := tape{data}, newDigest()
	g, err := NewGroup(tape.group())
	if err != nil {
		t.Fatal(err)
	}
	now, s := time.Unix(random.Int64N(1<<33), 0), State{}
	for i := range 6 {
		o := tape.observation(len(g.Pools), now)
		d, next := decided(s, g, o, now, i == 5)
		h.decision(g, &d)
		s = next
		now = now.Add(tape.duration() % 1e14)
	}
	return h.sum()
}

// decision adds the effects of a decision to the hash. It adds no texts, because they may be reworded. Of a record annotation, it adds
// only whether the annotation exists.
func (h digest) decision(g *Group, d *Decision) {
	for _, list := range [][]Action{d.Actions, d.Plan} {
		for _, a := range list {
			switch a := a.(type) {
			case NodePoolPatch:
				fmt.Fprint(h, "pool ", a.Pool, a.Loosens, a.Record != "", "\n")
				h.changes(a.Changes)
				h.changes(a.Overrides)
			case PodAnnotation:
				fmt.Fprintf(h, "pod %q %q %q %d %q %d\n", a.UID, a.Namespace, a.Name, a.Kind, a.Value, a.Rule)
			case Buffer:
				fmt.Fprint(h, "buffer ", a.Workload, " ", a.Replicas, "\n")
			}
		}
		fmt.Fprintln(h)
	}
	fmt.Fprintln(h, d.Advice, d.Demand.Policies, d.Demand.UnmanagedPods, d.Demand.Pending, d.Demand.Unknown, uint8(d.Phase))
	for _, f := range d.Findings {
		fmt.Fprintln(h, "finding", uint8(f.Kind), f.Pool, uint8(f.Field), f.Resource, f.Name, uint8(f.Rule), f.Count, uint8(f.Blocker),
			f.Hourly, f.Until.UnixMilli())
	}
	for _, r := range d.Reasons {
		if r.Rule == explain.RuleConsolidationFreeze {
			r.B = 0
		}
		fmt.Fprintln(h, "reason", uint8(r.Rule), r.Pool, r.Name, uint8(r.Cause), r.A, r.B, r.Until.UnixMilli())
	}
}

func (h digest) changes(all []override.Change) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b override.Change) int { return int(a.Field) - int(b.Field) })
	for _, c := range sorted {
		fmt.Fprintf(h, "%d %q %q %q %q %q %v %d\n", c.Field, c.Resource, c.From, c.To, c.Original, c.Owner, c.Restore, c.Rule)
	}
	fmt.Fprintln(h)
}
